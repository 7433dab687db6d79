#!/usr/bin/env python3
# Mutates a plan one fact at a time and shows that each mutant is noticed: refused by the verifiers (`mgc explain`, which
# runs all of them, or `mgrun`), or its training run differs from the plan's own (losses, norms, gradients, weights).
# A mutant that nothing notices is a fact nobody checks.
#
#   test/mutation/mutate.py --bin build/release/bin --plan PLAN [--sample N --seed S]
#
# Facts: every collective (dropped, doubled, over other axes), every scale factor of a coordinate, every local move, the
# accumulation of every gradient product, every send and receive (dropped, doubled, swapped with the next, other
# microbatch) and every wait (dropped).
import argparse
import concurrent.futures
import copy
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import safetensors  # noqa: E402

STEPS, SECONDS = 2, 120


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def read(plan):
    return json.loads((plan / "plan.json").read_text())


def write(document, plan):
    body = json.dumps(document["plan"])
    text = f'{{\n"version": {document["version"]},\n"checksum": "{fnv1a(body.encode()):016x}",\n"plan": {body}\n}}\n'
    (plan / "plan.json").write_text(text)


def mutants(document):
    """(what, function that changes a copy of the document in place)"""
    plan = document["plan"]
    axes = [axis["name"] for axis in plan["mesh"]["axes"]]
    for p, program in enumerate(plan["programs"]):
        for i, instruction in enumerate(program["instructions"]):
            where = f"{program['name']}[{i}] {instruction['label']}"
            yield from instruction_mutants(instruction, (p, i), where, axes)
    for s, stage in enumerate(plan["stages"]):
        for i, step in enumerate(stage["schedule"]):
            yield from step_mutants(stage["schedule"], step, (s, i))


def part(instruction, name):
    return instruction[name] if name in instruction else (instruction.get("body") or {}).get(name)


def instruction_mutants(instruction, at, where, axes):
    p, i = at

    def here(document):
        return document["plan"]["programs"][p]["instructions"]

    collective = part(instruction, "collective")
    if collective is not None:
        yield f"{where}: dropped", lambda d: here(d).pop(i)
        yield f"{where}: doubled", lambda d: here(d).insert(i, copy.deepcopy(here(d)[i]))
        for axis in axes:
            if collective["axes"] and [axis] != collective["axes"]:
                yield f"{where}: over {axis}", lambda d, a=axis: part(here(d)[i], "collective").update(axes=[a])
    if part(instruction, "move") is not None:
        yield f"{where}: move dropped", lambda d: here(d).pop(i)
    gemm = part(instruction, "gemm")
    if gemm is not None:
        yield f"{where}: accumulate flipped", lambda d: part(here(d)[i], "gemm").update(accumulate=not gemm["accumulate"])
    kernel = part(instruction, "rowKernel")
    if kernel is not None:
        yield f"{where}: kernel dropped", lambda d: here(d).pop(i)
        for n, scalar in enumerate(kernel["scalars"]):
            for t in range(len(scalar.get("terms", []))):
                yield (f"{where}: scalar {n} doubled", lambda d, n=n, t=t: part(here(d)[i], "rowKernel")["scalars"][n]["terms"][t].update(
                    scale=2 * part(here(d)[i], "rowKernel")["scalars"][n]["terms"][t]["scale"]))


def step_mutants(schedule, step, at):
    s, i = at
    where = f"stages[{s}].schedule[{i}] {step['kind']} microbatch {step['microbatch']}"

    def here(document):
        return document["plan"]["stages"][s]["schedule"]

    def drop(document):
        steps = here(document)
        steps.pop(i)
        for later in steps[i:]:
            later["waits"] = [w - (w > i) for w in later["waits"] if w != i]

    def swap(document):
        steps = here(document)
        steps[i], steps[i + 1] = steps[i + 1], steps[i]

    for n in range(len(step["waits"])):
        yield f"{where}: wait {step['waits'][n]} dropped", lambda d, n=n: here(d)[i]["waits"].pop(n)
    yield f"{where}: dropped", drop
    if step["kind"] in ("send", "recv"):
        yield f"{where}: other microbatch", lambda d: here(d)[i].update(microbatch=step["microbatch"] + 1)
        yield f"{where}: other value", lambda d: here(d)[i].update(value=step["value"] + 1)
    following = schedule[i + 1] if i + 1 < len(schedule) else None
    if following and following["kind"] == step["kind"] == "run" and following["microbatch"] >= 0 <= step["microbatch"]:
        yield f"{where}: swapped with the next", swap


class Judge:
    def __init__(self, options):
        self.bin, self.plan = options.bin.resolve(), options.plan.resolve()
        self.data = ["--data", str(options.data.resolve())] if options.data else ["--mock-data"]
        self.baseline = self.outcome(self.plan)
        if isinstance(self.baseline, str):
            raise SystemExit(f"the plan itself fails: {self.baseline}")

    def outcome(self, plan):
        """What a run gives, or how it was refused."""
        with tempfile.TemporaryDirectory(prefix="mgc-mutant-") as folder:
            where = pathlib.Path(folder)
            for command in ([self.bin / "mgc", "explain", plan, "--json"],
                            [self.bin / "mgrun", plan, *self.data, "--train-iters", str(STEPS), "--seed", "3", "--lr", "1e-2",
                             "--clip-grad", "0.1", "--log", where / "log", "--save", where / "weights",
                             "--save-gradients", where / "gradients", "--timeout", "20"]):
                try:
                    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
                except subprocess.TimeoutExpired:
                    return "hangs"
                if done.returncode not in (0, 1):
                    return f"crashes with {done.returncode}"
                if done.returncode:
                    return f"refused: {done.stderr.strip().splitlines()[0] if done.stderr.strip() else ''}"
            steps = [json.loads(line) for line in open(where / "log")]
            return ([(r["loss"], r["grad_norm"], r["tokens"]) for r in steps],
                    {n: t.tobytes() for n, t in safetensors.load(where / "gradients").items()},
                    {n: t.tobytes() for n, t in safetensors.load(where / "weights" / "model.safetensors").items()})

    def verdict(self, document, change):
        with tempfile.TemporaryDirectory(prefix="mgc-mutant-") as folder:
            plan = pathlib.Path(folder) / "plan"
            shutil.copytree(self.plan, plan)
            mutant = copy.deepcopy(document)
            change(mutant)
            write(mutant, plan)
            found = self.outcome(plan)
        if isinstance(found, str):
            return "bad" if found == "hangs" or found.startswith("crashes") else "refused", found
        return ("survives", "nothing differs") if found == self.baseline else ("differs", "")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default="build/release/bin")
    parser.add_argument("--plan", type=pathlib.Path, required=True)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--sample", type=int, default=0, help="0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    judge, document = Judge(options), read(options.plan)
    everything = list(mutants(document))
    if options.sample and options.sample < len(everything):
        everything = random.Random(options.seed).sample(everything, options.sample)
    counts = {"refused": 0, "differs": 0, "survives": 0, "bad": 0}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for (what, _), (verdict, why) in zip(everything, pool.map(lambda m: judge.verdict(document, m[1]), everything)):
            counts[verdict] += 1
            if verdict in ("survives", "bad"):
                print(f"{what}: {verdict}: {why}", flush=True)
    print(f"{len(everything)} mutants: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items()))
    sys.exit(1 if counts["survives"] or counts["bad"] or not everything else 0)


if __name__ == "__main__":
    main()
