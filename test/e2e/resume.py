#!/usr/bin/python3
"""Trainings that stop and go on: python3 resume.py BIN REPOSITORY [MPIRUN FLAG..]

At the same layout to the bit as if they had never stopped, at another to rounding; killed at any time, with nothing lost;
and what does not go on is refused. Without MPIRUN no ranks are processes.
"""
import itertools
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import time
import unittest

import numpy as np

import samples
import tensor_files
import tool_runs
from tool_runs import (BIN, GOLDEN, TINY_GPT, compile_plan, end, enter_folder, expect, read, records, run, run_in_small_folder, start,
                       timeless, wait_for, wait_for_end, write, write_word_level)

MPIRUN = sys.argv[3:]
STEPS, HALF = 40, 20
OPTIMIZER = f"--lr 3e-3 --min-lr 1e-4 --lr-decay-style cosine --lr-decay-iters {STEPS} --lr-warmup-iters 5 --threads 1".split()
CORPUS = ["--data", tool_runs.CORPUS]


def setUpModule():
    enter_folder()
    dropout = json.loads(read(TINY_GPT / "config.json"))
    dropout |= {"attn_pdrop": 0.1, "resid_pdrop": 0.1, "embd_pdrop": 0.1, "n_layer": 2, "n_embd": 64}
    write("gpt/config.json", json.dumps(dropout))


def compiled(name, model, flags):
    if not os.path.exists(name):
        compile_plan(name, "gpt" if model == "gpt" else GOLDEN / model / "config.json", "--target-cpu native", flags)
    return name


def gpt(name, flags):
    return compiled(name, "gpt", f"--seq 32 --gbs 8 {flags}")


def train(plan, *flags, code=0):
    return run("mgrun", plan, *OPTIMIZER, *flags, code=code).stderr


def train_apart(plan, *flags):
    """The same with a process for each of four ranks."""
    return run(*MPIRUN, "-n", 4, BIN / "mgrun", plan, *OPTIMIZER, *flags).stderr


def log_of(path):
    """The fields of each step that do not depend on time; of a step that ran twice the later one."""
    return {line["step"]: line for line in timeless(path)}


def losses(path):
    return [line["loss"] for _, line in sorted(log_of(path).items())]


def contents(folder):
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()
            if path.is_file() and path.name != "run.toml"}


def latest(folder):
    return pathlib.Path(folder, "latest_checkpointed_iteration.txt").read_text(encoding="utf-8").strip()


class SameLayout(unittest.TestCase):
    """A run of 40 steps, and 20 steps and 20 more: all files have the same bits, the state of the optimizer too."""

    def compare(self, name, plan, data, run=train):
        straight, halves = name + ".straight", name + ".halves"
        run(plan, *data, "--train-iters", STEPS, "--save", straight, "--log", straight + ".jsonl")
        run(plan, *data, "--train-iters", HALF, "--save", halves, "--log", halves + ".jsonl")
        self.assertEqual(latest(halves), str(HALF))
        run(plan, *data, "--train-iters", STEPS, "--save", halves, "--load", halves, "--log", halves + ".jsonl")
        self.assertEqual(log_of(straight + ".jsonl"), log_of(halves + ".jsonl"))
        self.assertEqual(len(log_of(halves + ".jsonl")), STEPS)
        self.assertEqual(contents(straight), contents(halves))
        self.assertEqual(contents(f"{straight}/iter_{STEPS:07}"), contents(f"{halves}/iter_{STEPS:07}"))
        self.assertFalse(os.path.exists(f"{halves}/iter_{HALF:07}"), "--save-retain 1")
        return straight

    def test_dense_with_dropout(self):
        self.compare("dense", gpt("dense", "--tp 2 --pp 2 --dp 2 --zero 1 --mbs 1"), CORPUS)

    def test_virtual_stages(self):
        self.compare("virtual", gpt("virtual", "--pp 2 --vpp 1 --dp 2 --mbs 1"), CORPUS)

    def test_bf16(self):
        self.compare("rounded", gpt("rounded", "--tp 2 --dp 2 --zero 1 --mbs 2 --dtype bf16"), CORPUS)

    def test_units(self):
        self.compare("units", gpt("units", "--tp 2 --pp 2 --dp 2 --zero 2 --mbs 1"), CORPUS)
        self.compare("sharded", gpt("sharded", "--pp 2 --dp 2 --zero 3 --mbs 1 --dtype bf16"), CORPUS)
        ahead = "--overlap-grad-reduce --overlap-param-gather --ddp-bucket-size 300"
        straight = self.compare("ahead", gpt("ahead", f"--pp 2 --dp 2 --zero 1 --mbs 1 --dtype bf16 {ahead}"), CORPUS)
        train(gpt("behind", "--pp 2 --dp 2 --zero 1 --mbs 1 --dtype bf16 --overlap-grad-reduce --ddp-bucket-size 300"), *CORPUS,
              "--train-iters", STEPS, "--save", "after", "--log", "after.jsonl")
        self.assertEqual(contents(straight), contents("after"))
        optim = "--num-distributed-optimizer-instances 2 --outer-dp-sharding-strategy optim"
        self.compare("instances", gpt("instances", f"--pp 2 --dp 4 --zero 3 --mbs 1 --dtype bf16 {optim}"), CORPUS)

    def test_context(self):
        self.compare("context", gpt("context", "--cp 2 --dp 2 --zero 1 --mbs 2"), CORPUS)

    def test_experts_whose_biases_move(self):
        plan = compiled("experts", "deepseek_v3", "--tp 2 --ep 2 --etp 1 --dp 2 --zero 1 --seq 16 --gbs 8 --mbs 2")
        self.compare("experts", plan, ["--mock-data", "--moe-router-bias-update-rate", "0.01"])

    @unittest.skipUnless(MPIRUN, "no MPI")
    def test_processes(self):
        plan = gpt("apart", "--tp 2 --dp 2 --zero 3 --mbs 2")
        straight = self.compare("apart", plan, CORPUS, train_apart)
        train(plan, *CORPUS, "--train-iters", STEPS, "--save", "together", "--log", "together.jsonl")
        self.assertEqual(contents(f"{straight}/iter_{STEPS:07}"), contents(f"together/iter_{STEPS:07}"))

    @unittest.skipUnless(MPIRUN, "no MPI")
    def test_from_threads_to_processes_and_back(self):
        plan = gpt("apart", "--tp 2 --dp 2 --zero 3 --mbs 2")
        train(plan, *CORPUS, "--train-iters", STEPS, "--save", "threads", "--log", "threads.jsonl")
        for steps, run in (10, train), (20, train_apart), (30, train), (STEPS, train_apart):
            run(plan, *CORPUS, "--train-iters", steps, "--save", "mixed", "--restart-from-latest", "--log", "mixed.jsonl")
        self.assertEqual(log_of("threads.jsonl"), log_of("mixed.jsonl"))
        self.assertEqual(contents("threads"), contents("mixed"))
        self.assertEqual(contents(f"threads/iter_{STEPS:07}"), contents(f"mixed/iter_{STEPS:07}"))

    def test_saves_while_training_goes_on(self):
        for name, run in [("beside", train), ("beside-apart", train_apart)][:2 if MPIRUN else 1]:
            with self.subTest(name=name):
                plan = gpt("beside", "--tp 2 --dp 2 --zero 1 --mbs 2")
                run(plan, *CORPUS, "--train-iters", STEPS, "--save", name, "--log", name + ".jsonl", "--save-interval", 5,
                    "--save-retain", 0, "--async-save")
                straight = self.compare(name + "-not", plan, CORPUS, run)
                self.assertEqual(log_of(name + ".jsonl"), log_of(straight + ".jsonl"))
                self.assertEqual(contents(f"{name}/iter_{STEPS:07}"), contents(f"{straight}/iter_{STEPS:07}"))
                self.assertEqual(sorted(path.name for path in pathlib.Path(name).glob("iter_*")),
                                 [f"iter_{step:07}" for step in range(5, STEPS + 1, 5)])
                run(plan, *CORPUS, "--train-iters", STEPS, "--save", name + "-on", "--load", f"{name}/iter_{HALF:07}")
                self.assertEqual(contents(f"{name}-on/iter_{STEPS:07}"), contents(f"{straight}/iter_{STEPS:07}"))

    def test_an_interrupt_is_a_checkpoint(self):
        plan = gpt("stopped", "--tp 2 --mbs 2")
        train(plan, *CORPUS, "--train-iters", STEPS, "--save", "unstopped")
        with start("mgrun", plan, *OPTIMIZER, *CORPUS, "--train-iters", STEPS, "--save", "stopped.out", "--log-interval", 1) as process:
            wait_for(process, "step 7:")
            end(process, signal.SIGTERM)
        said = train(plan, *CORPUS, "--train-iters", STEPS, "--save", "stopped.out", "--load", "stopped.out")
        self.assertIn("goes on after ", said)
        self.assertEqual(contents(f"unstopped/iter_{STEPS:07}"), contents(f"stopped.out/iter_{STEPS:07}"))


class OtherLayout(unittest.TestCase):
    """From a layout at step 20 into others. Whole runs of two layouts differ by rounding, and so may one that changes from one
    to the other half way: by as much, at most four times. Without moments or with the first data again they differ by far more."""

    def compare(self, first, others, data, far=10):
        straight = first + ".straight"
        train(first, *data, "--train-iters", STEPS, "--save", straight, "--log", straight + ".jsonl")
        train(first, *data, "--train-iters", HALF, "--save", first + ".half")
        begun = losses(straight + ".jsonl")
        for other in others:
            with self.subTest(other=other):
                train(other, *data, "--train-iters", STEPS, "--log", other + ".whole.jsonl")
                train(other, *data, "--train-iters", STEPS, "--load", first + ".half", "--log", other + ".jsonl")
                whole, resumed = losses(other + ".whole.jsonl"), losses(other + ".jsonl")
                self.assertEqual(len(resumed), STEPS - HALF)
                allowed = 4 * max(abs(a - b) for a, b in zip(begun, whole)) + 1e-6
                off = max(abs(a - b) for a, b in zip(begun[HALF:], resumed))
                self.assertLessEqual(off, allowed)
                train(other, *data, "--train-iters", STEPS, "--load", first + ".half", "--finetune", "--log", other + ".new.jsonl")
                new = losses(other + ".new.jsonl")
                self.assertGreater(max(abs(a - b) for a, b in zip(begun[HALF:], new)), far * allowed)

    def test_dense(self):
        first = gpt("from-3d", "--tp 2 --pp 2 --dp 2 --zero 1 --mbs 1")
        self.compare(first, [gpt("to-data", "--dp 4 --zero 0 --mbs 2"), gpt("to-units", "--dp 2 --pp 2 --zero 2 --mbs 2"), gpt("to-context", "--cp 2 --tp 2 --mbs 1"),
                             gpt("to-one", "--mbs 2"), gpt("to-stages", "--pp 2 --dp 2 --zero 1 --mbs 1")], CORPUS)

    def test_units(self):
        first = gpt("from-units", "--tp 2 --dp 2 --zero 2 --mbs 2")
        self.compare(first, [gpt("to-slices", "--pp 2 --dp 2 --zero 1 --mbs 1"), gpt("to-four", "--dp 4 --zero 3 --mbs 1")], CORPUS)

    def test_sharded(self):
        first = gpt("from-sharded", "--tp 2 --dp 2 --zero 3 --mbs 2")
        self.compare(first, [gpt("to-first", "--pp 2 --dp 2 --zero 1 --mbs 1"), gpt("to-others", "--dp 4 --zero 3 --mbs 1")], CORPUS)

    def test_dtypes(self):
        first = gpt("from-rounded", "--tp 2 --dp 2 --zero 1 --mbs 2 --dtype bf16")
        self.compare(first, [gpt("to-exact", "--dp 2 --mbs 2"), gpt("to-rounded", "--tp 4 --mbs 2 --dtype bf16")], CORPUS,
                     far=2)  # the difference of f32 and bf16

    def test_experts(self):
        flags = "--seq 16 --gbs 8"
        first = compiled("from-experts", "qwen3_moe", f"--tp 2 --pp 2 --dp 2 --zero 1 --mbs 1 {flags}")
        self.compare(first, [compiled("to-exchange", "qwen3_moe", f"--cp 2 --ep 2 --etp 1 --dp 2 --zero 1 --mbs 1 {flags}"),
                             compiled("to-all", "qwen3_moe", f"--dp 2 --mbs 2 {flags}")], ["--mock-data"])


class Killed(unittest.TestCase):
    """A training that is killed at any time and started again by one command ends with the bits of one that was not."""

    def end(self, name, flags):
        plan = gpt("killed", "--tp 2 --dp 2 --zero 1 --mbs 2")
        train(plan, *CORPUS, "--train-iters", STEPS, "--save", name + ".alive")
        command = ["mgrun", plan, *OPTIMIZER, *CORPUS, "--train-iters", STEPS, "--save", name, "--restart-from-latest",
                   "--save-interval", 1, "--log-interval", 1, *flags]
        choose, kills, step, code = random.Random(5), 0, 0, None
        while code != 0:
            with start(*command) as process:
                steps = (line for line in process.stderr if line.startswith("step "))
                for _ in itertools.islice(steps, choose.randrange(16)):  # none: it has just begun
                    pass
                time.sleep(choose.uniform(0, 0.05))  # so far into the next step and its save
                process.kill()
                errors, code = process.stderr.read(), process.wait()
            if code != 0:
                self.assertEqual(code, -signal.SIGKILL, errors)
                kills += 1
                before, step = step, max((int(path.name[5:]) for path in pathlib.Path(name).glob("iter_*[0-9]")), default=0)
                self.assertGreaterEqual(step, before)
        self.assertGreater(kills, 2)
        self.assertEqual(contents(f"{name}.alive/iter_{STEPS:07}"), contents(f"{name}/iter_{STEPS:07}"))
        self.assertEqual(contents(name + ".alive"), contents(name))
        left = sorted(os.listdir(name))
        self.assertEqual([entry for entry in left if entry.startswith("iter_")], [f"iter_{STEPS:07}"], left)

    def test_at_any_time(self):
        self.end("killed.out", [])

    def test_while_a_save_runs_beside(self):
        self.end("killed-beside.out", ["--async-save"])


class Restarted(unittest.TestCase):
    """One command for all starts of a training."""

    @classmethod
    def setUpClass(cls):
        cls.plan = gpt("restarted", "--tp 2 --mbs 2")
        train(cls.plan, *CORPUS, "--train-iters", STEPS, "--save", "never", "--log", "never.jsonl")

    def restart(self, name, *flags, code=0):
        return train(self.plan, *CORPUS, "--train-iters", STEPS, "--save", name, "--log", name + ".jsonl", "--restart-from-latest",
                     *flags, code=code)

    def expect_the_same(self, name):
        self.assertEqual([record["step"] for record in records(name + ".jsonl")], list(range(STEPS)))
        self.assertEqual(log_of("never.jsonl"), log_of(name + ".jsonl"))
        self.assertEqual(contents("never"), contents(name))

    def test_begins_and_goes_on(self):
        said = self.restart("again", "--exit-interval", 15)
        self.assertIn("--restart-from-latest: no checkpoint is in again yet; a new training begins", said)
        for step in 15, 30:
            self.assertIn(f"--restart-from-latest again/iter_{step:07}: goes on after {step} steps",
                          self.restart("again", "--exit-interval", 15))
        self.expect_the_same("again")

    def test_load_is_where_it_begins(self):
        train(self.plan, *CORPUS, "--train-iters", 5, "--save", "base", "--seed", 7)
        flags = ["--load", "base", "--finetune", "--exit-interval", 25]
        self.assertIn("--load base/iter_0000005: a new training begins with its weights", self.restart("tuned", *flags))
        self.assertIn("--restart-from-latest tuned/iter_0000025: goes on after 25 steps", self.restart("tuned", *flags))
        train(self.plan, *CORPUS, "--train-iters", STEPS, "--save", "tuned-once", "--load", "base", "--finetune")
        self.assertEqual(contents("tuned-once"), contents("tuned"))

    def test_a_log_has_each_step_once(self):
        self.restart("logged", "--exit-interval", 20)
        # Steps after the checkpoint, the last one unfinished.
        with open("logged.jsonl", "a", encoding="utf-8") as log:
            for step in range(20, 33):
                log.write(json.dumps({"step": step, "loss": 9}).replace(" ", "") + "\n")
            log.write('{"step":33,"lo')
        self.restart("logged")
        self.expect_the_same("logged")

    def supervise(self, name, *flags):
        return start("mgrun", self.plan, *OPTIMIZER, *CORPUS, "--train-iters", STEPS, "--save", name, "--log", name + ".jsonl",
                     "--save-interval", 4, "--restart-from-latest", "--log-interval", 1, *flags)

    @staticmethod
    def child_of(run):
        return int(pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text(encoding="utf-8").split()[0])

    def test_restarts_by_itself(self):
        with self.supervise("supervised", "--max-restarts", 3) as process:
            said = ""
            for step in "step 6:", "step 17:":
                said += wait_for(process, step)
                os.kill(self.child_of(process), signal.SIGKILL)
            said += process.stderr.read()
            self.assertEqual(process.wait(), 0, said)
        self.assertIn("mgrun: the run was killed by signal 9 (Killed); restart 1 of 3", said)
        self.assertIn("restart 2 of 3", said)
        self.assertNotIn("restart 3 of 3", said)
        self.expect_the_same("supervised")

    def test_restarts_end(self):
        with self.supervise("broken", "--max-restarts", 2, "--load", "nowhere") as process:
            said = process.stderr.read()
            self.assertEqual(process.wait(), 1)
        self.assertIn("the run ended with code 1; restart 2 of 2", said)
        self.assertEqual(said.count("--load nowhere: does not exist"), 3)

    def test_requests_to_end_reach_the_run(self):
        with self.supervise("requested", "--max-restarts", 2) as process:
            wait_for(process, "step 6:")
            self.assertNotIn("restart 1", end(process, signal.SIGTERM)[1])
        self.assertTrue(os.path.exists("requested/latest_checkpointed_iteration.txt"))

    def test_the_run_ends_with_what_started_it(self):
        with self.supervise("orphan", "--max-restarts", 2) as process:
            wait_for(process, "step 6:")
            child = self.child_of(process)
            process.kill()
            process.stderr.read()
        wait_for_end(child, 10)

    @unittest.skipUnless(MPIRUN, "no MPI")
    def test_a_launcher_starts_again_itself(self):
        done = run(*MPIRUN, "-n", 2, BIN / "mgrun", self.plan, *CORPUS, "--save", "launched", "--restart-from-latest", "--max-restarts",
                   1, code=None)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--max-restarts: would do nothing: processes that a launcher started cannot start each other", done.stderr)


class GoesBack(unittest.TestCase):
    """latest_checkpointed_iteration.txt names the checkpoint from which a run goes on."""

    def test_to_the_step_that_the_file_names(self):
        plan = gpt("back", "--mbs 4")
        log = ["--log", "back.jsonl"]
        train(plan, *CORPUS, "--train-iters", 8, "--save", "back.out", "--save-interval", 2, "--save-retain", 0, *log)
        straight = log_of("back.jsonl")
        on = lambda *flags, code=0: train(plan, *CORPUS, "--train-iters", 8, "--load", "back.out", *flags, *log, code=code)
        name = lambda step: write("back.out/latest_checkpointed_iteration.txt", step)
        name("5")
        self.assertIn("names iter_0000005, which is not in the folder; possible for --load: back.out/iter_0000002", on(code=1))
        name("4")
        said = on("--save", "other.out")
        self.assertIn("goes on after 4 steps; latest_checkpointed_iteration.txt names it, the newest one in the folder is of step 8", said)
        self.assertEqual((records("back.jsonl")[4]["step"], log_of("back.jsonl")), (4, straight))
        for part in "behind step 4, from which the run goes on, the newest of step 8", "expected another folder, to keep both, --force":
            self.assertIn(part, on("--save", "back.out", code=1))
        on("--save", "back.out", "--force", "--exit-interval", 5, "--save-retain", 0)
        self.assertEqual(sorted(path.name for path in pathlib.Path("back.out").glob("iter_*")),
                         [f"iter_{step:07}" for step in (2, 4, 5)])
        self.assertEqual(latest("back.out"), "5")


class Refused(unittest.TestCase):
    """Where, what was found, what was expected, what would work; all at once."""

    @classmethod
    def setUpClass(cls):
        cls.plan = gpt("refused", "--tp 2 --mbs 2")
        train(cls.plan, *CORPUS, "--train-iters", 2, "--save", "good")

    def expect(self, parts, *flags, plan=None, data=CORPUS, load="good", steps=4):
        said = train(plan or self.plan, *data, "--train-iters", steps, "--load", load, *flags, code=1)
        for part in [parts] if isinstance(parts, str) else parts:
            self.assertIn(part, said)

    def damaged(self, name):
        shutil.copytree("good", name)
        return pathlib.Path(name, "iter_0000002")

    def test_other_settings(self):
        self.expect(["--load good/iter_0000002: this run would not go on as that of the checkpoint",
                     "--seed: found 5, expected 1234, as in the checkpoint; --finetune begins",
                     "--weight-decay: found 0.5, expected 0.01, as in the checkpoint; --override-opt-param-scheduler"],
                    "--seed", 5, "--weight-decay", 0.5)
        train(self.plan, *CORPUS, "--train-iters", 4, "--load", "good", "--weight-decay", 0.5, "--override-opt-param-scheduler")
        train(self.plan, *CORPUS, "--train-iters", 4, "--load", "good", "--seed", 5, "--finetune")

    def test_other_settings_of_the_plan(self):
        """Settings that change what is learned are refused, with the flag that passes them, and then said; precision is said."""
        dropout = json.loads(read("gpt/config.json")) | {"resid_pdrop": 0.3}
        write("dropped/config.json", json.dumps(dropout))
        compile_plan("dropped.plan", "dropped", "--target-cpu native --seq 32 --gbs 8 --mbs 2")
        parts = ["layer 0: attention_branch.dropout: 0.1 in the config.json, 0.3 in the plan", "--ignore-config"]
        self.expect(parts, plan="dropped.plan")
        said = train("dropped.plan", *CORPUS, "--train-iters", 4, "--load", "good", "--ignore-config")
        for part in [parts[0], "--ignore-config: goes on with what the plan has"]:
            self.assertIn(part, said)
        train("dropped.plan", *CORPUS, "--train-iters", 4, "--load", "good", "--finetune")
        experts = "--seq 16 --gbs 8 --mbs 2 --moe-router-load-balancing-type seq_aux_loss --moe-aux-loss-coeff"
        first, second = (compiled(f"balance-{value}", "qwen3_moe", f"{experts} {value}") for value in ("0.01", "0.02"))
        train(first, "--mock-data", "--train-iters", 2, "--save", "balanced")
        change = "--moe-aux-loss-coeff: 0.02, and 0.01 in the checkpoint"
        self.expect([f"{change} of another plan; --ignore-config goes on with that of this plan"], plan=second, data=["--mock-data"],
                    load="balanced")
        self.assertIn(change, train(second, "--mock-data", "--train-iters", 4, "--load", "balanced", "--ignore-config"))
        rounded = gpt("precise", "--mbs 2 --dtype bf16")
        self.assertIn("--dtype: bf16, and f32 in the checkpoint", train(rounded, *CORPUS, "--train-iters", 4, "--load", "good"))
        self.assertIn("--skip-bad-steps: 2, and 0 in the checkpoint",
                      train(self.plan, *CORPUS, "--train-iters", 4, "--load", "good", "--skip-bad-steps", 2))

    def test_the_length_of_the_decay_counts(self):
        run("mgrun", self.plan, *CORPUS, "--train-iters", 1, "--save", "decayed")
        expect(1, "--lr-decay-iters: found 4, expected 1", "mgrun", self.plan, *CORPUS, "--train-iters", 4, "--load", "decayed")

    def test_other_data(self):
        shutil.copy(CORPUS[1], "corpus.txt")
        train(self.plan, "--data", "corpus.txt", "--train-iters", 4, "--load", "good")  # it was moved
        write("other.txt", "to be or not to be " * 200)
        self.expect("--data: found other.txt: ", data=["--data", "other.txt"])
        self.expect(["--data: found not there, expected corpus.txt: ", "--mock-data: found "], data=["--mock-data"])

    def preprocessed(self, folder, lines):
        write(f"{folder}/texts.jsonl", "".join(json.dumps({"text": line}) + "\n" for line in lines))
        run("mgc-data", "preprocess", "--input", f"{folder}/texts.jsonl", "--output-prefix", f"{folder}/c", "--tokenizer-type",
            "ByteTokenizer")
        return f"{folder}/c_text_document"

    def test_other_data_of_the_same_name(self):
        """Sequences, their parts in a blend, their order by micro batches, and the tokens of a text."""
        one, two = (self.preprocessed(folder, [word * 40] * 30) for folder, word in (("one", "all work "), ("two", "and no play ")))
        for name, data in ("plain", ["--data-path", one]), ("blend", ["--data-path", 0.1, one, 0.9, two]):
            train(self.plan, *data, "--train-iters", 4, "--exit-interval", 2, "--save", name)
        train(self.plan, "--data-path", one, "--train-iters", 4, "--load", "plain")
        self.expect("lengths of the sequences: found the hash", data=["--data-path", two], load="plain")
        self.expect("lengths of the sequences: found the hash", data=["--data-path", 0.1, two, 0.9, one], load="blend")
        cyclic = ["--data-path", one, "--dataloader-type", "cyclic"]
        train(self.plan, *cyclic, "--train-iters", 4, "--exit-interval", 2, "--save", "cyclic")
        self.expect("order of the samples: found cyclic in micro batches of 1 on 1 data-parallel ranks, expected", data=cyclic, load="cyclic",
                    plan=gpt("smaller", "--tp 2 --mbs 1"))
        for folder, words in ("of-one", "ab"), ("of-two", "ba"):
            write_word_level(f"{folder}/tokenizer.json", words + "u", "u")
        write("ab.jsonl", json.dumps({"text": "a b " * 400}) + "\n")
        lines = lambda folder: ["--data", "ab.jsonl", "--tokenizer-model", f"{folder}/tokenizer.json"]
        train(self.plan, *lines("of-one"), "--train-iters", 4, "--exit-interval", 2, "--save", "lines")
        train(self.plan, *lines("of-one"), "--train-iters", 4, "--load", "lines")
        self.expect("contents of the tokenizer: found the hash", data=lines("of-two"), load="lines")
        shutil.copytree("of-one", "renamed")
        train(self.plan, *lines("renamed"), "--train-iters", 4, "--load", "lines")
        write("ab.jsonl", json.dumps({"text": "b a " * 400}) + "\n")
        self.expect("contents of --data: found 1600 bytes with the checksum", data=lines("of-one"), load="lines")

    def test_data_that_changed(self):
        """As many tokens, but others, in a file of the same name."""
        tokens = np.arange(2000, dtype=np.int32) % 90
        batches = {name: np.reshape(tokens[:4 * 8 * 32], (4, 8, 32)) for name in ("input_ids", "labels")}
        writers = {"changed.txt": lambda change: write("changed.txt", "ab" + "c" * change + "b" * (1000 - change)),
                   "changed.npy": lambda change: np.save("changed.npy", np.roll(tokens, change)),
                   "changed.safetensors": lambda change: tensor_files.save("changed.safetensors",
                                                                           {name: np.roll(each, change) for name, each in batches.items()})}
        for name, write_data in writers.items():
            write_data(0)
            data = ["--data", name]
            train(self.plan, *data, "--train-iters", 4, "--exit-interval", 2, "--save", f"{name}.out")
            write_data(0)
            train(self.plan, *data, "--train-iters", 4, "--load", f"{name}.out")
            write_data(1)
            self.expect("contents of --data: found ", data=data, load=f"{name}.out")
            train(self.plan, *data, "--train-iters", 4, "--load", f"{name}.out", "--finetune")

    def test_other_sizes(self):
        self.expect("global batch size: found 4 in the plan, expected 8", plan=compiled("small", "gpt", "--seq 32 --gbs 4 --mbs 2"))
        self.expect("sequence length: found 16 in the plan, expected 32", plan=compiled("short", "gpt", "--seq 16 --gbs 8 --mbs 2"))

    def test_another_model(self):
        plan = compiled("llama", "llama", "--seq 32 --gbs 8 --mbs 2")
        self.expect(["config.json: describes another model", "--ignore-config"], plan=plan, data=["--mock-data"])
        self.expect(["tensors do not fit the plan", "missing, expected F32"], "--ignore-config", "--finetune", plan=plan,
                    data=["--mock-data"])

    def test_steps_that_are_done(self):
        self.expect("--train-iters: found 1, expected at least 2", steps=1)
        train(self.plan, *CORPUS, "--train-iters", 2, "--load", "good")

    def test_files(self):
        shard = sorted(path.name for path in pathlib.Path("good/iter_0000002").glob("shard-*"))[0]
        raw = pathlib.Path("good/iter_0000002", shard).read_bytes()
        for name, content, parts in [
                ("cut", raw[:-8], [shard, f"has {len(raw) - 8} bytes, expected {len(raw)} bytes"]),
                ("edited", raw[:-1] + bytes([raw[-1] ^ 1]), [shard, "has the checksum", "checkpoint.json says"]),
                ("empty", b"", [shard, "has 0 bytes"])]:
            with self.subTest(name=name):
                (self.damaged(name) / shard).write_bytes(content)
                self.expect(["--load: ", *parts, "expected another checkpoint"], load=name)
        (self.damaged("absent") / shard).unlink()
        self.expect([shard, "No such file", "expected another checkpoint"], load="absent")
        record = self.damaged("record") / "checkpoint.json"
        record.write_text(record.read_text(encoding="utf-8").replace('"step": 2', '"step": 3'), encoding="utf-8")
        self.expect(["checkpoint.json: was edited or cut off"], load="record")
        shutil.rmtree(self.damaged("lost"))
        self.expect(["lost/latest_checkpointed_iteration.txt: names iter_0000002, which is not in the folder"], load="lost")

    def test_a_checkpoint_of_the_own_folder_may_end_with_a_slash(self):
        train(self.plan, *CORPUS, "--train-iters", 2, "--save", "own")
        train(self.plan, *CORPUS, "--train-iters", 4, "--save", "own", "--load", "own/iter_0000002/", "--override-opt-param-scheduler")
        self.assertTrue(os.path.exists("own/iter_0000004"))

    def test_nothing_to_load(self):
        self.expect("--load nowhere: does not exist", load="nowhere")
        self.expect("has neither model.safetensors nor", load=self.plan)
        said = train(self.plan, *CORPUS, "--train-iters", 1, "--load", "fresh", "--save", "fresh", code=1)
        self.assertIn("with --restart-from-latest instead of it a run begins where --save has no checkpoint yet", said)
        self.expect("--finetune: --load good/model.safetensors has no checkpoint", "--finetune", load="good/model.safetensors")

    def test_a_folder_of_another_training(self):
        shutil.copytree("good", "taken")
        said = train(self.plan, *CORPUS, "--train-iters", 1, "--save", "taken", code=1)
        for part in ("--save: taken: holds checkpoints of another training, the newest of step 2", "--load taken", "--force"):
            self.assertIn(part, said)
        train(self.plan, *CORPUS, "--train-iters", 1, "--save", "taken", "--no-save-optim")  # weights alone
        train(self.plan, *CORPUS, "--train-iters", 1, "--save", "taken", "--force")
        self.assertEqual([path.name for path in pathlib.Path("taken").glob("iter_*")], ["iter_0000001"])

    def test_flags_that_would_do_nothing(self):
        for flags, message in ((["--async-save", "--save", "s"], "--async-save: would do nothing: it is of the checkpoints of --save-interval"),
                               (["--save-retain", 2, "--no-save-optim", "--save", "s"], "--no-save-optim saves no checkpoints"),
                               (["--finetune"], "--finetune requires --load"),
                               (["--restart-from-latest"], "--restart-from-latest requires --save"),
                               (["--max-restarts", 2, "--save", "s"], "--max-restarts requires --restart-from-latest"),
                               (["--restart-from-latest", "--no-save-optim", "--save", "s"],
                                "--restart-from-latest: would do nothing: --no-save-optim saves no checkpoints"),
                               (["--override-opt-param-scheduler"], "there is no --load and no --restart-from-latest"), (["--save-retain", 2], "--save-retain requires --save")):
            with self.subTest(flags=flags):
                self.assertIn(message, train(self.plan, *CORPUS, *flags, code=2))

    def test_files_that_are_larger_than_the_limit(self):
        """Refused before the training, the weights' file being smaller than a shard's; a limit that falls meanwhile ends nothing."""
        plan = gpt("one-rank", "--mbs 2 --dtype bf16")
        done = run("sh", "-c", 'ulimit -f 1024; exec "$@"', "sh", BIN / "mgrun", plan, *CORPUS, "--train-iters", 2, "--save", "limited",
                   code=1)
        self.assertRegex(done.stderr, r"--save: limited: a file of the checkpoint has \d\.\d MiB, files .* may have [01]\.\d MiB")

    def test_room_is_looked_for_before_the_training(self):
        done = run_in_small_folder('900k none small && exec "$0" "$@"', BIN / "mgrun", self.plan, *OPTIMIZER, *CORPUS, "--train-iters", 3,
                                   "--save", "small")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"--save: small: \d\.\d MiB are free, saving needs \d+\.\d MiB")


if __name__ == "__main__":
    samples.main(sys.argv[:1])
