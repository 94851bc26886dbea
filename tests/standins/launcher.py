"""A stand-in for `radrun`: it speaks its files with the daemon, and has a process for each task.

A test writes it as the program `radrun` of a job. Files in the job's working folder direct it:

    wait-placed wait-begun wait-ended   it waits at this point of a resize while the file is there
    does-WORD                           it misbehaves: WORDS below
    finish                              it ends its tasks and itself, with the number in the file

and it notes each point that it has reached: `at-placed-G`, `at-begun-G`, `at-ended-G`. Each task is
a context on the simulated GPUs that its environment names, and notes that environment.
"""

WORDS = """
silent     it does not answer a placement
fails      it answers that the resize has failed
torn       its answer is half a file
wrong      its answer names another task
keeps      it says that a task is gone, which stays on its GPU
leave      at its end it says of its tasks what is in the file
"""

PROGRAM = r"""
import json, os, signal, socket, subprocess, sys, time
place = os.environ["RADRM_ELASTIC_DIR"]

WORKER = '''
import json, os, signal, sys
from radrm.host.simulated.client import DriverClient
signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
name = sys.argv[1]
gpus = len([g for g in os.environ["CUDA_VISIBLE_DEVICES"].split(",") if g])
if gpus:
    driver = DriverClient(os.environ["RADRM_SIMULATED_GPUS"])
    driver.attach(os.environ["CUDA_VISIBLE_DEVICES"], smact=0.1, gpus=gpus)
    driver.alloc(1024)
    driver.start()
with open("." + name, "w") as file:
    json.dump(dict(os.environ), file)
os.rename("." + name, name)
signal.pause()
'''

def note(name):
    open(name, "w").close()

def wait(name):
    while os.path.exists(name):
        time.sleep(0.01)

def does(word):
    return os.path.exists("does-" + word)

def write(name, text):
    draft = os.path.join(place, "." + name)
    with open(draft, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.rename(draft, os.path.join(place, name))

def read(generation):
    with open(os.path.join(place, "placement-%d.json" % generation)) as file:
        found = json.load(file)
    assert found["version"] == 1 and found["generation"] == generation
    return found["tasks"]

def start(generation, tasks):
    started = {}
    for task in tasks:
        name = "task-%d-%s-%d" % (generation, task["role"], task["task"])
        started[task["role"], task["task"]] = subprocess.Popen(
            [sys.executable, "-c", WORKER, name], env={**os.environ, **task["environment"]})
        while not os.path.exists(name):
            time.sleep(0.01)
    return started

def stop(processes):
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait()

def tell_tasks(generation, code):
    how = {"start_ticks": 1, "code": code, "signal": None, "host_oom": False}
    rows = [{"role": role, "task": task, "pid": p.pid, **how}
            for (role, task), p in running.items()]
    write("tasks.json", json.dumps({"version": 1, "generation": generation, "tasks": rows}))

def send(text):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        try:
            sender.sendto(text.encode(), os.environ["RADRM_PROGRESS"])
        except OSError:
            pass

def answer(generation, **fields):
    fields = {"version": 1, "generation": generation, **fields}
    write("resized-%d.json" % generation, json.dumps(fields))
    send("resized=%d" % generation)

def resize(generation):
    global running
    tasks = read(generation)
    note("at-placed-%d" % generation)
    wait("wait-placed")
    if does("silent"):
        return
    if does("fails"):
        return answer(generation, failed="no room for it")
    try:
        begun = os.path.join(place, "begun-%d" % generation)
        os.close(os.open(begun, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return
    note("at-begun-%d" % generation)
    wait("wait-begun")
    names = [[task["role"], task["task"]] for task in tasks]
    if does("keeps"):
        return answer(generation, tasks=names)
    stop(running.values())
    running = start(generation, tasks)
    if does("torn"):
        write("resized-%d.json" % generation, '{"version": 1, "gener')
        return
    answer(generation, tasks=[["main", 99]] if does("wrong") else names)
    note("at-ended-%d" % generation)
    wait("wait-ended")

running = start(1, read(1))
tell_tasks(1, None)
generation = 1
while not os.path.exists("finish"):
    if os.path.exists(os.path.join(place, "placement-%d.json" % (generation + 1))):
        generation += 1
        resize(generation)
        tell_tasks(generation, None)
    uses = ["use.%s.%d=%d,512,0.25" % (role, task, 10 * generation) for role, task in running]
    send("\n".join(uses))
    time.sleep(0.02)
stop(running.values())
code = int(open("finish").read() or 0)
tell_tasks(generation, code)
if does("leave"):
    write("tasks.json", open("does-leave").read())
sys.exit(code)
"""
