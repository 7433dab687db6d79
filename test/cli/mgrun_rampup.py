#!/usr/bin/python3
"""Batches that grow: python3 mgrun_rampup.py BIN REPOSITORY

--rampup-batch-size takes the samples that one batch size would take, in their order, by Megatron-LM's sizes and rates; what is
stopped goes on, bit for bit.
"""
import os
import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))
import tool_runs  # noqa: E402
from tool_runs import TINY_GPT, enter_folder, expect, read, records, run  # noqa: E402

RAMPUP = ["--rampup-batch-size", "2", "2", "20"]
SAMPLES = ["--train-samples", "60"]
SIZES = [2, 2, 2, 2, 4, 4, 6, 8, 8, 8, 8]  # 20 / 3 samples for each of three increments; 6 of the 60 samples are left


def compile_plan(name, *layout):
    tool_runs.compile_plan(name, TINY_GPT, "--target-cpu native --seq 32 --mbs 1", *layout)


def setUpModule():
    enter_folder()
    compile_plan("plan", "--tp 2 --pp 2 --gbs 8 --evaluation", *RAMPUP)
    compile_plan("one", "--gbs 1")


def steps_of(log):
    return [line for line in records(log) if "loss" in line and "step" in line and "lr" in line]


class Rampup(unittest.TestCase):
    def train(self, name, *arguments, plan="plan"):
        return run("mgrun", plan, "--mock-data", "--save", name, "--log", name + ".jsonl", "--log-interval", "1", *arguments)

    def test_batches_are_those_samples(self):
        """At a rate of 0 the loss of a batch is the mean of its samples', which batches of one give."""
        self.train("grown", *RAMPUP, *SAMPLES, "--lr", "0", "--weight-decay", "0")
        self.train("single", *SAMPLES, "--lr", "0", "--weight-decay", "0", plan="one")
        losses = [step["loss"] for step in steps_of("single.jsonl")]
        self.assertEqual(len(losses), 60)
        grown, first = steps_of("grown.jsonl"), 0
        self.assertEqual([step["step"] for step in grown], list(range(len(SIZES))))
        for size, step in zip(SIZES, grown):
            mean = sum(losses[first:first + size]) / size
            self.assertAlmostEqual(step["loss"], mean, delta=2e-6 * mean, msg=f"step {step['step']}")
            first += size
        self.assertGreater(max(losses) - min(losses), 1e-3)  # so that other samples would be seen

    def test_rates_follow_the_samples(self):
        rates = ["--lr", "0.01", "--lr-warmup-samples", "10"]
        done = self.train("rates", *RAMPUP, *SAMPLES, *rates)
        taken = 0
        for size, step in zip(SIZES, steps_of("rates.jsonl")):
            expected = 0.01 * taken / 10 if taken <= 10 else 0.01 * (1 - (taken - 10) / 50)
            self.assertAlmostEqual(step["lr"], expected, delta=1e-9)
            taken += size
        self.assertRegex(done.stdout, r"^11 steps: loss ")

    def test_a_run_that_is_stopped_goes_on(self):
        self.train("whole", *RAMPUP, *SAMPLES)
        for stop in "3", "4", "5", "6":  # within a size, and where it changes
            name = "stopped" + stop
            self.train(name, *RAMPUP, *SAMPLES, "--exit-interval", stop)
            self.assertEqual(len(steps_of(name + ".jsonl")), int(stop))
            self.train(name, *RAMPUP, *SAMPLES, "--restart-from-latest")
            self.assertEqual(read(name + "/model.safetensors"), read("whole/model.safetensors"), stop)
            losses = [[step["loss"] for step in steps_of(log + ".jsonl")] for log in ("whole", name)]
            self.assertEqual(*losses)

    def test_it_evaluates_by_the_whole_batch(self):
        done = self.train("evaluated", *RAMPUP, *SAMPLES, "--eval-interval", "4", "--eval-iters", "2")
        self.assertEqual(re.findall(r"step (\d+): validation", done.stderr), ["3", "7", "10"])

    def test_outputs_of_the_whole_run(self):
        self.train("outputs", *RAMPUP, *SAMPLES, "--tensorboard-dir", "events", "--trace", "trace.json", "--html", "page.html",
                   "--save-gradients", "gradients.safetensors")
        page = Path("page.html").read_text()
        self.assertIn("batch-size", "".join(path.read_bytes().decode("latin1") for path in Path("events").rglob("*") if path.is_file()))
        self.assertIn("11", page)

    def test_what_does_not_fit(self):
        for arguments, code, message in [
                ([*RAMPUP, "--train-iters", "4", "--save", "no"], 2, "--train-samples"),
                ([*RAMPUP, *SAMPLES], 2, "--save"),
                (["--rampup-batch-size", "2", "2", *SAMPLES, "--save", "no"], 2, "rampup-batch-size"),
                (["--rampup-batch-size", "3", "2", "20", *SAMPLES, "--save", "no"], 1,
                 "increments of 2 do not lead from 3 to the global batch, 8; expected a divisor of 5"),
                (["--rampup-batch-size", "1", "7", "20", *SAMPLES, "--save", "no"], 1,
                 "plan has no plan of batches of 1, expected it in plan/batch-1: compile it with mgc compile "
                 "--rampup-batch-size 1 7 20")]:
            with self.subTest(arguments=arguments):
                expect(code, message, "mgrun", "plan", "--mock-data", *arguments)
                self.assertFalse(os.path.exists("no"))

    def test_another_growth_does_not_go_on(self):
        self.train("begun", *RAMPUP, *SAMPLES, "--exit-interval", "5")
        on = ["mgrun", "plan", "--mock-data", "--load", "begun", "--save", "more"]
        expect(1, "--rampup-batch-size: found 2 2 40, expected 2 2 20, as in the checkpoint", *on, *SAMPLES, "--rampup-batch-size", "2",
               "2", "40")
        said = run(*on, *RAMPUP, "--train-samples", "8", "--override-opt-param-scheduler", code=1).stderr
        self.assertRegex(said, r"--train-samples: found 8, expected at least \d+, the samples that are done")
        self.assertNotIn("--train-iters", said)

    def test_plans_of_another_growth_are_removed(self):
        for flags, batches in [("--rampup-batch-size 1 1 20", ["batch-1", "batch-2", "batch-3"]),
                               ("--rampup-batch-size 2 2 20", ["batch-2"]), ("", [])]:
            compile_plan("again", "--gbs 4", flags)
            self.assertEqual(sorted(path.name for path in Path("again").glob("batch-*")), batches)

    def test_sizes_that_the_layout_does_not_have(self):
        expect(1, "--rampup-batch-size: batches of 2: ", "mgc", "compile", TINY_GPT, "-o", "never",
               *"--dp 2 --mbs 2 --gbs 8".split(), *RAMPUP)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
