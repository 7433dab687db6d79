#!/usr/bin/python3
"""Completion of mgc, mgrun and mgc-data, typed into bash and zsh. usage: completion.py BIN ROOT"""
import json
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from tool_runs import BIN, ROOT, enter_folder, expect, run, write  # noqa: E402

SCRIPTS = {"mgc": ("completion",), "mgrun": ("--completion",), "mgc-data": ("completion",)}


def setUpModule():
    enter_folder()
    write("only-file.txt", "")


class Shell:
    """An interactive shell that has read the three scripts."""

    def __init__(self, name):
        start = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}[name]
        prepare = {"bash": "bind 'set completion-query-items 0'; bind 'set page-completions off'; ",
                   "zsh": "unsetopt ZLE_RC; autoload -U compinit; compinit -u -D; LISTMAX=1000; unsetopt LIST_BEEP PROMPT_SP; "}[name]
        self.process, self.screen = pty.fork()
        if self.process == 0:
            os.environ.update(PATH=f"{BIN}:{os.environ['PATH']}", TERM="dumb", PS1="ready> ", INPUTRC="/dev/null", COLUMNS="400")
            os.execvp(start[0], start)
        self.write(prepare + "".join(f"source <({tool} {' '.join(flag)} {name}); " for tool, flag in SCRIPTS.items()) + "echo pre''pared\n")
        self.read_until("\nprepared")

    def write(self, text):
        os.write(self.screen, text.encode())

    def read_until(self, text, seconds=20):
        """Until the text comes; it may be redrawn, with control characters within."""
        said, end = "", time.monotonic() + seconds
        while text not in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|[\0-\x09\x0b-\x1f]", "", said):
            if time.monotonic() > end:
                raise AssertionError(f"expected {text!r}, found {said!r}")
            if select.select([self.screen], [], [], 0.5)[0]:
                said += os.read(self.screen, 65536).decode(errors="replace")

    def complete(self, line, expected):
        self.write("\x15" + line + "\t")
        self.read_until(expected)

    def end(self):
        self.write("\x15exit\n")
        os.waitpid(self.process, 0)
        os.close(self.screen)


class Completed:
    def setUp(self):
        if not shutil.which(self.shell):
            self.skipTest(f"there is no {self.shell}")
        typed = Shell(self.shell)
        self.addCleanup(typed.end)
        self.complete = typed.complete

    def test_typed(self):
        for line, expected in [
                ("mgc compi", "compile"), ("mgc compile --sched", "--schedule"), ("mgc compile --schedule zb-h", "zb-h1"),
                ("mgc compile --schedule=inter", "interleaved"), ("mgc compile model --dtype b", "bf16"),
                ("mgc compile --target cuda:sm_12", "--target cuda:sm_120"), ("mgc compile --machine h10", "h100"),
                ("mgc compile --compile-to sha", "shard"), ("mgc compile --tensor-mod", "--tensor-model-parallel-size"),
                ("mgc explain --schedule ro", "rows"), ("mgc completion z", "zsh"), ("mgc translate --fo", "--force"), ("mgc explain only-f", "only-file.txt"),
                ("mgrun plan --lr-decay-sty", "--lr-decay-style"), ("mgrun plan --lr-decay-style cos", "cosine"),
                ("mgrun plan --no-save-tok", "--no-save-tokenizer-assets"), ("mgrun plan --data only", "only-file.txt"),
                ("mgrun --save-dtype b", "bf16"), ("mgc-data prep", "preprocess"), ("mgc-data show --sft-learn la", "last-answer"),
                ("mgc-data preprocess --input only", "only-file.txt")]:
            with self.subTest(line=line):
                self.complete(line, expected)


class Bash(Completed, unittest.TestCase):
    shell = "bash"


class Zsh(Completed, unittest.TestCase):
    shell = "zsh"


class Scripts(unittest.TestCase):
    def test_they_have_every_flag(self):
        flags = json.loads((ROOT / "tools/flags/tool-flags.json").read_text())
        for shell in "bash", "zsh":
            for tool, name in ("mgc", "mgc compile"), ("mgrun", "mgrun"):
                words = set(re.findall(r"--[a-z0-9_-]+", run(tool, *SCRIPTS[tool], shell).stdout))
                self.assertEqual(set(flags[name]) - words - {"plan"}, set(), (tool, shell))

    def test_they_are_scripts_of_the_shell(self):
        for tool, flag in SCRIPTS.items():
            for shell in "bash", "zsh":
                if shutil.which(shell):
                    subprocess.run([shell, "-n"], input=run(tool, *flag, shell).stdout, text=True, check=True)

    def test_other_shells(self):
        expect(2, "fish not in {bash,zsh}", "mgc", "completion", "fish")
        expect(2, "found 'fish', expected a shell: bash or zsh", "mgrun", "--completion", "fish")
        expect(2, "there is no such command; expected one of", "mgc-data", "complete", "bash")


unittest.main(argv=sys.argv[:1], verbosity=1)
