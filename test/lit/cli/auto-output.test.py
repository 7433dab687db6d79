# auto-output.test.py MGC MODEL FOLDER MACHINE: compares what --pareto, --sensitivity, --explain and a refusal say with what searches and
# plans say that ask for the same. MACHINE is the file of the machine that is searched for. Out: a line for each. Writes tight.json, a
# machine with 5 MB of memory, to the folder.
import json
import pathlib
import shlex
import subprocess
import sys

mgc, model, folder, machine = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), json.loads(pathlib.Path(sys.argv[4]).read_text())


def run(*words):
    return subprocess.run([mgc, *map(str, words)], capture_output=True, text=True, check=False)


def search(*flags):
    done = run("compile", model, "--auto", "--devices", 4, "--machine", "cpu", "--gbs", 8, "--seq", 64, "--cp", 1, "--schedule", "1f1b", "--mbs", 1,
               "--json", *flags)
    return json.loads(done.stdout)["sizes"][0]


def write(name, change):
    other = json.loads(json.dumps(machine))
    change(other)
    (folder / name).write_text(json.dumps(other))
    return folder / name


def slow_links(other):
    for level in other["links"]:
        level["bandwidth"] *= 0.8


write("tight.json", lambda other: other["memory"].update(bytes=5e6))
found = search("--top", 3, "--pareto", "--sensitivity", "--explain", "tp=2")
rows = found["pareto"]
assert rows[0] == found["layouts"][0]
for before, row in zip(rows, rows[1:]):
    assert row["bytes"] <= 0.9 * before["bytes"] and row["seconds"] > before["seconds"], (before, row)
print(f"pareto: {len(rows)} rows, each with less memory and more time")
assert found["too_little_memory"] == int(0.9 * rows[-1]["bytes"])
assert not search("--memory", found["too_little_memory"])["layouts"]
print("pareto: nothing fits into less")

links = write("links.json", slow_links)
for i, layout in enumerate(found["layouts"]):
    words = shlex.split(layout["command"])[1:]
    words[-1] = folder / "plan"
    run(*words)
    said = json.loads(run("explain", folder / "plan", "--machine", links, "--json").stdout)["prediction"]["seconds"]
    assert abs(said / found["sensitivity"][0]["seconds"][i] - 1) < 1e-6, (said, found["sensitivity"][0])
for one in found["sensitivity"]:
    assert one["order"] == sorted(one["order"], key=lambda number: one["seconds"][number - 1]), one
print("sensitivity: as mgc explain says")

explained, = found["explained"]
alone = search("--tp", 2, "--top", 1)["layouts"][0]
assert {key: explained[key] for key in ("command", "seconds", "bytes")} == {key: alone[key] for key in ("command", "seconds", "bytes")}
missing = explained["seconds"] - rows[0]["seconds"] - sum(explained["differences"].values())
assert abs(missing) < 0.01 * rows[0]["seconds"], missing  # parts that hardly differ are left out
print("explained: as a search with these flags")

nearest = search("--memory", 2_000_000)["nearest"]
needed = nearest["searched"]["bytes"]
assert search("--memory", needed)["layouts"] and not search("--memory", int(0.98 * needed))["layouts"]
print("nearest: fits, and nothing into less")
