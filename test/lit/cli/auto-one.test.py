# auto-one.test.py MGC MODEL FOLDER: compiles and predicts each value of an option, and compares the fastest with what `auto` as its value
# chooses. Out: a line for each option.
import json
import pathlib
import subprocess
import sys

mgc, model, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
CASES = (  # flag, values, other flags
    ("--mbs", (1, 2, 4, 8), ("--dp", 2)),
    ("--tp", (1, 2, 4), ("--world", 8, "--pp", 2)),
    ("--pp", (1, 2), ("--world", 4, "--tp", 2)),
    ("--vpp", (1, 2), ("--pp", 2)),
)


def run(*words):
    done = subprocess.run([mgc, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{words}: {done.stderr}")
    return done.stdout


for flag, values, plan in CASES:
    batch = ("--gbs", 16, "--seq", 64, "--machine", "cpu")
    seconds = {}
    for value in values:
        run("compile", model, *batch, *plan, flag, value, "--no-near-layouts", "-o", folder / "one")
        seconds[value] = json.loads(run("explain", folder / "one", "--json"))["prediction"]["seconds"]
    report = json.loads(run("compile", model, *batch, *plan, flag, "auto", "--json"))["sizes"][0]
    assert report["counts"]["enumerated"] == len(values), report["counts"]
    assert [layout["seconds"] for layout in report["layouts"]] == sorted(seconds.values()), (flag, seconds, report)
    print(f"{flag} auto: the fastest of {len(values)}")
