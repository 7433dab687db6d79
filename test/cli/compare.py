#!/usr/bin/python3
"""mgc compare: runs beside each other by their logs. usage: compare.py BIN ROOT"""
import json
import os
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from tool_runs import GOLDEN, compile_plan, enter_folder, expect, read, run, write  # noqa: E402


def step(number, loss, tokens=100, seconds=0.5):
    return json.dumps({"step": number, "loss": loss, "grad_norm": 1 + number, "lr": 1e-3, "tokens": tokens, "seconds": seconds}) + "\n"


def validation(number, loss):
    return json.dumps({"step": number, "validation_loss": loss, "seconds": 1}) + "\n"


def setUpModule():
    enter_folder()
    write("a.jsonl", "".join(step(i, 5 - 0.1 * i) for i in range(20)) + validation(9, 4.5) + validation(19, 4.25))
    write("b.jsonl", "".join(step(i, 5.5 - 0.1 * i if i != 7 else None, seconds=0.25) for i in range(4, 30)))


class Compare(unittest.TestCase):
    def rows(self, *logs):
        """Texts of each row of the table, by its name; and the lines behind it."""
        lines = run("mgc", "compare", *logs).stdout.splitlines()
        return {fields[0]: fields[1:] for fields in (re.split(r" {2,}", line) for line in lines)}, lines

    def test_facts_of_runs(self):
        rows, _ = self.rows("a.jsonl", "b.jsonl")
        self.assertEqual(rows[""], ["a.jsonl", "b.jsonl"])
        self.assertEqual(rows["steps"], ["0 to 19", "4 to 29"])
        self.assertEqual(rows["tokens"], ["2000", "2600"])
        self.assertEqual(rows["last loss"], ["3.1", "2.6"])
        self.assertEqual(rows["least loss"], ["3.1 at step 19", "2.6 at step 29"])
        self.assertEqual(rows["last validation loss"], ["4.25", "-"])
        self.assertEqual(rows["least validation loss"], ["4.25 at step 19", "-"])
        self.assertEqual(rows["median tokens/s"], ["200", "400"])

    def test_differences_at_equal_steps(self):
        rows, lines = self.rows("a.jsonl", "b.jsonl")
        steps = [int(name.split()[-1]) for name in rows if name.startswith("loss at step ")]
        self.assertEqual((steps[0], steps[-1]), (4, 19))
        self.assertNotIn(7, steps, "has no loss in one of them")
        self.assertLessEqual(len(steps), 8)
        self.assertEqual(rows["loss at step 19"], ["3.1", "+0.5"])
        self.assertRegex(lines[-1], r"^0 of 15 equal steps have the same loss; the largest difference is 0.5 at step \d+$")
        self.assertEqual(self.rows("a.jsonl", "a.jsonl")[1][-1], "the losses of all 20 equal steps are the same")
        write("far.jsonl", step(100, 1))
        self.assertEqual(self.rows("a.jsonl", "far.jsonl")[1][-1], "no step has a loss in all runs")

    def test_a_run_that_went_on_counts_once(self):
        """A log that was stopped behind the step with which the next run went on; its last line is being written."""
        write("on.jsonl", step(0, 5) + step(1, 4.9) + validation(1, 4.8) + step(2, 9) + step(1, 4.5) + step(2, 4.25) + '{"step":3,"lo')
        rows, _ = self.rows("on.jsonl")
        self.assertEqual((rows["steps"], rows["tokens"], rows["last loss"]), (["0 to 2"], ["300"], ["4.25"]))
        self.assertNotIn("last validation loss", rows)
        self.assertFalse([name for name in rows if name.startswith("loss at")])

    def test_a_log_of_mgrun(self):
        compile_plan("plan", GOLDEN / "llama/config.json", "--seq 16 --gbs 8 --mbs 2 --evaluation")
        for seed in 1, 1, 2:
            run("mgrun", "plan", "--mock-data", "--train-iters", 4, "--seed", seed, "--eval-interval", 2, "--eval-iters", 1, "--log",
                f"{seed}.jsonl")
        rows, lines = self.rows("1.jsonl", "2.jsonl")
        self.assertEqual((rows["steps"], rows["tokens"]), (["0 to 3"] * 2, ["512"] * 2))
        self.assertNotIn("-", rows["last validation loss"])
        self.assertTrue(lines[-1].startswith("0 of 4 equal steps"), lines[-1])

    def test_a_page_has_the_curves(self):
        run("mgc", "compare", "a.jsonl", "b.jsonl", "--html", "page.html")
        data = json.loads(re.search(rb'id="data">(.*?)</script>', read("page.html"), re.S)[1])
        one, two = data["runs"]
        self.assertEqual(one["steps"]["loss"], [5 - 0.1 * i for i in range(20)])
        self.assertEqual(one["validation"]["step"], [9, 19])
        self.assertEqual(two["steps"]["loss"][3], None)
        self.assertEqual(two["steps"]["tokens"][-1], 2600)
        self.assertEqual(["steps", "0 to 19", "4 to 29"], data["facts"][0])
        write("long.jsonl", "".join(step(i, 1) for i in range(10000)))
        run("mgc", "compare", "long.jsonl", "--html", "page.html")
        data = json.loads(re.search(rb'id="data">(.*?)</script>', read("page.html"), re.S)[1])
        steps = data["runs"][0]["steps"]["step"]
        self.assertLessEqual(len(steps), 4097)
        self.assertEqual((steps[0], steps[-1]), (0, 9999))

    def test_refusals(self):
        write("text.txt", "hello\nthere\n")
        write("empty.jsonl", "")
        write("odd.jsonl", step(0, 1) + '{"step": -1, "loss": 2}\n' + step(2, 1))
        for code, message, arguments in [
                (1, "text.txt: line 1: is no line of a log", ["text.txt"]), (1, "empty.jsonl: has no step", ["empty.jsonl"]),
                (1, "odd.jsonl: line 2: is no line of a log", ["odd.jsonl"]), (1, "absent: cannot open", ["a.jsonl", "absent"]),
                (1, "--html a.jsonl: is one of the logs, expected another", ["a.jsonl", "--html", "a.jsonl"]),
                (1, "text.txt: holds something else than a page of mgc", ["a.jsonl", "--html", "text.txt"]),
                (2, "mgc compare: --htm: there is no such flag; near: --html", ["a.jsonl", "--htm", "x"]),
                (2, "mgc compare: logs is required", []), (2, "mgc compare: ", ["a.jsonl"] * 11)]:
            with self.subTest(message=message):
                expect(code, message, "mgc", "compare", *arguments)
        run("mgc", "compare", "a.jsonl", "--html", "text.txt", "--force")
        os.unlink("text.txt")


unittest.main(argv=sys.argv[:1], verbosity=1)
