#!/usr/bin/env python3
# Published steps (test/tables) beside the predictions of mgc explain: docs/published-runs.md.
#
#   test/bench/published.py --bin build/release/bin [--table T] [--model M] [--seen | --held] [--jobs N] [-v] [--json FILE]
#                           [--machine-dir DIR] [--choice]
#
# --choice: only the groups of one model, devices and batch that ran in several layouts, beside the goals of a choice among them.
# --machine-dir: machine files (a100.json, ..) that stand in for those of the same name in the binary. -v: every row.
import argparse
import collections
import concurrent.futures
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile
import threading

import published
from published import choosing, score
from published.configurations import is_seen
from published.row import BOUNDS, REASONS, Row, with_network


@dataclasses.dataclass
class Result:
    row: Row
    seconds: float = 0
    needed: int = 0  # bytes of the fullest rank
    fits: bool = True
    parts: dict = None
    refusal: str = ""  # mgc's message

    @property
    def ratio(self):
        return self.seconds / self.row.seconds

    @property
    def kind(self):
        return "excluded" if self.row.reason else "refused" if self.refusal else "bound" if self.row.bound else "predicted"


class Predictor:
    def __init__(self, options, folder):
        self.mgc, self.machines, self.folder = options.bin / "mgc", options.machine_dir, folder
        self.lock = threading.Lock()

    def machine(self, row):
        """The name of the row's machine, or a file where it has a file or another network."""
        file = self.machines / f"{row.machine}.json" if self.machines else None
        name = str(file) if file and file.exists() else row.machine
        if not row.network:
            return name
        changed = self.folder / f"{row.machine}-{row.network}.json"
        with self.lock:
            if not changed.exists():
                changed.write_text(with_network(self.run("explain", "--machine", name, "--print").stdout, row.network))
        return str(changed)

    def run(self, *arguments):
        return subprocess.run([self.mgc, *arguments], capture_output=True, text=True)

    def compile(self, number, row):
        """The folder of the plan, or mgc's message."""
        config, plan = self.folder / f"{number}.json", self.folder / f"{number}.plan"
        config.write_text(json.dumps(row.config))
        flags = [f"--machine={self.machine(row)}" if flag.startswith("--machine=") else flag for flag in row.flags]
        done = self.run("compile", config, *flags, "-o", plan, "--no-near-layouts")
        return (plan, "") if done.returncode == 0 else (None, done.stderr.strip().replace(str(config), "config.json"))

    def explain(self, plan, row):
        done = self.run("explain", plan, "--machine", self.machine(row), "--stack", row.stack, "--json")
        if done.returncode:
            raise SystemExit(f"{row.place}: mgc explain: {done.stderr}")
        return json.loads(done.stdout)

    def predict(self, number, rows):
        """Results of rows that have one plan."""
        plan, refusal = self.compile(number, rows[0])
        if refusal:
            return [Result(row, refusal=refusal) for row in rows]
        facts = {}
        for row in rows:
            key = row.machine, row.network, row.stack
            facts[key] = facts.get(key) or self.explain(plan, row)
        for file in sorted(plan.rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
        return [self.result(row, facts[row.machine, row.network, row.stack]) for row in rows]

    def result(self, row, facts):
        prediction, fits = facts["prediction"], facts["fits"]
        return Result(row, prediction["seconds"], fits["needed_bytes"], fits["fits"], prediction["parts"])


def wanted(row, options):
    return ((not options.table or row.table == options.table) and (not options.model or row.model == options.model)
            and (not options.seen or is_seen(row.model)) and (not options.held or not is_seen(row.model)))


def results_of(rows, options):
    plans = collections.defaultdict(list)
    for row in rows:
        if not row.reason:
            plans[json.dumps(row.config), row.flags].append(row)
    results = [Result(row) for row in rows if row.reason]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        predictor = Predictor(options, pathlib.Path(folder))
        for found in pool.map(predictor.predict, range(len(plans)), plans.values()):
            results += found
    order = {id(row): place for place, row in enumerate(rows)}
    return sorted(results, key=lambda result: order[id(result.row)]), len(plans)


def print_rows(results):
    for result in results:
        row = result.row
        if result.kind in ("predicted", "bound"):
            print(f"{row.place:40} {row.model:16} {row.machine:6} {result.ratio:6.3f} = {result.seconds:.4g} / {row.seconds:.4g} s"
                  f"{''.join(f', {bound} not stated' for bound in row.bound)}  {row.layout}")
    print()


def print_counts(results, plans):
    kinds = collections.Counter(result.kind for result in results)
    print(f"{len(results)} runs: " + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()) + f"; {plans} plans")
    reasons = collections.Counter(result.row.reason for result in results if result.row.reason)
    for reason, count in reasons.most_common():
        print(f"  excluded  {count:4}  {REASONS[reason]}")
    bounds = collections.Counter(bound for result in results if result.kind == "bound" for bound in result.row.bound)
    for bound, count in bounds.most_common():
        print(f"  bound     {count:4}  {BOUNDS[bound]}")
    refusals = collections.defaultdict(list)
    for result in results:
        if result.refusal:
            refusals[result.refusal.splitlines()[0]].append(result.row.place)
    for message, places in refusals.items():
        print(f"  refused   {len(places):4}  {', '.join(places)}: {message}")


def print_errors(results):
    print(f"\n{'|predicted / published - 1|':50} rows    mean  median     max")
    found = {(by, part): errors for by in score.BY for part, errors in score.parts(results, by).items()}
    for (by, part), (count, mean, median, largest) in {**found, ("all", ""): score.errors(results)}.items():
        print(f"  {by:18} {part:29} {count:4} {mean:7.1%} {median:7.1%} {largest:7.1%}")


def print_memory(results):
    wrong = [result for result in results if result.kind in ("predicted", "bound") and result.fits != result.row.ran]
    print(f"\n{len(wrong)} runs whose plan fits where they did not, or does not where they ran")
    for result in wrong:
        row = result.row
        print(f"  {row.place} {row.model}: {'ran' if row.ran else 'out of memory'}, {result.needed / 2**30:.1f} GiB a rank on "
              f"{row.machine}  {row.layout}")


def text_of(results, choices):
    """All of it, for scripts."""
    rows = [{**{field.name: getattr(result.row, field.name) for field in dataclasses.fields(Row) if field.name != "config"},
             "kind": result.kind, "seen": is_seen(result.row.model), "predicted": result.seconds, "needed_bytes": result.needed,
             "fits": result.fits, "parts": result.parts, "refusal": result.refusal} for result in results]
    predicted = [result for result in results if result.kind == "predicted"]
    return json.dumps({"rows": rows, "errors": {by: score.parts(predicted, by) for by in score.BY},
                       "choices": [{"group": choice.group, "layouts": len(choice.layouts), "regret": choice.regret, "tau": choice.tau}
                                   for choice in choices]}, indent=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default="build/release/bin")
    parser.add_argument("--table")
    parser.add_argument("--model")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--machine-dir", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--choice", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--seen", action="store_true")
    which.add_argument("--held", action="store_true")
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    every = published.rows()
    for flag, names in (("table", {row.table for row in every}), ("model", {row.model for row in every})):
        if (given := getattr(options, flag)) and given not in names:
            sys.exit(f"published.py: --{flag} {given}: expected one of {', '.join(sorted(names))}")
    rows = [row for row in every if wanted(row, options)]
    if options.choice:
        rows = score.groups(rows)
    if not rows:
        sys.exit("published.py: no row is of the table, the model and the part that were asked for, in a group of several layouts"
                 if options.choice else
                 f"published.py: no row of {options.table} has the model {options.model}, or is {'seen' if options.seen else 'held'}")
    results, plans = results_of(rows, options)
    predicted = [result for result in results if result.kind == "predicted"]
    choices = list(score.choices(predicted))
    if options.verbose:
        print_rows(results)
    print_counts(results, plans)
    if predicted:
        print_errors(predicted)
    if choices:
        choosing.report(choices)
        if options.choice:
            choosing.report_misses(choices)
    print_memory(results)
    if options.json:
        options.json.write_text(text_of(results, choices))


if __name__ == "__main__":
    main()
