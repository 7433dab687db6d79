# auto.test.py MGC FOLDER FLAGS..: searches layouts, compiles the first by the command that was printed and by -o, and compares
# what the search, the command's plan and -o's plan say, with the load of experts of the flags. Out: a line for each, and the layout.
import json
import pathlib
import shlex
import subprocess
import sys

mgc, folder, flags = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
load = flags[flags.index("--load-imbalance"):][:2] if "--load-imbalance" in flags else []


def run(*words):
    done = subprocess.run([mgc, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    return done.stdout


def said(plan):
    explained = json.loads(run("explain", str(plan), *load, "--json"))
    return {"seconds": explained["prediction"]["seconds"], "bytes": max(stage["bytes"] for stage in explained["stages"])}


report = json.loads(run("compile", *flags, "--auto", "--json", "-o", str(folder / "chosen")))
layouts = report["sizes"][0]["layouts"]
assert report.get("expert_load", "even") == (float(load[1]) if load else "even"), report["expert_load"]
best = layouts[0]
program, command, *words = shlex.split(best["command"])
assert (program, command) == ("mgc", "compile"), best["command"]
words[words.index("-o") + 1] = str(folder / "again")
run("compile", *words)
assert [one["seconds"] for one in layouts] == sorted(one["seconds"] for one in layouts)
for one in layouts:
    assert one["bytes"] <= report["memory"]
    assert abs(one["searched"]["seconds"] / one["seconds"] - 1) < 0.01, one
for plan in ("again", "chosen"):
    same = said(folder / plan) == {"seconds": best["seconds"], "bytes": best["bytes"]}
    print(f"{plan}: {'as printed' if same else said(folder / plan)}")
print(f"best: {best['layout']}")
