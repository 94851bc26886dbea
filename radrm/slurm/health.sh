#!/bin/sh
# Slurm's HealthCheckProgram for nodes whose GPUs radrm shares. Put it beside slurm.conf, executable;
# `radrm slurm setup` prints it. After three failures in a row it drains the node, with the reason;
# once its radrm takes jobs again it resumes it, if nobody has given another reason meanwhile.
PATH=$PATH:/usr/local/bin:/usr/bin:/bin:/opt/slurm/bin # slurmd sets none
node=$SLURMD_NODENAME
count=@RUN@/radrm-health.$node
if why=$(timeout 20 @RADRM@ slurm health 2>&1); then
    [ -e "$count" ] || exit 0
    if [ "$(cat "$count")" -ge 3 ]; then
        scontrol -o show node "$node" | grep -q 'Reason=radrm: ' &&
            scontrol update "NodeName=$node" State=RESUME
    fi
    rm -f "$count"
    exit 0
fi
failures=$(($(cat "$count" 2>/dev/null || echo 0) + 1))
echo "$failures" >"$count"
[ "$failures" -eq 3 ] || exit 0
why=$(printf '%s' "${why:-its radrm does not run}" | tr -d '\n' | cut -c 1-160)
scontrol update "NodeName=$node" State=DRAIN "Reason=radrm: ${why#radrm: }"
