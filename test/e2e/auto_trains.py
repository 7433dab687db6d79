#!/usr/bin/env python3
"""Layouts that mgc compile --auto chooses for 8 CPU ranks train: losses, norms, gradients and weights of golden models are those of
Hugging Face and PyTorch, as those of one rank are. Dense models, experts, an encoder, long sequences on context ranks; freely chosen,
with some flags given, and within budgets that make layers recompute.

    test/e2e/auto_trains.py --bin build/release/bin [--sample N]     one of so many of the searches; default: all, 3 answers of each
"""
import argparse
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

import compare
import golden
import samples

DEVICES = 8
CASES = (  # golden model, flags that are given
    ("gpt2", ""), ("gpt2", "--pp 4"), ("gpt2", "--tp 2 --memory 700KB"), ("llama", "--zero 3"), ("llama_tied_rope3", "--pp 2 --tp 2"),
    ("mixtral", ""), ("qwen2_moe", "--ep 4"), ("deepseek_v3", "--pp 2 --ep 2"), ("t5", ""), ("t5", "--pp 2 --tp 2"),
    ("llama_long", "--cp 2"), ("llama_long", "--cp 4 --pp 2"), ("llama_long", "--cp 8 --memory 500KB"))
SEARCHED = ("--tp", "--cp", "--ep", "--etp", "--pp", "--dp", "--vpp", "--mbs", "--zero", "--schedule", "--memory")


class Answer:
    """A layout, as golden.py compiles one."""

    def __init__(self, command):
        words = shlex.split(command)
        self.words = [word for flag in SEARCHED if flag in words for word in (flag, words[words.index(flag) + 1])]

    def flags(self, _policy=None):
        return self.words

    def __str__(self):
        return " ".join(self.words)


class Search:
    """Stands in for the layout while golden.py says the model's sizes, and keeps what was found."""

    def __init__(self, given, count):
        self.words = [*given.split(), "--auto", "--devices", str(DEVICES), "--machine", "cpu", "--json", "--top", str(count)]

    def flags(self, _policy=None):
        return self.words


def answers(options, model, given, folder):
    """The layouts that are chosen, the fastest first."""
    _, error = golden.compile_plan(options, model, Search(given, options.top), folder)
    if error:
        raise SystemExit(f"{model.model} {given}: {error}")
    said = (pathlib.Path(folder) / "mgc.txt").read_text(encoding="utf-8")
    report = json.JSONDecoder().raw_decode(said, said.index("{"))[0]
    return [Answer(layout["command"]) for layout in report["sizes"][0]["layouts"]]


def main():
    parser = argparse.ArgumentParser(parents=[golden.options_of_runs()])
    parser.add_argument("--sample", type=int, default=1)
    parser.add_argument("--top", type=int, default=3)
    parser.set_defaults(repeat=False, loads=False, policies=False)  # checks of golden.py besides
    options = parser.parse_args()
    trained, failed = set(), 0
    for name, given in samples.sample(CASES, options.sample):
        model = golden.Golden(name)
        with tempfile.TemporaryDirectory() as folder:
            found = answers(options, model, given, folder)
        for answer in found:
            failures = golden.check_one(options, model, answer)
            trained.add((name, str(answer)))
            failed += bool(failures)
            if failures:
                golden.report(name, answer, failures)
            else:
                print(f"ok     {name} {answer}", flush=True)
    print(f"{len(trained) - failed} of {len(trained)} layouts train as their models do, of seed {samples.seed()}")
    sys.exit(1 if failed or not trained else 0)


if __name__ == "__main__":
    main()
