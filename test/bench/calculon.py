#!/usr/bin/env python3
# The search of layouts beside Calculon's: GPT-3 175B on 1,024 A100, in a space that both have. docs/cost.md has its figures.
#
#   test/bench/calculon.py --calculon FOLDER --bin build/release/bin [--python PYTHON] [--mbs-break] [--rounds 5]
#
# FOLDER: a working copy of https://github.com/calculon-ai/calculon, of which its program, its model and its system of A100 are read.
# PYTHON: an interpreter that has numpy, pandas and psutil, which Calculon imports. --mbs-break: Calculon's own option, which leaves out
# larger microbatches where one does not fit; the answer is the same. Calculon runs once, in one process, mgc so many rounds. CPU seconds
# are user and system seconds of the whole process: start, model, search.
#
#   Calculon                                            mgc
#   tensor, pipeline, data ranks, microbatch            --tp, --pp, --dp, --mbs
#   interleaving                                        --vpp: a search of 1f1b with --vpp 1, another of interleaved
#   optimizer sharding                                  --zero 1: level 0 is never faster, and takes no less memory
#   recomputation of all, of attention, of nothing      each layer's, chosen within the memory; of a layer's parts too
#   all-reduce, or reduce-scatter and all-gather        --sp; whether the gather is repeated belongs to recomputation
#   --no-dp-overlap                                     --no-overlap-grad-reduce
#   --no-tp-overlap                                     nothing: collectives are hidden by the rules of docs/cost.md
#   no embedding, no head                               both, of 51,200 tokens, so stages are cut by work and by seconds
#   the largest batch that dp divides                   layouts whose dp divides the batch
#
# Neither offloads: the system's second memory is taken away. Calculon would try each network for each axis; in mgc the order of the ranks
# decides. So there is one network in both, the one between nodes. Memory is that of mgc's machine in both. Other lines of mgc are of more
# than the common space: all that a search without these flags tries, and the machine with NVLink inside nodes of 8.
import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

from compile import gpt

DEVICES, BATCH, MACHINE = 1024, 1536, "a100"
MODEL, SYSTEM, PROGRAM = "models/gpt3-175B.json", "systems/a100_80g.json", "bin/calculon"
PACKAGES = ("numpy", "pandas", "psutil")  # imported by Calculon
GOAL = 1  # CPU seconds of the search
BOTH = ("--zero=1", "--no-overlap-grad-reduce")
SEARCHES = {"1f1b": (*BOTH, "--schedule=1f1b", "--vpp=1"), "interleaved": (*BOTH, "--schedule=interleaved")}
WHOLE = "all schedules, levels 1 to 3, overlap"  # contains these

Found = collections.namedtuple("Found", "candidates cpu seconds layout")


def run(command, **more):
    """Standard output, and CPU seconds of the process and of those that it waited for."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen([str(word) for word in command], stdout=out, stderr=errors, **more)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), errors.seek(0)
        if child.returncode:
            sys.exit(f"{' '.join(map(str, command))}\n{out.read()}{errors.read()}")
        return out.read(), usage.ru_utime + usage.ru_stime


class Calculon:
    def __init__(self, options, machine):
        self.options = options
        for file in (MODEL, SYSTEM, PROGRAM):
            if not (options.calculon / file).exists():
                sys.exit(f"calculon.py: --calculon {options.calculon} has no {file}; expected a working copy of "
                         "https://github.com/calculon-ai/calculon")
        if not shutil.which(options.python) or subprocess.run(
                [options.python, "-c", f"import {', '.join(PACKAGES)}"], stderr=subprocess.DEVNULL).returncode:
            sys.exit(f"calculon.py: --python {options.python} does not import {', '.join(PACKAGES)}; expected an interpreter that has them")
        self.model = json.loads((options.calculon / MODEL).read_text())
        self.system = json.loads((options.calculon / SYSTEM).read_text())
        self.system["mem1"]["GiB"], self.system["mem2"]["GiB"] = machine["memory"]["bytes"] / 2**30, 0
        self.system["networks"] = self.system["networks"][-1:]

    def config(self):
        """Its model as config.json."""
        model = self.model
        if model["feedforward"] != 4 * model["hidden"] or model["attn_size"] * model["attn_heads"] != model["hidden"]:
            sys.exit(f"calculon.py: {self.options.calculon / MODEL} is no GPT with a feedforward of 4 hidden and heads of hidden / heads")
        return gpt(model["num_blocks"], model["hidden"], model["attn_heads"], model["seq_size"])

    def search(self, folder):
        system, best = folder / "system.json", folder / "best.json"
        system.write_text(json.dumps(self.system))
        text, cpu = run([self.options.python, PROGRAM, "llm-optimal-execution", MODEL, DEVICES, BATCH, "float16", system, best, "--cpus=1",
                         "--no-tp-overlap", "--no-dp-overlap", *(["--mbs-break"] if self.options.mbs_break else [])],
                        cwd=self.options.calculon, env={**os.environ, "PYTHONPATH": ".", "PYTHONDONTWRITEBYTECODE": "1"})
        best = json.loads(best.read_text())["0"]
        found = best["execution"]
        layout = (f"tp {found['tensor_par']}, pp {found['pipeline_par']}, dp {found['data_par']}, vpp {found['pipeline_interleaving']}, "
                  f"mbs {found['microbatch_size']}, zero {int(found['optimizer_sharding'])}")
        return Found(int(re.search(r"Total executions: (\d+)", text)[1]), cpu, best["stats"]["total_time"], layout)


class Mgc:
    def __init__(self, options, config, machine, folder):
        self.program, self.rounds, self.config = options.bin / "search_bench", options.rounds, folder / "config.json"
        self.config.write_text(json.dumps(config))
        network = folder / "machine.json"
        network.write_text(json.dumps(machine))
        self.same = [f"--target={machine['target']}", "--dtype=bf16", f"--gbs={BATCH}", f"--seq={config['n_positions']}", "--cp=1",
                     "--auto", "--top=1"]
        self.machines = {"": network, ", nodes of 8": MACHINE}

    def search(self, machine, flags):
        text, cpu = run([self.program, DEVICES, self.config, *self.same, f"--machine={machine}", *flags])
        best = re.search(r"^([\d.]+) s .*?(--tp.*)$", text, re.M)
        if not best:
            sys.exit(f"calculon.py: search_bench has found no layout with {' '.join(flags)}\n{text}")
        layout = dict(re.findall(r"--(\S+) (\S+)", best[2]))
        return Found(int(re.search(r"(\d+) enumerated", text)[1]), cpu, float(best[1]),
                     ", ".join(f"{key} {layout[key]}" for key in ("tp", "pp", "dp", "vpp", "mbs", "zero")))

    def measure(self, machine, flags):
        every = [self.search(machine, flags) for _ in range(self.rounds)]
        return every[0]._replace(cpu=statistics.median(found.cpu for found in every))

    def report(self):
        """Prints all searches; those of the space that both have, on the same network, as one."""
        totals = []
        for nodes, machine in self.machines.items():
            each = {name: self.measure(machine, flags) for name, flags in SEARCHES.items()}
            for name, found in each.items():
                report(f"mgc, {name}{nodes}", found)
            totals.append(total(each.values()))
            report(f"mgc, both{nodes}", totals[-1])
            report(f"mgc, {WHOLE}{nodes}", self.measure(machine, ()))
        return totals[0]


def machine_of(options):
    """mgc's machine, all of whose devices have the network between nodes alone."""
    machine = json.loads(run([options.bin / "mgc", "explain", "--machine", MACHINE, "--print"])[0])
    return {**machine, "links": machine["links"][-1:]}


def total(found):
    """Several searches as one: that of interleaved enumerates the layouts with one chunk a stage too, and refuses them."""
    best = min(found, key=lambda one: one.seconds)
    return best._replace(candidates=max(one.candidates for one in found), cpu=sum(one.cpu for one in found))


def report(name, found):
    print(f"{name:54} {found.candidates:10,} {found.cpu:8.2f} {found.candidates / found.cpu:12,.0f}  {found.seconds:.2f} s  {found.layout}",
          flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--calculon", type=pathlib.Path, required=True)
    parser.add_argument("--bin", type=pathlib.Path, default="build/release/bin")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--mbs-break", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    options.bin, options.calculon = options.bin.resolve(), options.calculon.resolve()
    machine = machine_of(options)
    calculon = Calculon(options, machine)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        print(f"{'':54} {'candidates':>10} {'CPU-s':>8} {'a CPU-s':>12}  step, layout")
        ours = Mgc(options, calculon.config(), machine, folder).report()
        theirs = calculon.search(folder)
    report(f"Calculon{', --mbs-break' if options.mbs_break else ''}", theirs)
    print(f"Calculon's CPU seconds are {theirs.cpu / ours.cpu:.0f} times mgc's {ours.cpu:.2f} (goal: at most {GOAL}); mgc's step is "
          f"{ours.seconds / theirs.seconds:.3f} of Calculon's, the layouts are {'the same' if ours.layout == theirs.layout else 'two'}")


if __name__ == "__main__":
    main()
