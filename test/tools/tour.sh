#!/usr/bin/env bash
# tour.sh BIN: runs the commands of README.md's tour as they stand there, in an empty folder with the examples.
set -euo pipefail
bin=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
ln -s "$root/examples" examples
mapfile -t commands < <(sed -n 's/^    \(\$bin\/.*\)$/\1/p' "$root/README.md")
[ "${#commands[@]}" -ge 5 ] || { echo "README.md has no tour" >&2; exit 1; }
for command in "${commands[@]}"; do
  echo "$command"
  eval "$command" >output 2>&1 || { cat output; exit 1; }
  [ -s output ] || { echo "no output" >&2; exit 1; }
done
