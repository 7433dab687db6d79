#!/usr/bin/python3
"""Timers of steps: python3 mgrun_timers.py BIN REPOSITORY

The logged steps have them, they are parts of the step, the screen shows them as Megatron-LM does, and they change no bit.
"""
import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))
from tool_runs import TINY_GPT, compile_plan, enter_folder, read, records, run  # noqa: E402

OUTER = ["forward-backward", "all-grads-sync", "optimizer"]
INNER = ["forward-compute", "backward-compute", "send-recv"]


def setUpModule():
    enter_folder()
    compile_plan("plan", TINY_GPT, "--tp 2 --pp 2 --seq 64 --mbs 2 --gbs 8 --target-cpu native")


class Timers(unittest.TestCase):
    def train(self, name, *arguments):
        """The log's steps and the screen."""
        said = run("mgrun", "plan", *"--mock-data --train-iters 8 --log-interval 3 --save".split(), name, "--log", name + ".jsonl",
                   *arguments).stderr
        return records(name + ".jsonl"), said

    def test_logged_steps_have_them(self):
        steps, _ = self.train("two", "--timing-log-level", "2")
        self.assertEqual([step["step"] for step in steps if "timers" in step], [0, 3, 6])
        for step in steps[3::3]:
            timers = step["timers"]
            self.assertEqual(set(timers), {*OUTER, *INNER})
            for timer in timers.values():
                self.assertLessEqual(0, timer["min"])
                self.assertLess(0, timer["max"])
                self.assertLessEqual(timer["min"], timer["max"])
            # A rank's step is made of them, and of little between instructions.
            self.assertLess(sum(timers[name]["min"] for name in OUTER), step["seconds"])
            self.assertGreater(sum(timers[name]["max"] for name in OUTER), 0.5 * step["seconds"])
            self.assertLessEqual(sum(timers[name]["min"] for name in INNER), timers["forward-backward"]["max"] * (1 + 1e-9))
            self.assertGreaterEqual(sum(timers[name]["max"] for name in INNER), timers["forward-backward"]["min"] * (1 - 1e-9))

    def test_the_first_level_has_the_outer_ones(self):
        steps, screen = self.train("one", "--timing-log-level", "1")
        self.assertEqual(list(steps[0]["timers"]), OUTER)
        self.assertEqual(screen.count("(min, max) time across ranks (ms):\n"), 3)
        for name in OUTER:
            self.assertEqual(len(re.findall(rf"^    {name} \.+: \(\d+\.\d\d, \d+\.\d\d\)$", screen, re.M)), 3)

    def test_of_which_ranks(self):
        _, screen = self.train("max", "--timing-log-level", "1", "--timing-log-option", "max")
        self.assertEqual(len(re.findall(r"^max time across ranks \(ms\):\n    forward-backward \.+: \d+\.\d\d$", screen, re.M)), 3)
        _, screen = self.train("all", "--timing-log-level", "1", "--timing-log-option", "all")
        self.assertEqual(len(re.findall(r"^    optimizer:\n     rank  0: \d.*\n     rank  1: \d.*\n     rank  2: \d.*\n     rank  3: \d",
                                        screen, re.M)), 3)

    def test_they_change_nothing(self):
        self.train("without")
        self.train("with", "--timing-log-level", "2")
        self.assertEqual(read("without/model.safetensors"), read("with/model.safetensors"))

    def test_beside_a_profile(self):
        steps, _ = self.train("profiled", "--timing-log-level", "2", "--profile")
        self.assertEqual([step["step"] for step in steps if "timers" in step], [0, 3, 6])
        self.assertGreater(steps[3]["timers"]["forward-compute"]["min"], 0)

    def test_events(self):
        for name, flags in ("plain", []), ("timed", ["--log-timers-to-tensorboard"]):
            self.train(name, "--timing-log-level", "1", "--tensorboard-dir", name + "-events", *flags)
            found = b"".join(path.read_bytes() for path in Path(name + "-events").iterdir()).count(b"forward-backward-time")
            self.assertEqual(found, 3 if flags else 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
