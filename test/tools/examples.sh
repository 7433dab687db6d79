#!/usr/bin/env bash
# examples.sh BIN: every model of examples/ compiles, on one rank and in a pipeline of tensor-parallel stages.
set -euo pipefail
bin=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
count=0
for model in "$root"/examples/*/; do
  tp=2
  case $model in */gpt2-xl/) tp=1 ;; esac # 25 heads: no tp but 1 divides them and the vocabulary
  for layout in "--tp 1" "--tp $tp --pp 4 --dp 2 --zero 1"; do
    # shellcheck disable=SC2086  # a layout is several words
    "$bin/mgc" compile "$model" $layout -o "$folder/plan" >"$folder/output" 2>&1 || { cat "$folder/output"; exit 1; }
    [ -s "$folder/plan/plan.json" ] || { echo "$model: no plan" >&2; exit 1; }
    rm -r "$folder/plan"
  done
  count=$((count + 1))
done
# Modules that predict later tokens, on the last stage.
"$bin/mgc" compile "$root/examples/deepseek-v3" --mtp-num-layers 1 --tp 2 --pp 4 --dp 2 --ep 4 --etp 1 -o "$folder/plan" \
  >"$folder/output" 2>&1 || { cat "$folder/output"; exit 1; }
[ "$count" -ge 23 ] || { echo "$count models, expected 23" >&2; exit 1; }
