#!/bin/sh
# radrm slurm-step
# On a node without radrm the job goes back to Slurm, for another node.
back() {
    id=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}
    echo "radrm: node $SLURMD_NODENAME cannot run $radrm; the job goes back to Slurm" >&2
    was=$(scontrol -o show job "$id" | sed -n 's/.* ExcNodeList=\([^( ][^ ]*\) .*/,\1/p')
    trap '' TERM
    scontrol requeue "$id" && scontrol update "JobId=$id" "ExcNodeList=$SLURMD_NODENAME$was"
}
radrm=@RADRM@
[ -x "$radrm" ] || radrm=radrm
trap back EXIT
shopt -s execfail 2>/dev/null # bash; other shells run the trap
exec "$radrm" slurm-step "$0" "$@"
exit 127
