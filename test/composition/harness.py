# The shared part of the composition tests. Each file test_*.py is run by itself:
#
#   python3 test/composition/test_a_gradients.py --bin build/release/bin [test_03_mqa ...]
#
# in: mgc, mgrun, mg-opt of --bin; a test asks a Session for training runs of (config, layout) and compares them.
# out: one line per test, exit code 1 if one fails.
#
# Tolerances: gradients of the golden models spread by at most 7e-6 of a tensor's largest value between honest float32
# implementations, losses by 2e-6 and norms by 6e-6; four times that is allowed. Training uses --adam-eps 1, far above every gradient here, so that a step is -lr * gradient (and 0.5 * the
# one before): Adam proper divides a wrong factor out of sight.
import argparse
import itertools
import json
import math
import os
import pathlib
import shutil
import sys
import tempfile
import time
import traceback

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import models  # noqa: E402
import plan_lists  # noqa: E402
import tensor_files  # noqa: E402
import samples  # noqa: E402
import tool_runs  # noqa: E402

GRADIENT, LOSS, NORM = 4 * 7e-6, 4 * 2e-6, 4 * 6e-6
LR = 0.3
SECONDS = 120  # a run of these sizes takes less than one; longer is a hang


class Run:
    def __init__(self, folder):
        self.log = tool_runs.timeless(folder / "log.jsonl")
        gradients = folder / "gradients.safetensors"
        self.gradients = tensor_files.load(gradients) if gradients.exists() else {}
        self.weights = tensor_files.load(folder / "weights" / "model.safetensors")

    def norm(self):
        """The norm of the gathered gradients of step 0, in float64."""
        return math.sqrt(sum(float((g.astype(numpy.float64) ** 2).sum()) for g in self.gradients.values()))


class Session:
    def __init__(self, binaries, folder, step=1):
        self.binaries, self.folder, self.step = binaries, folder, step
        self.count = itertools.count()
        self.plans, self.runs = {}, {}

    def some(self, items, offset=0):
        """Every --sample-th, with other offsets others."""
        return samples.sample(items, self.step, offset)

    def execute(self, tool, *arguments):
        done = tool_runs.run(self.binaries / tool, *arguments, timeout=SECONDS, code=None)
        assert done.returncode in (0, 1), f"exit code {done.returncode}: {' '.join(done.args)}\n{done.stderr[-2000:]}"
        return done

    def new_folder(self):
        folder = self.folder / str(next(self.count))
        folder.mkdir()
        return folder

    def compile(self, config, layout, sequences=4, to=None, rules=None):
        """layout: flags of mgc; rules: another rule table, {dimension: axes}. The bundle's folder; with `to`, that phase's IR."""
        key = (json.dumps(config), layout, sequences, to, json.dumps(rules))
        if key not in self.plans:
            folder = self.new_folder()
            (folder / "config.json").write_text(json.dumps(config))
            flags = ["--seq", models.SEQUENCE, "--gbs", sequences, *layout.split()]
            flags += ["--mbs", 1] if "--mbs" not in layout else []
            flags += ["--compile-to", to] if to else []
            if rules:
                rows = [{"dimension": dimension, "axes": axes} for dimension, axes in rules.items()]
                (folder / "rules.json").write_text(json.dumps(rows))
                flags += ["--rules", folder / "rules.json"]
            done = self.execute("mgc", "compile", folder / "config.json", "-o", folder / "out", *flags)
            assert done.returncode == 0, f"mgc compile {layout}: {done.stderr}"
            self.plans[key] = (folder / "out").read_text() if to else folder / "out"
        return self.plans[key]

    def compile_edited(self, config, layout, sequences, edit):
        """The bundle of the layout's program, in which `edit`, (before, after), is replaced."""
        text, folder = self.compile(config, layout, sequences, to="import"), self.new_folder()
        assert edit[0] in text, f"{layout}: no {edit[0]} in {text}"
        (folder / "in.mlir").write_text(text.replace(*edit))
        done = self.execute("mgc", "compile", folder / "in.mlir", "-o", folder / "out")
        assert done.returncode == 0, f"mgc compile {layout}, edited: {done.stderr}"
        return folder / "out"

    def plan(self, config, layout, sequences=4):
        return plan_lists.named(json.loads((self.compile(config, layout, sequences) / "plan.json").read_text())["plan"])

    def optimize(self, text, *passes):
        """Text through mg-opt; its output."""
        path = self.new_folder() / "in.mlir"
        path.write_text(text)
        done = self.execute("mg-opt", path, *passes)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def train(self, config, layout, valid=models.VALID, steps=2, flags="", weights=None, rules=None):
        """A run on the base weights (or `weights`; "seed": drawn), from memory full of NaN."""
        if weights and weights != "seed":
            return self.train_new(config, layout, valid, steps, flags, weights, rules)
        key = (json.dumps(config), layout, valid, steps, flags, weights, json.dumps(rules))
        if key not in self.runs:
            self.runs[key] = self.train_new(config, layout, valid, steps, flags, weights, rules)
        return self.runs[key]

    def train_new(self, config, layout, valid=models.VALID, steps=2, flags="", weights=None, rules=None, batch=None,
                  edit=None):
        """batch: what the data file has, [steps, samples, ..]; else random_batch. edit: see compile_edited."""
        batch = batch or models.random_batch(config, valid)
        sequences, folder = batch["labels"].shape[1], self.new_folder()
        plan = (self.compile_edited(config, layout, sequences, edit) if edit
                else self.compile(config, layout, sequences, rules=rules))
        tensor_files.save(folder / "data.safetensors", batch)
        command = [plan, "--data", folder / "data.safetensors", "--train-iters", steps, "--poison", "--log",
                   folder / "log.jsonl", "--save", folder / "weights", "--no-save-optim", "--timeout", 60]
        if weights != "seed":
            tensor_files.save(folder / "start.safetensors", weights or models.random_weights(config))
            command += ["--load", folder / "start.safetensors"]
        if steps:
            command += ["--save-gradients", folder / "gradients.safetensors"]
        defaults = {"--lr": LR, "--lr-decay-style": "constant", "--adam-eps": 1.0, "--adam-beta1": 0.5,
                    "--weight-decay": 0.1, "--clip-grad": 0}
        for flag, value in defaults.items():
            command += [] if flag in flags.split() else [flag, value]
        done = self.execute("mgrun", *command, *flags.split())
        assert done.returncode == 0, f"mgrun on {layout}: {done.stderr}"
        return Run(folder)

    def refused(self, config, layout, valid=models.VALID, flags="", weights=None):
        """The message of train for a run that must fail, and the seconds it took."""
        begin = time.monotonic()
        try:
            self.train_new(config, layout, valid, 2, flags, weights)
        except AssertionError as error:
            return str(error), time.monotonic() - begin
        raise AssertionError(f"{layout} {flags}: runs")


def differences(one, many):
    """All that rounding does not explain, as text."""
    found = []
    for a, b in zip(one.log, many.log, strict=True):
        for key, bound in (("loss", LOSS * max(1, abs(a["loss"]))), ("grad_norm", NORM * a["grad_norm"]), ("tokens", 0)):
            if not abs(a[key] - b[key]) <= bound:
                found.append(f"step {a['step']} {key}: {a[key]}, {b[key]}")
    largest = max((float(abs(g).max()) for g in one.gradients.values()), default=0.0)
    # Key biases without rotary positions have a gradient of nearly zero: rounding there is that of the whole.
    bounds = {name: GRADIENT * max(float(abs(g).max()), 0.05 * largest) for name, g in one.gradients.items()}
    found += differing("gradient", one.gradients, many.gradients, bounds)
    # If a gradient differs by its bound, the weight moves by lr times that, in each step; the gradients of later steps
    # differ twice as much, their weights having differed. 4e-7 of a weight is 4 times its own rounding.
    steps = len(one.log)
    moved = {name: 2 * steps * LR * bounds.get(name, 0.0) + 4e-7 * max(1.0, float(abs(w).max()))
             for name, w in one.weights.items()}
    return found + differing("weight", one.weights, many.weights, moved)


def differing(what, one, many, bounds):
    if {n: t.shape for n, t in one.items()} != {n: t.shape for n, t in many.items()}:
        return [f"{what}s have other names or shapes"]
    errors = {name: float(abs(tensor.astype(numpy.float64) - many[name]).max()) for name, tensor in one.items()}
    return [f"{what} {name}: off by {error:.3g}, allowed {bounds[name]:.3g}"
            for name, error in errors.items() if not error <= bounds[name]]


def assert_equal(one, many, what):
    found = differences(one, many)
    assert not found, f"{what}: " + "; ".join(found[:6])


def assert_same_bits(one, many, what):
    assert one.log == many.log, f"{what}: {one.log} is not {many.log}"
    for kind in ("gradients", "weights"):
        a, b = getattr(one, kind), getattr(many, kind)
        assert a.keys() == b.keys(), f"{what}: {kind} of other names"
        other = [name for name in a if a[name].tobytes() != b[name].tobytes()]
        assert not other, f"{what}: other bits in {kind} {', '.join(other)}"


def compare_layouts(session, config, layouts, **options):
    """= 1: each layout gives what one rank gives."""
    one = session.train(config, "--tp 1", **options)
    for layout in layouts:
        assert_equal(one, session.train(config, layout, **options), f"{config['model_type']} {layout}")


def instructions(plan):
    return [i for program in plan["programs"] for i in program["instructions"]]


def main(tests):
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default="build/release/bin")
    parser.add_argument("--sample", type=int, default=1, help="one of so many layouts, where a test has many; default: all")
    parser.add_argument("tests", nargs="*", help="beginnings of names; default: all")
    options = parser.parse_args()
    chosen = {name: test for name, test in tests.items() if name.startswith("test_")
              and (not options.tests or any(name.startswith(begin) for begin in options.tests))}
    if not options.tests:  # SAMPLE of mgc_test
        names = list(chosen)
        chosen = {name: chosen[name] for name in samples.sample(names, min(len(names), int(os.environ.get("MGC_TEST_SAMPLE", "1"))))}
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mgc-composition-"))
    session, failed = Session(options.bin.resolve(), folder, options.sample), 0
    try:
        for name, test in chosen.items():
            begin = time.monotonic()
            try:
                test(session)
                print(f"ok     {name} ({time.monotonic() - begin:.1f} s)", flush=True)
            except Exception:  # one failing test does not hide the others
                failed += 1
                print(f"FAILED {name}\n{traceback.format_exc(limit=-3)}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(chosen) - failed} of {len(chosen)} tests passed, of seed {samples.seed()}")
    sys.exit(1 if failed or not chosen else 0)
