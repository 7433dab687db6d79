"""pass-forms.test.py MG-OPT PHASES: which phases' forms in the folder each pass takes, and some of the errors of the others.

Every pair of a pass and a phase either ends with 0, or with an error that begins with the pass and names the phase.
"""
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PASSES = ["evaluate", "merge", "grad", "shard", "local", "ring", "order-rows", "stage", "tile", "fuse-epilogues", "fuse"]
SHOWN = [("local", "grad"), ("local", "local"), ("local", "fuse"), ("shard", "import"), ("stage", "grad"), ("tile", "stage"),
         ("fuse", "stage"), ("grad", "shard")]


def main():
    program, folder = sys.argv[1], Path(sys.argv[2])
    files = {path.stem.split("-", 1)[1]: path for path in sorted(folder.glob("*.mlir"))}

    def run(pair):
        name, phase = pair
        done = subprocess.run([program, files[phase], f"--mg-{name}", "-o", "/dev/null"], capture_output=True, text=True)
        start = f"error: mg-{name}: the module is in phase {phase}; expected phase "
        errors = [line for line in done.stderr.splitlines() if " error: " in line]
        if done.returncode and (len(errors) != 1 or start not in errors[0]):
            sys.exit(f"mg-{name} on {phase}: {done.stderr}")
        return errors[0].split(" error: ")[1] if done.returncode else None

    pairs = [(name, phase) for name in PASSES for phase in files]
    with ThreadPoolExecutor(2) as pool:
        results = dict(zip(pairs, pool.map(run, pairs)))
    for name in PASSES:
        print(f"mg-{name}:", ", ".join(phase for phase in files if results[name, phase] is None))
    for name, phase in SHOWN:
        print(f"mg-{name} on {phase}: {results[name, phase]}")


main()
