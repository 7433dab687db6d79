#!/usr/bin/env bash
# examples.sh BIN [FOLDER... | --sample]: every model of examples/, or those named, compiles on one rank and with the options
# that examples/README.md says of it. --sample: each in one of the two ways, in turn.
set -euo pipefail
bin=$1
shift
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Lines "folder options" of the table's rows: | folder | on the hub | type | parameters | GPUs | options |
rows=$(sed -nE 's/^\| ([^| ]+) \|[^|]*\|[^|]*\| [0-9,]+ \| [0-9]+ \| ([^|]+) \|$/\1 \2/p' "$root/examples/README.md")
listed=$(cut -d' ' -f1 <<<"$rows" | sort)
present=$(cd "$root/examples" && printf '%s\n' */config.json | cut -d/ -f1 | sort)
diff <(echo "$listed") <(echo "$present") >&2 || { echo "examples/README.md (<) does not list the models (>)" >&2; exit 1; }

compiles() { # FOLDER OPTION...
  "$bin/mgc" compile "$root/examples/$1" "${@:2}" -o "$folder/plan" >"$folder/output" 2>&1 || { cat "$folder/output"; exit 1; }
  [ -s "$folder/plan/plan.json" ] || { echo "$*: no plan" >&2; exit 1; }
  rm -r "$folder/plan"
}

sample=
if [ "${1:-}" = --sample ]; then
  sample=yes
  shift
fi
turn=$(((${MGC_TEST_TURN:-$(date +%s) / 86400}) % 2)) # as test/e2e/turns.py
while read -r model options; do
  [ $# -eq 0 ] || [[ " $* " == *" $model "* ]] || continue
  turn=$((1 - turn))
  [ "$sample" ] && [ $turn -eq 0 ] || compiles "$model" --tp 1
  # shellcheck disable=SC2086  # a layout is several words
  [ "$sample" ] && [ $turn -eq 1 ] || compiles "$model" $options
done <<<"$rows"
# Modules that predict later tokens, on the last stage.
[ $# -ne 0 ] || compiles deepseek-v3 --mtp-num-layers 1 --tp 2 --pp 4 --dp 2 --ep 4 --etp 1
