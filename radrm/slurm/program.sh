# What each program of the folder `programs` runs. In a job RADRM_PYTHON is set; else the first line of radrm
# on the PATH names the Python.
python=$RADRM_PYTHON
[ -n "$python" ] || { read -r python <"$(command -v radrm)" && python=${python#??}; } 2>/dev/null
[ -n "$python" ] || { echo "${0##*/}: radrm is not on the PATH, and RADRM_PYTHON is not set" >&2; exit 127; }
exec "$python" -c 'import sys; sys.path[:] = [p for p in sys.path if p]; from radrm.slurm.named import main; main()' "${0##*/}" "$@"
