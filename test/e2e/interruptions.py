#!/usr/bin/python3
"""Trainings that are asked to end: python3 interruptions.py BIN REPOSITORY [--runs N] [--seed S]

Each seed chooses up to three places (a step, a save, an evaluation, the last one, that of the test data, the end), a moment behind
each and a signal. The same command goes on each time. At the end log, checkpoints and weights have the bits of the run that was not
stopped, with each evaluation once.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time

import samples
from kills import Failure, checkpoints, contents, expect, log_of
from tool_runs import GOLDEN, compile_plan, run, start, write

STEPS, EVALUATED, SAVED = 14, 4, 2  # at most so many steps; from one evaluation, and one save, to the next
FLAGS = (f"--data-path texts_text_document --split 80,10,10 --train-iters {STEPS} --eval-interval {EVALUATED} --eval-iters 40 "
         f"--save-interval {SAVED} --save-retain 0 --lr-decay-style cosine --threads 1 --restart-from-latest --save-best").split()
# A training to its last step, and one that ends early: with a rate of 0 the losses are those of other batches alone.
SETTINGS = {"straight": ["--lr", "3e-3"], "early": ["--lr", "0", "--early-stop", "1", "--seed", "2"]}
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def lines(folder, what):
    """The number of the log's lines with this field."""
    log = pathlib.Path(f"{folder}.jsonl")
    return log.read_bytes().count(f'"{what}"'.encode()) if log.exists() else 0


# The places: each a function of a random generator and the folder of the run that was not stopped, which gives a name and a
# condition by which it has begun.
def step(random_, alive):
    number = random_.randrange(1, lines(alive, "grad_norm"))
    return f"step {number}", lambda folder: lines(folder, "grad_norm") >= number


def save(random_, alive):
    name = f"iter_{random_.randrange(1, lines(alive, 'grad_norm') // SAVED) * SAVED:07}"
    return name, lambda folder: any(os.path.exists(f"{folder}/{name}{ending}") for ending in (".saving", ""))


def evaluation(random_, alive):
    number = random_.randrange(1, lines(alive, "grad_norm") // EVALUATED + 1) * EVALUATED
    return f"evaluation after {number}", lambda folder: lines(folder, "grad_norm") >= number


def last_evaluation(_, alive):
    return "last evaluation", lambda folder: lines(folder, "grad_norm") == lines(alive, "grad_norm")


def test(_, alive):
    return "test", lambda folder: lines(folder, "validation_loss") == lines(alive, "validation_loss")


def end(_, alive):
    return "end", lambda folder: lines(folder, "test_loss") == lines(alive, "test_loss")


PLACES = (step, save, evaluation, last_evaluation, test, end)


class Trial:
    def __init__(self, seed):
        self.random, self.folder = random.Random(seed), f"trial{seed}"
        self.alive = self.random.choice(("straight", "straight", "early"))
        self.flags = [*SETTINGS[self.alive], *(["--async-save"] if self.random.random() < 0.5 else [])]
        places = {*self.random.sample(PLACES, self.random.randrange(3)), PLACES[seed % len(PLACES)]}
        self.places = sorted(places, key=PLACES.index)
        self.history, self.made_up = [], collections.Counter()

    def go(self):
        return start("mgrun", "plan", *FLAGS, *self.flags, "--save", self.folder, "--log", f"{self.folder}.jsonl")

    def note(self, said, code):
        self.history.append(f"code {code}:\n{said}")
        for line in said.splitlines():
            if "was cut off, and is made up" in line:
                self.made_up[line.split(": ")[-2].rsplit(" after")[0]] += 1

    def interrupt(self, place):
        name, has_begun = place(self.random, self.alive)
        number, delay = self.random.choice(SIGNALS), self.random.uniform(0, 0.02)
        with self.go() as process:
            while process.poll() is None and not has_begun(self.folder):
                time.sleep(0.001)
            time.sleep(delay)
            if process.poll() is None:
                process.send_signal(number)
            said = process.communicate(timeout=60)[1]
        self.history.append(f"{signal.Signals(number).name} {delay * 1e3:.1f} ms behind the begin of {name}")
        self.note(said, process.returncode)
        # 0: it had ended; the signal's: it has just been started, where an earlier run has come to the place.
        expect(process.returncode in (0, 130, -number), f"code {process.returncode}")

    def compare(self):
        alive = self.alive
        expect(log_of(alive) == log_of(self.folder), f"the log differs: {log_of(alive)}\n{log_of(self.folder)}")
        expect(contents(alive) == contents(self.folder), "weights differ")
        for number in checkpoints(alive):
            name = f"iter_{number:07}"
            expect(contents(f"{alive}/{name}") == contents(f"{self.folder}/{name}"), f"{name} differs")
        expect(os.readlink(f"{alive}/best") == os.readlink(f"{self.folder}/best"), "another checkpoint is the best")

    def run(self):
        """The failure's text, or nothing."""
        try:
            for place in self.places:
                self.interrupt(place)
            with self.go() as process:
                self.note(process.communicate(timeout=120)[1], process.returncode)
            expect(process.returncode == 0, f"does not go on: code {process.returncode}")
            self.compare()
            shutil.rmtree(self.folder)
        except Failure as failure:
            return "\n".join([*self.history, str(failure)])
        return None


def prepare():
    """Runs that nobody stops."""
    random_ = random.Random(1)
    words = ["".join(random_.choices("abcdefgh", k=random_.randrange(2, 7))) for _ in range(60)]
    write("texts.jsonl", "".join(json.dumps({"text": " ".join(random_.choices(words, k=50))}) + "\n" for _ in range(200)))
    run("mgc-data", "preprocess", "--input", "texts.jsonl", "--output-prefix", "texts", "--tokenizer-type", "ByteTokenizer")
    config = json.loads((GOLDEN / "gpt2/config.json").read_text(encoding="utf-8"))
    write("model/config.json", json.dumps(config | {"vocab_size": 256, "attn_pdrop": 0.1, "resid_pdrop": 0.1, "embd_pdrop": 0.1}))
    compile_plan("plan", "model", "--target-cpu native --dp 2 --zero 1 --seq 16 --gbs 8 --mbs 2 --evaluation")
    for name, flags in SETTINGS.items():
        run("mgrun", "plan", *FLAGS, *flags, "--save", name, "--log", f"{name}.jsonl")
    evaluated = {name: [record["step"] for record in log_of(name) if "validation_loss" in record] for name in SETTINGS}
    expect(evaluated == {"straight": [3, 7, 11, 13], "early": [3, 7]}, f"evaluations after {evaluated}")
    expect(all(lines(name, "test_loss") == 1 for name in SETTINGS), "no test")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("repository")
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=samples.seed(), help="of the first run; later ones count up")
    arguments = parser.parse_args()
    begin, failures, stops, made_up = time.monotonic(), 0, 0, collections.Counter()
    with tempfile.TemporaryDirectory(prefix="mgc-interruptions-") as folder:
        os.chdir(folder)
        prepare()
        for seed in range(arguments.seed, arguments.seed + arguments.runs):
            trial = Trial(seed)
            if failure := trial.run():
                failures += 1
                print(f"FAILED --seed {seed} {failure}", flush=True)
            stops += len(trial.places)
            made_up += trial.made_up
        os.chdir("/")
    print(f"{arguments.runs} trainings, {stops} signals, {failures} failed; made up: {dict(made_up)}; {time.monotonic() - begin:.0f} s")
    return 1 if failures or not made_up else 0


if __name__ == "__main__":
    sys.exit(main())
