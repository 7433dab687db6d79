# reenter.test.sh MGC MODEL FOLDER LAYOUT...: compiles, dumps every phase, and goes on from each dump.
set -e
mgc=$1 model=$2 out=$3
shift 3
rm -rf "$out"
"$mgc" compile "$model" "$@" --dump-phases="$out/phases" -o "$out/direct" 2>/dev/null
for dump in "$out"/phases/*.mlir; do
  phase=$(basename "$dump" .mlir)
  phase=${phase#*-}
  "$mgc" compile "$dump" --compile-from="$phase" -o "$out/again" 2>/dev/null
  diff -r "$out/direct" "$out/again"
  echo "$phase same"
done
