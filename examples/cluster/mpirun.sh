#!/usr/bin/env bash
# mpirun.sh HOSTS PLAN SAVE [FLAG..]: trains PLAN with a process for each rank on the machines of HOSTS, and goes on with the
# training that SAVE holds. HOSTS has a line MACHINE:PROCESSES for each machine, such as the file hosts beside this script.
#
#   mpirun.sh hosts /shared/plan /shared/run --data /shared/corpus.bin --train-iters 10000 --save-interval 500
#
# mgrun must be on the PATH of all machines, and ssh from here to them must not ask for a password. Open MPI's mpirun or
# MPICH's mpiexec, whichever comes first on the PATH; MPIRUN=.. names another one, flags too: MPIRUN="mpirun --bind-to none".
set -euo pipefail
[ "$#" -ge 3 ] || { echo "mpirun.sh: found $# arguments, expected HOSTS PLAN SAVE [FLAG..]" >&2; exit 2; }
hosts=$1 plan=$2 save=$3
shift 3
read -r -a mpirun <<<"${MPIRUN:-mpirun}"
ranks=$(awk -F: '!/^ *(#|$)/ { sum += NF > 1 ? $2 : 1 } END { print sum }' "$hosts")
version=$("${mpirun[@]}" --version)
case $version in
  *"Open MPI"* | *OpenRTE*)
    slots=$(awk -F: '!/^ *(#|$)/ { printf("%s%s:%d", comma, $1, NF > 1 ? $2 : 1); comma = "," }' "$hosts")
    where=(--host "$slots") ;;
  *) where=(-f "$hosts") ;;
esac
exec "${mpirun[@]}" "${where[@]}" -n "$ranks" mgrun "$plan" --save "$save" --restart-from-latest "$@"
