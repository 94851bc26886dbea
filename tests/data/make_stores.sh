# Run as root by: unshare -m sh tests/data/make_stores.sh TREE-OF-THE-LAST-RELEASE
# /home and /opt are empty here and now, so that no path of the machine comes into the stores.
set -eu
data=$PWD/tests/data
venv=$(readlink -f .venv)
for release in "0.1.0 $1" "0.2.0 $PWD"; do
    set -- $release
    mount -t tmpfs none /home
    mount -t tmpfs none /opt
    mkdir -p /home/ann
    ln -s "$venv" /opt/radrm
    cd /home/ann
    env -i PATH=/usr/bin:/bin "$venv/bin/python" "$data/make_store.py" "$2" "$data/store-$1.sql"
    cd /
    umount -l /opt
    umount -l /home
done
