#!/usr/bin/python3
"""mgrun --check: what a run would refuse, take and read, without training. usage: mgrun_check.py BIN ROOT"""
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from tool_runs import GOLDEN, compile_plan, enter_folder, expect, read, run, write  # noqa: E402

MOCK = ["--mock-data", "--train-iters", "4"]


def setUpModule():
    enter_folder()
    compile_plan("plan", GOLDEN / "llama/config.json", "--seq 16 --gbs 8 --mbs 2 --dp 2 --evaluation")
    compile_plan("other", GOLDEN / "gpt2/config.json", "--seq 16 --gbs 8 --mbs 2")


class Check(unittest.TestCase):
    def check(self, *arguments):
        before = sorted(os.listdir("."))
        said = run("mgrun", *arguments, "--check")
        self.assertEqual(sorted(os.listdir(".")), before)
        self.assertNotIn("step 0: loss", said.stderr)
        return said.stdout

    def refuse(self, message, *arguments, code=1):
        before = sorted(os.listdir("."))
        expect(code, message, "mgrun", "plan", *arguments, "--check")
        self.assertEqual(sorted(os.listdir(".")), before)

    def test_a_run_that_would_begin(self):
        outputs = ["--save", "new/folder", "--log", "new.jsonl", "--tensorboard-dir", "events/folder", "--trace", "trace.json",
                   "--profile-json", "profile.json", "--html", "page.html", "--save-gradients", "gradients.safetensors"]
        said = self.check("plan", *MOCK, *outputs, "--eval-interval", 2, "--eval-iters", 1)
        self.assertIn("nothing is refused; nothing was trained, and no weights or logs written\n", said)
        self.assertRegex(said, r"memory    2 of the plan's ranks here take \d+\.\d MiB of this machine's; \d+\.\d MiB are available")
        self.assertIn("batch     step 0: 128 of 128 tokens count in the loss; samples 0 to 7 of made-up data\n", said)

    def test_a_run_that_would_go_on(self):
        run("mgrun", "plan", *MOCK, "--exit-interval", 2, "--save", "begun", "--log", "begun.jsonl")
        files = {path: path.read_bytes() for path in pathlib.Path("begun").rglob("*") if path.is_file()}
        write("begun.jsonl", read("begun.jsonl") + b'{"step":2,"loss":1}\n')  # a step that the run would repeat
        log = read("begun.jsonl")
        said = self.check("plan", *MOCK, "--save", "begun", "--load", "begun", "--log", "begun.jsonl")
        self.assertIn("batch     step 2: 128 of 128", said)
        self.assertEqual(read("begun.jsonl"), log)
        self.assertEqual(files, {path: path.read_bytes() for path in pathlib.Path("begun").rglob("*") if path.is_file()})
        run("mgrun", "plan", *MOCK, "--save", "begun", "--load", "begun")
        self.assertIn("batch     none: all 4 steps of the training are done", self.check("plan", *MOCK, "--load", "begun"))

    def test_refusals(self):
        write("text.txt", "a" * 1000 + "\xff" * 1000)
        self.refuse("token", "--data", "text.txt", "--train-iters", 1)
        self.refuse("cannot create", *MOCK, "--log", "absent/log.jsonl")
        self.refuse("holds something else than the lines of a log", *MOCK, "--log", "text.txt")
        self.refuse("is no folder that can be written", *MOCK, "--tensorboard-dir", "text.txt/events")
        self.refuse("would do nothing", *MOCK, "--min-lr", 0, "--lr-decay-style", "constant", code=2)
        run("mgrun", "other", *MOCK, "--save", "gpt2")
        self.refuse("another model", *MOCK, "--save", "gpt2")
        self.refuse("describes another model than the plan", *MOCK, "--load", "gpt2")


unittest.main(argv=sys.argv[:1], verbosity=1)
