#!/bin/bash
# Called by run.py, in new namespaces: machine.sh FOLDER PYTHON STEPS REPOSITORY. FOLDER gets the
# report; what is there before is below /report.
set -e
folder=$1 python=$2 steps=$3 repository=$4
mount --make-rprivate /
mount -t tmpfs -o size=2g tmpfs "$folder/disk"
mkdir "$folder/disk/upper" "$folder/disk/work" "$folder/disk/root"
root=$folder/disk/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/disk/upper,workdir=$folder/disk/work" "$root"
mount -t proc proc "$root/proc"
# systemd raises limits of the kernel there, and some are those of the whole machine.
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount --bind /sys "$root/sys"
mount -o remount,bind,ro "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for name in null zero full random urandom tty; do
    touch "$root/dev/$name"
    mount --bind "/dev/$name" "$root/dev/$name"
done
ln -s /proc/self/fd "$root/dev/fd"
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mkdir -p "$root/report"
mount --bind "$folder/report" "$root/report"
cat > "$root/etc/systemd/system/try.service" <<END
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
TimeoutStartSec=400
ExecStart=$python -I $steps $repository
StandardOutput=file:/report/steps
StandardError=inherit
ExecStopPost=/bin/kill -RTMIN+14 1
END
printf '[Unit]\nRequires=try.service\n' > "$root/etc/systemd/system/try.target"
mkdir "$root/old"
cd "$root"
pivot_root . old
umount -l /old
exec env -i container=radrm-try PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system --unit=try.target --show-status=no --log-target=console \
    </dev/null >/report/systemd 2>&1
