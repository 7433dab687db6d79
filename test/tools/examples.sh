#!/usr/bin/env bash
# examples.sh BIN [FOLDER... | --sample]: every model of examples/, or those named, compiles on one rank and with the options
# that examples/README.md says of it. --sample: a quarter of that.
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
number=${MGC_TEST_SEED:-$((16#$(git -C "$root" rev-parse --short=7 HEAD 2>/dev/null || echo 0)))} # as test/e2e/samples.py
is_chosen() { # LAYOUT of the model: 0, one rank, or 1, that of the table
  [ ! "$sample" ] || [ $((number % 4)) -eq $((2 * $1)) ]
}
while read -r model options; do
  [ $# -eq 0 ] || [[ " $* " == *" $model "* ]] || continue
  number=$((number + 1))
  if is_chosen 0; then compiles "$model" --tp 1; fi
  # shellcheck disable=SC2086  # a layout is several words
  if is_chosen 1; then compiles "$model" $options; fi
done <<<"$rows"
# Modules that predict later tokens, on the last stage.
[ $# -ne 0 ] || compiles deepseek-v3 --mtp-num-layers 1 --tp 2 --pp 4 --dp 2 --ep 4 --etp 1
