"""The context on the stand-in GPU: memory, queued work, the connection to the stand-in of MPS."""

import atexit
import ctypes
import json
import os
import socket
import sys
import threading
import time

import pynvml

MIB = 1 << 20
CONTEXT_MIB = 400
_LOOK_S = 0.25
_SMS, _WARPS = 132, 64


class OutOfMemoryError(RuntimeError):
    pass


class Held:
    """Memory of the GPU, until nobody has it any more."""

    def __init__(self, owner, size):
        self.owner, self.size = owner, size

    def __del__(self):
        self.owner.give_back(self.size)


class Tensor:
    def __init__(self, held, shape):
        self.held, self.shape = held, shape

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, place):
        return self

    def data_ptr(self):
        return 0


class Context:
    def __init__(self):
        self.mps = None
        self.gone = None
        pynvml.nvmlInit()
        named = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
        if named.isdecimal():
            self.gpu = pynvml.nvmlDeviceGetHandleByIndex(int(named))
        else:
            self.gpu = pynvml.nvmlDeviceGetHandleByUUID(named)
        self.uuid = pynvml.nvmlDeviceGetUUID(self.gpu)
        self.total_mib = pynvml.nvmlDeviceGetMemoryInfo(self.gpu).total // MIB
        self.used = self.most = 0
        self.queues, self.width = {}, 1.0
        self.occupied = 0.5
        self.busy_s, self.cap_mib = 0.0, None
        self.join_mps()
        self.tell()
        threading.Thread(target=self.report, daemon=True).start()
        atexit.register(self.leave)

    # ------------------------------------------------------------- MPS

    def join_mps(self):
        path = os.path.join(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/nowhere"), "control")
        self.mps = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.mps.connect(path)
        except OSError:
            self.mps = None
            return
        self.mps.sendall(b"client\n")
        told = self.mps.makefile()
        told.readline()
        # Each control daemon has one GPU, so its number is 0.
        limits = os.environ.get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "").split(",")
        for number, _, limit in (each.partition("=") for each in limits):
            if number == "0":
                self.cap_mib = int(limit[:-1]) * (1024 if limit[-1] == "G" else 1)
        threading.Thread(target=self.listen, args=(told,), daemon=True).start()

    def listen(self, told):
        for line in told:
            if line.strip() == "terminate":
                self.gone = "CUDA error: the client was terminated"
                self.mps.sendall(b"removed\n")
            if line.strip() == "fault":
                self.gone = (
                    "CUDA error: the MPS server is not ready to accept new MPS client requests"
                )

    # ------------------------------------------------------------- memory

    def take(self, size):
        if self.free_mib() * MIB < size:
            total, free = self.total_mib / 1024, self.free_mib()
            raise OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {size / MIB:.2f} MiB. GPU 0 has a total "
                f"capacity of {total:.2f} GiB of which {free} MiB is free."
            )
        self.used += size
        self.most = max(self.most, self.used)
        self.tell()
        return Held(self, size)

    def give_back(self, size):
        self.used -= size
        self.tell()

    def free_mib(self):
        info = pynvml.nvmlDeviceGetMemoryInfo(self.gpu, version=pynvml.nvmlMemory_v2)
        free_mib = info.free // MIB
        if self.cap_mib is not None:
            free_mib = min(free_mib, self.cap_mib - 25 - self.used // MIB)
        return free_mib

    def tell(self):
        # The list of MPS clients has them too; the compute list is what nvidia-smi prints.
        held = CONTEXT_MIB + self.used / MIB
        self.write(f"process {self.uuid} {os.getpid()} {held:g} compute")

    def write(self, *lines):
        with open(os.environ["STAND_IN_NVML_STATE"], "ab", buffering=0) as file:
            file.write("".join(f"{line}\n" for line in lines).encode())

    # ------------------------------------------------------------- work

    def enqueue(self, seconds, width, stream=0):
        self.queues[stream] = self.queues.get(stream, 0.0) + seconds
        self.width = width if stream == 0 else min(1.0, width * len(self.queues))

    def synchronize(self):
        if "kernels" in sys.modules:
            self.launched(ctypes.CDLL("libcuda.so.1"))
        took = max(self.queues.values(), default=0.0)
        self.queues.clear()
        while took > 0:
            part = min(took, _LOOK_S / 2)
            time.sleep(part)
            self.busy_s += part
            took -= part
        if "kernels" in sys.modules and ctypes.CDLL("libcuda.so.1").standin_broken():
            self.break_server()
        if self.gone:
            raise RuntimeError(self.gone)

    def launched(self, libcuda):
        """Kernels of a size: as many SMs as blocks, a millisecond each."""
        grid = (ctypes.c_uint * 2)()
        count = libcuda.standin_launches(grid)
        if count:
            self.enqueue(1e-3 * count, min(1.0, grid[0] / _SMS))
            warps = grid[0] * -(-grid[1] // 32)
            self.occupied = min(1.0, warps / (_SMS * _WARPS))

    def break_server(self):
        with open(os.environ["MPS_STANDIN_STATE"], "r+") as file:
            now = json.load(file)
            now["fault"] = now.get("fault", 0) + 1
            file.seek(0)
            json.dump(now, file)
            file.truncate()
        self.gone = "CUDA error: an illegal memory access was encountered"

    def report(self):
        """What the counters say of the last quarter of a second."""
        before_s, at_s = self.busy_s, time.monotonic()
        while True:
            time.sleep(_LOOK_S)
            now_s = time.monotonic()
            self.figures(min(1.0, (self.busy_s - before_s) / (now_s - at_s)))
            before_s, at_s = self.busy_s, now_s

    def figures(self, share):
        self.write(
            f"set {self.uuid} sm_util {100 * share * self.width:g}",
            f"set {self.uuid} graphics_util {100 * share:g}",
            f"set {self.uuid} sm_occupancy {100 * share * self.occupied:g}",
            f"set {self.uuid} utilization_gpu {round(100 * share)}",
        )

    def leave(self):
        self.figures(0.0)


_made = []


def context():
    if not _made:
        _made.append(Context())
    return _made[0]
