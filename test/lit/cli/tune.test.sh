# MGC CONFIG FOLDER: stops a compilation as soon as it remembers a product, and looks at what it leaves.
set -e
[ "$(nproc)" -gt 1 ] || exit 0 # one core: there is nothing to measure
cache=$3/stopped.json
"$1" compile "$2" --seq 32 --tune-products=2 --tune-cache "$cache" -o "$3/stopped" 2> "$3/stopped.txt" &
while kill -0 $! 2> "$3/ended.txt" && ! [ -s "$cache" ]; do sleep 0.05; done
kill -TERM $!
if wait $!; then exit 1; fi # it was still measuring
grep threads, "$cache"
[ -z "$(find "$3/stopped" -type f)" ]
