#!/usr/bin/python3
"""Files of --config, and the run.toml that --save writes. usage: configuration.py BIN ROOT"""
import os
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from tool_runs import GOLDEN, compile_plan, enter_folder, expect, read, run, timeless, write  # noqa: E402

MOCK = ["--mock-data", "--train-iters", "1"]
MODEL = GOLDEN / "llama/config.json"


def setUpModule():
    enter_folder()
    compile_plan("plan", GOLDEN / "bert/config.json", "--seq 16 --gbs 8 --mbs 2")


class Keys(unittest.TestCase):
    def log(self, *arguments):
        run("mgrun", *arguments, "--log", self._testMethodName + ".jsonl")
        lines = timeless(self._testMethodName + ".jsonl")
        os.unlink(self._testMethodName + ".jsonl")
        return lines

    def test_a_file_is_the_flags_that_it_has(self):
        write("run.toml", "plan = 'plan' # a comment\nmock-data = true\ntrain-iters = 2\nlr = 2e-3\neod-mask-loss = false\n"
              "special-token-ids = [\n  1, # the first\n  2,\n]\n")
        self.assertEqual(self.log("--config", "run.toml"),
                         self.log("plan", "--mock-data", "--train-iters", 2, "--lr", "2e-3"))

    def test_the_command_line_holds_before_the_file(self):
        write("run.toml", "plan = 'absent'\nmock-data = true\ntrain-iters = 5\nlr = 1\ndata = 'absent.txt'\n")
        write("text.txt", "abc" * 2000)
        self.assertEqual(self.log("plan", "--config=run.toml", "--mock-data", "--train-iters", 1, "--lr", "2e-3"),
                         self.log("plan", *MOCK, "--lr", "2e-3"))
        expect(1, "run.toml: --mock-data: left out, since the command line has --data",
               "mgrun", "plan", "--config", "run.toml", "--train-iters", 1, "--data", "text.txt")

    def test_lists_and_the_plan(self):
        """The last word of a list is not the plan where the file has one; positional words stand before lists."""
        write("run.toml", "plan = 'plan'\nmock-data = true\ntrain-iters = 1\n")
        run("mgrun", "--config", "run.toml", "--special-token-ids", 1, 2)
        write("list.toml", "special-token-ids = [1, 2]\n")
        run("mgrun", "plan", *MOCK, "--config", "list.toml")
        run("mgrun", *MOCK, "--config", "list.toml", "--", "plan")

    def test_sections_are_of_one_tool(self):
        write("both.toml", f"[mgc]\nmodel = '{MODEL}'\noutput = 'both'\nseq = 16\ngbs = 8\nmbs = 2\ntp = 2\nsp = false\n"
              "[mgrun]\nplan = 'both'\nmock-data = true\ntrain-iters = 1\n")
        self.assertRegex(run("mgc", "compile", "--config", "both.toml").stderr, r"--tp +2 +given\n(.*\n)*--sp +false +given")
        self.assertIn("2 ranks", run("mgrun", "--config", "both.toml").stderr)
        expect(1, ["--tp", "both.toml has "], "mgc", "compile", "--config", "both.toml", "--tp", 64)

    def test_flags_of_other_programs_are_answered(self):
        write("megatron.toml", "tensor-model-parallel-size = 2\nuse-flash-attn = true\nfp16 = false\n"
              "num-layers = 4\nseq-length = 16\nmicro-batch-size = 2\nglobal-batch-size = 8\n")
        said = run("mgc", "compile", MODEL, "-o", "megatron", "--config", "megatron.toml").stderr
        self.assertIn("mgc: megatron.toml: --use-flash-attn: always on", said)
        self.refuse("is torchtitan's; here it is mgrun PLAN --train-iters N", "[training]\nsteps = 10\n")

    def refuse(self, message, text, code=2):
        write("wrong.toml", text)
        self.assertIn("wrong.toml", expect(code, message, "mgrun", "plan", *MOCK, "--config", "wrong.toml"))

    def test_what_a_key_says_is_checked_as_the_flag(self):
        self.refuse("wrong.toml: --trian-iter: there is no such flag; near: --train-iters", "trian-iter = 3\n")
        self.refuse("wrong.toml: --lr: found 'x', expected a finite number", "lr = 'x'\n")
        self.refuse("wrong.toml: --lr: found 2 values, expected 1", "lr = [1, 2]\n")
        self.refuse("wrong.toml: --lr: its value is missing", "lr = ''\n")
        self.refuse("wrong.toml: --save-interval requires --save", "save-interval = 2\n")
        self.refuse("wrong.toml: --tp: belongs to mgc compile", "tp = 2\n")
        self.refuse("wrong.toml: --min_lr: is spelled --min-lr here", "min_lr = 2\n")
        self.refuse("wrong.toml: --foo: there is no such flag", "foo = false\n")
        self.refuse("wrong.toml: --config: a file does not name another", "config = 'other.toml'\n")
        self.refuse("would do nothing", "lr-warmup-init = 0.1\n")
        self.refuse("wrong.toml has --lr-warmup-init", "lr-warmup-init = 0.1\n")
        self.refuse("found '--tp' in a list", "special-token-ids = [1, '--tp']\n")

    def test_broken_files(self):
        for message, text in [
                ("line 2: found 'lr 0.1', expected KEY = VALUE", "\nlr 0.1\n"), ("line 1: lr: its value is missing", "lr =\n"),
                ("line 3: lr: is there twice", "lr = 1\n\nlr = 2\n"), ("line 1: a text begins that does not end", "save = 'abc\n"),
                ("line 1: a text begins that does not end", "save = 'abc"), ("line 2: an array begins that does not end", "\nx = [1,\n2\n"),
                ("found [ in an array", "x = [1, [2]]\n"), ("']' ends no array", "x = 1]\n"),
                ("tables in braces are not read", "x = {a = 1}\n"), ("'\\' is not read in a text between \"", 'save = "a\\nb"\n'),
                ("expected a section: [mgc] or [mgrun]", "[mgrun\n]x\n"), ("is no text", b"\x7fELF\0"), ("is no text", b"lr = \xff\n"),
                ("expected at most 1048576", b"#" * (1 << 20) + b"\n"), ("cannot open", None)]:
            with self.subTest(message=message, text=text):
                if text is not None:
                    self.refuse(message, text)
                else:
                    expect(2, message, "mgrun", "plan", *MOCK, "--config", "absent.toml")
        expect(2, "is a directory", "mgrun", "plan", *MOCK, "--config", ".")
        expect(2, "--config: its value is missing", "mgrun", "plan", *MOCK, "--config")

    def test_texts_keep_every_character(self):
        """CLI11 would end them at '#', and read a backslash before a quote."""
        write("text.toml", "save = 'a #1, \\ \"b\"'\n")
        run("mgrun", "plan", *MOCK, "--config", "text.toml")
        self.assertTrue(os.path.exists("a #1, \\ \"b\"/model.safetensors"))


class RunFiles(unittest.TestCase):
    def test_a_saved_run_is_repeated(self):
        run("mgrun", "plan", "--mock-data", "--train-iters", 2, "--save", "it's", "--lr", "2e-3", "--special-token-ids", "1,2", 3,
            "--no-save-tokenizer-assets", "--launch", "none")
        text = read("it's/run.toml").decode()
        self.assertIn("plan = 'plan'\nmock-data = true\n", text)
        self.assertIn("special-token-ids = ['1,2', 3]\n", text)
        self.assertIn("save = \"it's\"\n", text)
        self.assertIn("save-tokenizer-assets = false\n", text)
        self.assertNotIn("launch", text)
        run("mgrun", "--config", "it's/run.toml", "--save", "again")
        self.assertEqual(read("it's/model.safetensors"), read("again/model.safetensors"))
        unsealed = [re.sub("# checksum .*\n", "", file) for file in (text, read("again/run.toml").decode())]
        self.assertEqual(unsealed[0].replace("it's", "again").replace('"again"', "'again'"), unsealed[1])

    def test_an_edited_file_stays(self):
        run("mgrun", "plan", "--mock-data", "--train-iters", 1, "--lr-decay-iters", 9, "--save", "edited")
        again = ("mgrun", "plan", "--mock-data", "--train-iters", 2, "--lr-decay-iters", 9, "--save", "edited", "--load", "edited")
        run(*again)
        self.assertIn(b"train-iters = 2", read("edited/run.toml"))
        write("edited/run.toml", read("edited/run.toml").decode() + "# mine\n")
        edited = read("edited/run.toml")
        self.assertIn("edited/run.toml is not by mgrun, or was edited, and stays", run(*again[:4], 3, *again[5:]).stderr)
        self.assertEqual(read("edited/run.toml"), edited)

    def test_what_stands_alone(self):
        for flags in (("--completion", "bash"), ("--list-options",)):
            self.assertIn("stands alone", run("mgrun", "plan", "--mock-data", "--train-iters", 1, *flags, code=2).stderr)
        for key in ("help = true", "version = true", "list-options = true", "completion = 'bash'"):
            write("alone.toml", f"mock-data = true\ntrain-iters = 1\n{key}\n")
            self.assertIn("is of the command line alone", run("mgrun", "plan", "--config", "alone.toml", code=2).stderr)

    def test_a_file_of_the_user_stays(self):
        write("own/run.toml", "mock-data = true\n")
        said = run("mgrun", "plan", "--config", "own/run.toml", "--train-iters", 1, "--save", "own").stderr
        self.assertIn("own/run.toml is not by mgrun, or was edited, and stays", said)
        self.assertEqual(read("own/run.toml"), b"mock-data = true\n")

    def test_no_output_replaces_a_file_of_options(self):
        write("mock.toml", "mock-data = true\ntrain-iters = 1\n")
        for flags, message in [(["--log", "mock.toml"], "is a file of --config"), (["--save", "s", "--log", "s/run.toml"], "is a file of --save")]:
            expect(1, message, "mgrun", "plan", "--config", "mock.toml", *flags)

    def test_what_the_format_cannot_hold_is_said(self):
        run("mgrun", "plan", *MOCK, "--save", "both'\"quotes")
        self.assertIn("# save is left out", read("both'\"quotes/run.toml").decode())


unittest.main(argv=sys.argv[:1], verbosity=1)
