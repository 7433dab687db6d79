#!/usr/bin/python3
"""Room for so many times the mean of experts' rows: python3 experts_room.py BIN REPOSITORY [MPIRUN ..] [Class.test]

A router that sends every token of a step to the same experts ends the step, on all ranks alike, before a byte is written that the
plan has no room for; a plan with more room goes on from the checkpoint before it, with the bits of a run that had it from the
start.
"""
import json
import math
import re
import sys
import unittest

import numpy
import tensor_files
from tool_runs import GOLDEN, ROOT, compile_plan, enter_folder, expect, read, run, timeless, words

setUpModule = enter_folder
MPIRUN = [word for word in sys.argv[3:] if not re.fullmatch(r"[A-Z]\w*(\.\w+)?", word)]
STEPS, BATCH, SEQUENCE, WRONG = 4, 8, 32, 2  # the step whose tokens are all alike, counted from 0
MODEL = GOLDEN / "qwen3_moe"
# The mean rows of a rank in a microbatch: two for each token, of 2 sequences on each of 4 data ranks, shared out among 4; or less.
MEANS = {"alltoall": 128, "allgather": 128, "stages": 64, "sequences": 64, "kept": 128, "context": 64}
# Layouts whose ranks share experts out in several groups, or each expert; their rows never are all of one rank.
OTHERS = {
    "groups": "--dp 4 --ep 2 --moe-token-dispatcher-type alltoall --mbs 1",
    "columns": "--tp 2 --dp 2 --ep 2 --etp 2 --moe-token-dispatcher-type allgather --mbs 2",
    "columns_sp": "--tp 2 --dp 2 --ep 2 --etp 2 --sp --moe-token-dispatcher-type alltoall --mbs 2",
    "capacity": "--dp 4 --ep 4 --moe-token-dispatcher-type alltoall --mbs 2 --moe-expert-capacity-factor 1.3",
}
# Two experts of eight on each of four ranks, two choices of a token: tokens that are all alike choose two experts, so a rank gets
# at least twice the mean of the rows, or four times. Random ones get less than 1.9 times.
TIGHT, ROOMY = "--moe-rows-factor 1.9", "--moe-rows-factor 4"
LAYOUTS = {
    "alltoall": "--dp 4 --ep 4 --moe-token-dispatcher-type alltoall --mbs 2",
    "allgather": "--dp 4 --ep 4 --moe-token-dispatcher-type allgather --mbs 2",
    "stages": "--dp 4 --ep 4 --pp 2 --moe-token-dispatcher-type alltoall --mbs 1 --schedule zb-h1",
    "sequences": "--tp 2 --dp 2 --ep 4 --etp 1 --sp --moe-token-dispatcher-type alltoall --mbs 2",
    "kept": "--dp 4 --ep 4 --moe-token-dispatcher-type alltoall --mbs 2 --no-recompute --zero 1",
    "context": "--cp 2 --dp 2 --ep 4 --moe-token-dispatcher-type allgather --mbs 2 --zero 3",
}
ENDS = re.compile(r"rank (\d) \(stage (\d)\), step 2, microbatch 0, forward.0, layer\.(\d)\.forward/(exchange|group): "
                  r"the (?:rank's experts|experts of rank \d) (?:have|get) (\d+) (?:of \d+ )?rows \(expert (\d): (\d+)\); "
                  r"the plan has room for (\d+)\n  possible: a plan of a larger --moe-rows-factor")


def compiled(layout, *flags):
    name = re.sub(r"\W+", "_", " ".join((layout, *flags)))
    compile_plan(name, MODEL / "config.json", (LAYOUTS | OTHERS)[layout], f"--seq {SEQUENCE} --gbs {BATCH}", "--target-cpu native", *flags)
    return name


def facts(plan):
    return json.loads(run("mgc", "explain", plan, "--json").stdout)["stages"]


def write_batches(path, wrong):
    draw = numpy.random.default_rng(7)
    ids = draw.integers(0, 128, (STEPS, BATCH, SEQUENCE), dtype=numpy.int64)
    if wrong:
        ids[WRONG] = 5
    tensor_files.save(path, {"input_ids": ids, "labels": numpy.roll(ids, -1, 2)})


def train(plan, *flags, launcher=(), code=0):
    return run(*launcher, *words(("mgrun", plan, "--train-iters", STEPS, "--threads", 1, *flags)), code=code)


class Room(unittest.TestCase):
    def test_memory_follows_the_factor(self):
        """Less room, less memory; what explain says is room is what a plan of the mean has less."""
        for layout in ("alltoall", "allgather", "kept"):
            with self.subTest(layout=layout):
                bytes_of = {factor: facts(compiled(layout, f"--moe-rows-factor {factor}"))[0] for factor in (0, 1, 1.5, 2, 100)}
                sizes = [bytes_of[factor]["bytes"] for factor in (1, 1.5, 2, 100)]
                self.assertEqual(sizes, sorted(set(sizes)))
                self.assertEqual(bytes_of[100]["bytes"], bytes_of[0]["bytes"])
                less = bytes_of[0]["bytes"] - bytes_of[1]["bytes"]
                self.assertAlmostEqual(bytes_of[0]["room_beyond_mean_bytes"] / less, 1, delta=0.25)
                self.assertEqual(bytes_of[1]["room_beyond_mean_bytes"], 0)

    def test_stages_are_cut_by_even_loads(self):
        """Layers with experts are no more work where there is more room, so the cut of a model with dense layers is one."""
        layers = []
        for factor in (0, 1, 8):
            compile_plan("cut", ROOT / "examples/deepseek-v3/config.json", "--pp 16 --dp 8 --ep 8 --target cuda:sm_90 --bf16 --seq 4096",
                         "--gbs 128 --no-near-layouts --moe-rows-factor", factor)
            layers.append([stage["layers"] for stage in facts("cut")])
        self.assertEqual(layers[1:], layers[:1] * 2)
        self.assertLess(layers[0][0][0][1], 6)  # three dense layers, of a third of the work of one with experts, and few others

    def test_same_bits(self):
        """Rows that fit are the same rows."""
        write_batches("even.safetensors", wrong=False)
        for layout in LAYOUTS | OTHERS:
            with self.subTest(layout=layout):
                logs = []
                for flags in ("", TIGHT):
                    plan = compiled(layout, flags)
                    train(plan, "--data", "even.safetensors", "--log", f"{plan}.jsonl")
                    logs.append(timeless(f"{plan}.jsonl"))
                self.assertEqual(*logs)

    def ends(self, layout, launcher=()):
        """The step is named, the checkpoint before it whole, and a plan with more room goes on from it."""
        write_batches("wrong.safetensors", wrong=True)
        data = ("--data", "wrong.safetensors", "--save", "run", "--save-interval", 1, "--log", "log.jsonl")
        run("rm", "-rf", "run", "log.jsonl", "whole.jsonl")
        failed = train(compiled(layout, TIGHT), *data, launcher=launcher, code=None)
        self.assertNotEqual(failed.returncode, 0)
        found = ENDS.search(failed.stderr)
        self.assertTrue(found, failed.stderr)
        rows, most, room = int(found[5]), int(found[7]), int(found[8])
        self.assertGreater(rows, room)
        self.assertEqual(room, math.ceil(1.9 * MEANS[layout]))
        self.assertLessEqual(most, rows)
        self.assertEqual(len(set(re.findall(r"step (\d+), microbatch", failed.stderr))), 1)
        self.assertEqual(read("run/latest_checkpointed_iteration.txt").strip(), str(WRONG).encode())
        roomy = compiled(layout, ROOMY)
        train(roomy, *data, "--load", "run", launcher=launcher)
        train(roomy, "--data", "wrong.safetensors", "--log", "whole.jsonl")
        self.assertEqual(timeless("log.jsonl"), timeless("whole.jsonl"))

    def test_ends_in_threads(self):
        for layout in LAYOUTS:
            with self.subTest(layout=layout):
                self.ends(layout)

    @unittest.skipUnless(MPIRUN, "no mpirun was given")
    def test_ends_in_processes(self):
        """Each process says the same step, and none goes further."""
        for layout, ranks in (("alltoall", 4), ("stages", 8)):
            with self.subTest(layout=layout):
                self.ends(layout, launcher=(*MPIRUN, "-n", ranks))

    def test_refused(self):
        for model, factor, message in ((MODEL, 0.5, "--moe-rows-factor 0.5: is less than the mean rows of experts"),
                                       (GOLDEN / "gpt2", 2, "--moe-rows-factor 2: the model has no experts")):
            expect(1, message, "mgc", "compile", model / "config.json", "--moe-rows-factor", factor, "-o", "plan")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + [word for word in sys.argv[3:] if re.fullmatch(r"[A-Z]\w*(\.\w+)?", word)])
