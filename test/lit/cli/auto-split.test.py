"""Facts that the searches of a cut have in common: python3 auto-split.test.py MGC SPLIT STAGES MODEL FOLDER"""
import json
import re
import shlex
import subprocess
import sys

MGC, SPLIT, STAGES, MODEL, FOLDER = sys.argv[1:]
FLAGS = "--mbs 1 --gbs 16 --seq 2048 --bf16 --machine h100 --vpp 2 --schedule zb-v --pp 4"


def layouts(file):
    return json.load(open(file, encoding="utf-8"))["sizes"][0]["layouts"]


def run(words):
    return subprocess.run([MGC, *words], check=True, capture_output=True, text=True).stdout


first = layouts(SPLIT)[0]
if [one["command"] for one in layouts(SPLIT)] == [one["command"] for one in layouts(STAGES)]:
    print("both are the same")
run(["compile", MODEL, *FLAGS.split(), "-o", f"{FOLDER}/work"])
by_work = json.loads(run(["explain", f"{FOLDER}/work", "--json"]))["prediction"]["seconds"]
if first["seconds"] < by_work:
    print("the first is faster than by work")
best = json.loads(run(["compile", MODEL, "--auto", *FLAGS.split(), "--devices", "4", "--tp", "1", "--cp", "1", "--top", "1", "--no-recompute",
                       "--json"]))["sizes"][0]["layouts"][0]
if best["seconds"] <= by_work:
    print("--auto: a cut that is no slower")
words = shlex.split(first["command"])
words[words.index("PLAN")] = f"{FOLDER}/plan"
run(words[1:])
own = json.loads(run(["explain", f"{FOLDER}/plan", "--json"]))
cut = re.search(r"--stages (\S+)", first["command"])[1]
sizes = [int(size) for part in cut.split(",") for size in [part.split("x")[0]] * int((part + "x1").split("x")[1])]
if sum(sizes) == 32 and abs(own["prediction"]["seconds"] / first["seconds"] - 1) < 1e-9:
    print("the plan has the cut")
