#!/usr/bin/env python3
# Constants of the machines of NVIDIA's GPUs, fitted to measured kernels, collectives and steps of test/tables: docs/cost.md, Constants.
#
#   test/bench/calibrate.py --bin build/release/bin [--machine M] [--plans FOLDER] [--jobs N] [--write]
#
# Fits those of each machine (FITS below) to seen models alone (docs/published-runs.md), kernels and collectives first, steps last,
# and prints the mean errors of seen and held models before and after. --write: writes them, with where they come from, into
# plan/cost/machines. --plans: keeps the plans of the rows there, and takes those that are there. The same tables give the same files.
import argparse
import collections
import concurrent.futures
import csv
import dataclasses
import hashlib
import json
import math
import pathlib
import statistics
import subprocess
import tempfile

import published
from published.configurations import is_seen
from published.row import TABLES, with_network

ROOT = pathlib.Path(__file__).resolve().parents[2]
MACHINES = ROOT / "plan/cost/machines"
# A tile's edge takes as long as so many elements more: fraction of a tile = product / (1 + EDGE / m + EDGE / n).
EDGE = 16
# A row counts at most so much of |log(predicted / published)|: a disturbed run decides nothing.
MOST = 0.1
ROUNDS = 10
FIRST_STEP = 0.15


# --- Constants -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Constant:
    """A number of a machine file, the field of `sources` that says where it comes from, its bounds, which are physical, and where
    the descent begins, so that a file that was fitted is fitted alike."""
    field: str
    text: str  # in sources
    least: float
    most: float
    begin: float


CONSTANTS = {
    "product": Constant("products", "fractions", 0.4, 1.0, 0.85),
    "start_depth": Constant("products", "start_depth", 0, 512, 100),
    "forward": Constant("attention", "forward", 0.3, 0.9, 0.5),
    "backward": Constant("attention", "backward", 0.3, 0.9, 0.4),
    "memory": Constant("memory", "fraction", 0.5, 0.95, 0.8),
    "inner": Constant("links", "fraction of the first level", 0.4, 0.95, 0.75),
    "inner_latency": Constant("links", "latency of the first level", 1e-6, 3e-5, 4e-6),
    "start": Constant("", "", 1e-6, 1e-4, 2e-5),  # a measured call alone has it
    "outer": Constant("links", "fraction of the last level", 0.3, 0.98, 0.85),
    "outer_latency": Constant("links", "latency of the last level", 3e-6, 3e-5, 1e-5),
}


def read(machine, name):
    """The constant's value in a machine file's data."""
    if name == "product":
        tile = machine["products"]["tiles"][0]
        return tile["fraction"] * (1 + EDGE / tile["m"] + EDGE / tile["n"])
    if name == "start_depth":
        return machine["products"]["start_depth"]
    if name in ("forward", "backward"):
        return machine["attention"][name]
    if name == "memory":
        return machine["memory"]["fraction"]
    level = machine["links"][0 if name.startswith("inner") else -1]
    return level["latency" if name.endswith("latency") else "fraction"]


def changed(machine, values):
    """The machine's data with these values, rounded to three digits."""
    machine = json.loads(json.dumps(machine))
    for name, value in values.items():
        if name == "product":
            for tile in machine["products"]["tiles"]:
                tile["fraction"] = rounded(value / (1 + EDGE / tile["m"] + EDGE / tile["n"]))
        elif name == "start_depth":
            machine["products"]["start_depth"] = rounded(value)
        elif name in ("forward", "backward"):
            machine["attention"][name] = rounded(value)
        elif name == "memory":
            machine["memory"]["fraction"] = rounded(value)
        else:
            level = machine["links"][0 if name.startswith("inner") else -1]
            level["latency" if name.endswith("latency") else "fraction"] = rounded(value)
    return machine


def rounded(value):
    return float(f"{value:.3g}")


def descend(loss, values, names):
    """Coordinate by coordinate, with steps that become smaller where none helps."""
    values, steps = dict(values), dict.fromkeys(names, FIRST_STEP)
    best = loss(values)
    for _ in range(ROUNDS):
        for name in names:
            constant = CONSTANTS[name]
            for sign in (1, -1):
                moved = values[name] * (1 + sign * steps[name])
                tried = values | {name: rounded(min(constant.most, max(constant.least, moved)))}
                found = loss(tried)
                if found < best - 1e-7:
                    best, values = found, tried
                    break
            else:
                steps[name] /= 2
    return values


# --- Kernels and collectives ---------------------------------------------------------------------------------------


def table(name, **cells):
    with open(TABLES / f"{name}.csv", newline="") as file:
        return [row for row in csv.DictReader(file) if all(row[key] == value for key, value in cells.items())]


def product_seconds(machine, values, m, n, k, out_bytes):
    """As plan/cost/InstructionTime.cpp has it, without parts of k."""
    products = machine["products"]
    best = math.inf
    for tile in products["tiles"]:
        fraction = values["product"] / (1 + EDGE / tile["m"] + EDGE / tile["n"])
        for height, width in ((tile["m"], tile["n"]), (tile["n"], tile["m"])):
            waves = math.ceil(math.ceil(m / height) * math.ceil(n / width) / products["units"])
            flops = 2 * waves * products["units"] * height * width * (k + values["start_depth"])
            best = min(best, flops / (machine["flops"]["bf16"] * fraction))
    moved = 2 * (m * k + k * n) + out_bytes * m * n
    return machine["launch"] + max(best, moved / (machine["memory"]["bandwidth"] * values["memory"]))


def fit_products(machine, hardware, values):
    rows = [(int(row["m"]), int(row["n"]), int(row["k"]), 8 if row["out"] == "fp32" else 2,
             2 * int(row["m"]) * int(row["n"]) * int(row["k"]) / float(row["fraction_of_peak"]) / float(row["peak_tflops"]) / 1e12)
            for row in table("simumax_kernels", hardware=hardware, kernel="matmul")]

    def loss(tried):
        return statistics.mean(abs(math.log(product_seconds(machine, tried, *sizes) / seconds)) for *sizes, seconds in rows)

    values = descend(loss, values, ("product", "start_depth"))
    return values, f"{len(rows)} products of simumax_kernels.csv, mean error {loss(values):.1%}"


def fit_all_reduce(machine, hardware, values):
    rows = [(int(row["gpus"]), int(row["bytes"]), int(row["time_ns"]) * 1e-9)
            for row in table("vtrain_allreduce", hardware=hardware)]

    # A measured call has a start of its own, by the host, which the collectives of a step have not.
    def seconds(tried, ranks, moved):
        ring = 2 * moved * (ranks - 1) / ranks / (machine["links"][0]["bandwidth"] * tried["inner"])
        return tried["start"] + ring + 2 * (ranks - 1) * tried["inner_latency"]

    def loss(tried):
        return statistics.mean(abs(math.log(seconds(tried, ranks, moved) / taken)) for ranks, moved, taken in rows)

    values = descend(loss, values | {"start": CONSTANTS["start"].begin}, ("inner", "inner_latency", "start"))
    loss_of_fit = loss(values)
    return values, (f"{len(rows)} all-reduces of vtrain_allreduce.csv with a start of {1e6 * values.pop('start'):.0f} us each, "
                    f"mean error {loss_of_fit:.1%}")


# --- Steps ---------------------------------------------------------------------------------------------------------


class Plans:
    """The plans of rows, in a folder."""

    def __init__(self, options, rows):
        self.bin, self.folder = options.bin, options.plans
        self.rows = [(key, row) for row in rows for key in [self.key(row)]]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            made = dict(pool.map(self.compile, {key: row for key, row in self.rows}.items()))
        self.rows = [(key, row) for key, row in self.rows if made[key]]

    @staticmethod
    def key(row):
        return hashlib.sha256(json.dumps([row.config, row.flags]).encode()).hexdigest()[:16]

    def compile(self, keyed):
        key, row = keyed
        plan, config = self.folder / key, self.folder / f"{key}.json"
        if not (plan / "plan.json").exists():
            config.write_text(json.dumps(row.config))
            subprocess.run([self.bin / "mgc", "compile", config, *row.flags, "--no-near-layouts", "-o", plan], capture_output=True)
        return key, (plan / "plan.json").exists()


class Steps:
    """Predictions of rows of a machine."""

    def __init__(self, plans, rows):
        self.plans, self.rows = plans, rows
        kinds = collections.defaultdict(list)
        for key, row in rows:
            kinds[row.stack, row.network].append((key, row))
        self.kinds = [(kind, sorted({key for key, _ in of_kind}), of_kind) for kind, of_kind in kinds.items()]
        self.programs = [subprocess.Popen([plans.bin / "predictions", *(plans.folder / key for key in keys)], text=True,
                                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _, keys, _ in self.kinds]
        counts = collections.Counter((row.table, row.model) for _, row in rows)
        self.weights = {id(row): 1 / counts[row.table, row.model] for _, row in rows}  # a model of a table counts once

    def errors(self, machine):
        """(row, log of predicted / published)"""
        found = []
        for program, ((stack, network), keys, rows) in zip(self.programs, self.kinds):
            file = self.plans.folder / "machine.json"
            text = json.dumps(machine)
            file.write_text(with_network(text, network) if network else text)
            program.stdin.write(f"{file} {stack}\n")
            program.stdin.flush()
            seconds = dict(zip(keys, map(float, program.stdout.readline().split())))
            found += [(row, math.log(seconds[key] / row.seconds)) for key, row in rows]
        return found

    def loss(self, machine):
        errors = self.errors(machine)
        return (sum(self.weights[id(row)] * min(abs(error), MOST) for row, error in errors)
                / sum(self.weights[id(row)] for row, _ in errors))

    def close(self):
        for program in self.programs:
            program.stdin.close()
            program.wait()


# --- Machines ------------------------------------------------------------------------------------------------------

# How each machine is fitted: functions of kernels and collectives, and the constants that steps decide. `of`: another machine's.
PRODUCTS, ALL_REDUCE = "products", "all-reduce"
FITS = {
    "a100": {PRODUCTS: "A100-80GB-PCIe 8/node", ALL_REDUCE: "a100", "steps": ("memory", "inner", "outer", "outer_latency")},
    "h100": {"steps": ("product", "start_depth", "forward", "backward", "memory", "inner", "outer", "outer_latency")},
    "b200": {PRODUCTS: "B200-SXM 8/node", "steps": ("product", "forward", "backward", "memory", "inner")},
    "h200": {"of": "h100"},
}
# PyTorch's kernels stand in the stack's file by estimate: their rows decide nothing.
UNDECIDING = ("fsdp",)
OF_CHIP = ("product", "start_depth", "forward", "backward", "memory")  # numbers that machines of one chip share


def file_of(name):
    return json.loads((MACHINES / f"{name}.json").read_text())


def with_sources(machine, facts):
    """Each field's source says what was fitted to what; facts: {constant: text}."""
    for field in {CONSTANTS[name].field for name in facts}:
        by_text = collections.defaultdict(list)
        for name, text in facts.items():
            if CONSTANTS[name].field == field:
                by_text[text].append(CONSTANTS[name].text)
        kept = machine["sources"][field].split("; fitted: ")[0]
        parts = [f"{', '.join(names)} to {text}" for text, names in by_text.items()]
        machine["sources"][field] = f"{kept}; fitted: " + "; ".join(parts)
    return machine


def text_of(value):
    """JSON with numbers as people write them: 8e10, 0.85, 128."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {text_of(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(text_of, value)) + "]"
    if not isinstance(value, float):
        return json.dumps(value, ensure_ascii=False)
    mantissa, _, exponent = f"{value:.12e}".partition("e")
    short = f"{float(mantissa):g}e{int(exponent)}"
    return short if value != 0 and not 1e-4 <= abs(value) < 1e6 else f"{value:g}"


def written(machine):
    """The text of a machine file."""
    lines = [f' {json.dumps(key)}: {text_of(value)}' for key, value in machine.items() if key not in ("links", "sources")]
    links = ",\n".join(f"  {text_of(level)}" for level in machine["links"])
    sources = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in machine["sources"].items())
    return "{\n" + ",\n".join(lines) + f',\n "links": [\n{links}\n ],\n "sources": {{\n{sources}\n }}\n}}\n'


def print_errors(title, errors):
    parts = collections.defaultdict(list)
    for row, error in errors:
        parts["seen" if is_seen(row.model) else "held", row.stack].append(abs(math.expm1(error)))
    for (part, stack), found in sorted(parts.items()):
        print(f"  {title:7} {part} {stack:14} {len(found):4} rows  mean {statistics.mean(found):6.1%}  largest {max(found):6.1%}")


def fit(name, plans):
    how, before = FITS[name], file_of(name)
    rows = [(key, row) for key, row in plans.rows if row.machine == name]
    deciding = [pair for pair in rows if is_seen(pair[1].model) and pair[1].stack not in UNDECIDING]
    seen, everything = Steps(plans, deciding), Steps(plans, rows)
    print(f"{name}")
    print_errors("before", everything.errors(before))
    if "of" in how:
        other = file_of(how["of"])
        values = {constant: read(other, constant) for constant in OF_CHIP}
        facts = dict.fromkeys(values, f"what {how['of']} has")
    else:
        fitted = set(how["steps"]) | ({"product", "start_depth"} if PRODUCTS in how else set())
        fitted |= {"inner", "inner_latency"} if ALL_REDUCE in how else set()
        values = {name: constant.begin if name in fitted else read(before, name)
                  for name, constant in CONSTANTS.items() if constant.field}
        facts = {}
        if PRODUCTS in how:
            values, text = fit_products(before, how[PRODUCTS], values)
            facts |= dict.fromkeys(("product", "start_depth"), text)
        if ALL_REDUCE in how:
            values, text = fit_all_reduce(before, how[ALL_REDUCE], values)
            facts |= dict.fromkeys(("inner", "inner_latency"), text)
        values = descend(lambda tried: seen.loss(changed(before, tried)), values, how["steps"])
        errors = [abs(math.expm1(error)) for _, error in seen.errors(changed(before, values))]
        text = f"{len(errors)} published steps of seen models (docs/published-runs.md), mean error {statistics.mean(errors):.1%}"
        facts |= dict.fromkeys(how["steps"], text)
    after = with_sources(changed(before, {constant: values[constant] for constant in facts}), facts)
    print_errors("after", everything.errors(after))
    print("  " + ", ".join(f"{constant} {rounded(read(after, constant)):g}" for constant in facts), flush=True)
    seen.close()
    everything.close()
    return after


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--machine", choices=FITS)
    parser.add_argument("--plans", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    with tempfile.TemporaryDirectory() as folder:
        options.plans = (options.plans or pathlib.Path(folder)).resolve()
        options.plans.mkdir(parents=True, exist_ok=True)
        names = [options.machine] if options.machine else list(FITS)
        rows = [row for row in published.rows() if not row.reason and not row.bound and row.seconds and row.ran
                and row.machine in names]
        plans = Plans(options, rows)
        for name in names:
            machine = fit(name, plans)
            if options.write:
                (MACHINES / f"{name}.json").write_text(written(machine))


if __name__ == "__main__":
    main()
