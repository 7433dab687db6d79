#!/usr/bin/python3
"""mgrun under hostile conditions: python3 mgrun_hostile.py BIN REPOSITORY

Every error must say what is wrong and end with code 1 (2 for usage), and no checkpoint may be lost.
"""
import contextlib
import fcntl
import json
import os
import pathlib
import pty
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

sys.path += [str(pathlib.Path(__file__).resolve().parent.parent / folder) for folder in ("e2e", "mutation")]
import mutate  # noqa: E402
from tool_runs import (BIN, CORPUS, ENDLESS, TINY_GPT, compile_plan, end, enter_folder, expect, read, records, run,  # noqa: E402
                       run_in_small_folder, start, wait_for, write)

MOCK = ["--mock-data", "--train-iters", "1"]


def setUpModule():
    enter_folder()
    compile_plan("plan", TINY_GPT, "--tp 2 --pp 2 --dp 2 --seq 64 --mbs 2 --gbs 16 --target-cpu native")
    run("mgrun", "plan", *MOCK, "--save", "good")


def limited(kind, most):
    return {"preexec_fn": lambda: resource.setrlimit(kind, (most, most))}


class Hostile(unittest.TestCase):
    def expect(self, code, message, *arguments, **options):
        return expect(code, message, "mgrun", *arguments, **options)

    def expect_usage(self, *arguments):
        return self.expect(2, "", *arguments)

    def test_flags(self):
        for flag, value, message in [
                ("--train-iters", "-1", "found '-1', expected a whole number, at least 0"),
                ("--train-iters", "", "found '', expected a whole number"),
                ("--train-iters", "1e30", "found '1e30', expected a whole number"),
                ("--seed", "-1", "expected a whole number, at least 0"),
                ("--threads", "-1", "expected a whole number, at least 0, at most 1024"),
                ("--timeout", "nan", "expected a finite number, at least 0.001"),
                ("--lr", "nan", "found 'nan', expected a finite number"),
                ("--lr", "1e400", "expected a finite number"),
                ("--log-interval", "0", "expected a whole number, at least 1"),
                ("--save", "", "the value is empty"),
                ("--save-dtype", "f16", "f16 not in {f32,bf16}"),
                ("--save-dtype", "bf16", "--save-dtype requires --save"),
                ("--fly", "1", "--fly")]:
            with self.subTest(flag=flag, value=value):
                self.expect(2, message, "plan", "--mock-data", flag, value)
        self.expect(2, "--data FILE, --data-path PREFIX or --mock-data", "plan")
        self.expect(2, "excludes", "plan", "--mock-data", "--data", CORPUS)
        self.expect(1, "--lr = -1: must be finite in float and not negative", "plan", "--mock-data", "--lr", "-1")

    def test_flags_that_would_do_nothing(self):
        write("rates.json", b"[0.1, 0.1]")
        for flags, message in [
                (["--lr-decay-style", "constant", "--min-lr", "1e-4"],
                 "--min-lr: would do nothing: --lr-decay-style constant stays at --lr; leave it out"),
                (["--lr-decay-style", "constant", "--lr-decay-iters", "1"], "--lr-decay-iters: would do nothing"),
                (["--lr-wsd-decay-iters", "1"], "--lr-wsd-decay-iters: would do nothing: it is of --lr-decay-style WSD"),
                (["--lr-wsd-decay-style", "linear"], "--lr-wsd-decay-style: would do nothing"),
                (["--lr-list", "rates.json", "--lr", "0.1"], "--lr: would do nothing: --lr-list has the rate of each step"),
                (["--lr-warmup-init", "1e-4"], "--lr-warmup-init: would do nothing: there is no warmup"),
                (["--ignore-extra-weights"], "--ignore-extra-weights: would do nothing: there is no --load"),
                (["--master-addr", "10.0.0.1"], "--master-addr: would do nothing: all ranks are in this one process"),
                (["--bf16-products", "native"], "--bf16-products: means nothing for a plan of f32 for cpu")]:
            with self.subTest(flags=flags):
                code = 1 if flags[0] == "--bf16-products" else 2
                self.expect(code, message, "plan", "--mock-data", "--train-iters", "2", *flags)

    def test_samples_are_steps_of_a_global_batch(self):
        mock = ["plan", "--mock-data"]
        for arguments, message in [
                (["--train-samples", "15"], "--train-samples 15: is less than the global batch of the plan, expected at least 16"),
                (["--train-samples", "64", "--lr-warmup-samples", "64"],
                 "--lr-warmup-samples = 64: at least 0, below the 64 samples of the decay"),
                (["--train-iters", "4", "--lr-warmup-fraction", "1"], "--lr-warmup-iters = 4: at least 0, below the 4 steps of the decay; so is what --lr-warmup-fraction gives"),
                (["--train-samples", "64", "--lr-decay-style", "WSD", "--lr-wsd-decay-samples", "65"], "WSD needs 1 to 64")]:
            self.expect(1, message, *mock, *arguments)
        for arguments, message in [
                (["--train-samples", "64", "--train-iters", "4"], "excludes"),
                (["--train-samples", "64", "--lr-decay-iters", "4"], "excludes"),
                (["--train-samples", "64", "--lr-warmup-samples", "16", "--lr-warmup-fraction", "0.1"], "excludes"),
                (["--lr-decay-samples", "64"], "--train-samples"),
                (["--train-samples", "64", "--lr-decay-style", "constant", "--lr-decay-samples", "16"], "would do nothing")]:
            self.assertIn(message, self.expect_usage(*mock, *arguments))
        logs = {}
        for name, arguments in [
                ("samples", ["--train-samples", "79", "--lr-decay-samples", "64", "--lr-warmup-samples", "32"]),
                ("steps", ["--train-iters", "4", "--lr-decay-iters", "4", "--lr-warmup-iters", "2"])]:
            self.expect(0, "", *mock, "--lr-decay-style", "linear", "--lr", "1e-3", "--log", name, *arguments)
            logs[name] = [(line["step"], line["lr"], line["loss"]) for line in records(name)]
        self.assertEqual(len(logs["samples"]), 4)
        self.assertEqual(logs["samples"], logs["steps"])

    def test_flags_of_checks(self):
        self.expect(2, "--skip-bad-steps: would do nothing", "plan", *MOCK, "--skip-bad-steps", "2",
                    "--no-check-for-nan-in-loss-and-grad")
        error = self.expect(1, "not finite", "plan", "--mock-data", "--train-iters", "9", "--lr", "1e30", "--lr-decay-style", "constant")
        self.assertRegex(error, r"the step's data: samples \d+ to \d+ of made-up data")
        self.expect(1, "--log-norms-by-layer: there is no log for it", "plan", *MOCK, "--log-norms-by-layer")

    def test_a_decay_that_ends_early_is_said(self):
        self.expect(0, "--lr-decay-iters 1 ends before the 3 steps of the training: the last 2 have the rate --min-lr 0, "
                       "which trains nothing", "plan", "--mock-data", "--train-iters", "3", "--lr-decay-iters", "1")

    def test_more_threads_than_cores_are_said(self):
        threads = len(os.sched_getaffinity(0)) + 1
        self.expect(0, f"--threads {threads}: a rank has more threads than the {threads - 1} cores of this process", "plan",
                    *MOCK, "--threads", str(threads))

    def test_epochs_are_said(self):
        write("81.txt", b"a" * (64 * 10 + 1))
        said = self.expect(0, "", "plan", "--data", "81.txt", "--train-iters", "3")
        self.assertRegex(said, r"10 samples of 64 tokens; 3 steps of \d+ are \d+\.\d\d epochs")

    def test_outputs_are_checked_before_the_training(self):
        write("file", b"")
        for flag, path in [("--save", "file"), ("--save", "file/x"), ("--save", "/dev/null"),
                           ("--save-gradients", "."), ("--save-gradients", "/dev/null"), ("--log", "."), ("--trace", "."),
                           ("--trace", "/dev/null"), ("--profile-json", "file/x"), ("--html", "."), ("--html", "file/x")]:
            with self.subTest(flag=flag, path=path):
                self.expect(1, path, "plan", "--mock-data", "--train-iters", "1000000", flag, path)

    def test_events(self):
        write("file", b"")
        self.expect(1, "file: is no folder and cannot be made one", "plan", "--mock-data", "--train-iters", "1000000",
                    "--tensorboard-dir", "file")
        self.expect(2, "--tensorboard-log-interval requires --tensorboard-dir", "plan", *MOCK, "--tensorboard-log-interval", "2")
        self.expect(0, "", "plan", "--mock-data", "--train-iters", "9", "--exit-interval", "2",
                    "--tensorboard-dir", "events")
        self.assertEqual(len(os.listdir("events")), 1)

    def test_no_output_is_a_pipe(self):
        os.mkfifo("pipe")
        for flag in "--log", "--save-gradients", "--trace", "--profile-json", "--html":
            with self.subTest(flag=flag):
                self.expect(1, flag + ": pipe: is a ", "plan", "--mock-data", "--train-iters", "2", flag, "pipe")

    def test_an_output_is_named_as_it_was_given(self):
        self.expect(1, "--trace: absent/t.json: cannot create: ", "plan", "--mock-data", "--trace", "absent/t.json")

    def test_no_output_is_an_input(self):
        write("c.txt", read(CORPUS))
        write("w.safetensors", read("good/model.safetensors"))
        write("rates.json", b"[0.1, 0.1]")
        (kernels,) = os.listdir("plan/kernels")
        library = read("plan/kernels/" + kernels)
        for arguments in [["--data", "c.txt", "--log", "c.txt"], ["--data", "c.txt", "--save-gradients", "./c.txt"],
                          ["--mock-data", "--load", "w.safetensors", "--log", "w.safetensors"],
                          ["--mock-data", "--load", "good", "--save-gradients", "good/model.safetensors"],
                          ["--mock-data", "--log", "plan/plan.json"], ["--mock-data", "--lr-list", "rates.json", "--log", "rates.json"],
                          ["--mock-data", "--log", "one", "--save-gradients", "one"],
                          ["--mock-data", "--save", "new", "--log", "new/config.json"],
                          ["--data", "c.txt", "--html", "c.txt"], ["--mock-data", "--html", "one", "--trace", "one"]]:
            with self.subTest(arguments=arguments):
                self.expect(1, "expected another", "plan", "--train-iters", "2", *arguments)
        self.expect(1, "--log rates.json: is a file of --lr-list", "plan", *MOCK, "--lr-list", "rates.json", "--log", "rates.json")
        for flag in "--log", "--save-gradients", "--trace", "--profile-json", "--html":
            with self.subTest(flag=flag):
                path = "plan/kernels/" + kernels
                self.expect(1, f"{flag} {path}: is a file of the plan, expected another", "plan", "--mock-data",
                            "--train-iters", "2", flag, path)
        self.assertEqual(read("plan/kernels/" + kernels), library)
        self.assertEqual(read("c.txt"), read(CORPUS))
        self.assertEqual(read("w.safetensors"), read("good/model.safetensors"))

    def test_data(self):
        write("empty.txt", b"")
        write("short.txt", b"hi")
        write("binary.txt", bytes(range(256)) * 400)
        write("large.bin", struct.pack("<1000H", *[256] * 1000))
        write("odd.bin", b"abc")
        write("wide.bin", struct.pack("<1000I", *range(1, 201), *range(1, 201), *range(1, 201), *range(1, 201), *range(1, 201)))
        write("cut.bin", struct.pack("<1000I", *range(1, 201), *range(1, 201), *range(1, 201), *range(1, 201), *range(1, 201))[:-2])
        write("empty.bin", b"")
        write("lines.jsonl", b'{"text": "to be or not to be"}')
        write("not.npy", b"hello")
        write("not.safetensors", b"hello")
        for name, message in [("empty.txt", "has 0 tokens, expected at least 65"),
                              ("short.txt", "has 2 tokens, expected at least 65"),
                              ("binary.txt", "is not UTF-8"),
                              ("odd.bin", "has 3 tokens, expected at least 65"),
                              ("wide.bin", "can be read as any of u8, u16, i32"),
                              ("cut.bin", "can be read as any of u8, u16, i32"),
                              ("empty.bin", "empty.bin: is empty"),
                              ("lines.jsonl", "is JSON, whose braces and field names would become tokens"),
                              ("not.npy", "does not begin as a NumPy file does"),
                              ("not.safetensors", "has 5 bytes")]:
            with self.subTest(name=name):
                self.expect(1, message, "plan", "--data", name)
        self.expect(1, "256 at position 0, expected 0 to 255", "plan", "--data", "large.bin", "--bin-type", "u16")
        self.expect(1, "--bin-type u8 is for files that end in .bin", "plan", "--data", CORPUS, "--bin-type", "u8")

    def test_masking(self):
        """A plan whose objective was edited: its model predicts masked tokens, if not well."""
        plan = pathlib.Path("masked")
        shutil.copytree("plan", plan)
        document = mutate.read(plan)
        document["plan"]["objective"] = "masked"
        mutate.write(document, plan)
        masked, mask = ["masked", *MOCK], ["--mask-token-id", "255"]
        self.expect(1, "expected --mask-token-id: the id that the tokenizer's tokenizer.json has", "masked", "--data", CORPUS)
        self.expect(1, "--mlm-probability, --mask-token-id: the plan of the gpt2 model predicts the next token and masks none",
                    "plan", *MOCK, *mask, "--mask-prob", "0.2")
        self.expect(1, "--special-token-ids 256: expected 0 to 255", *masked, *mask, "--special-token-ids", "1,256")
        self.expect(2, "found 'x', expected a whole number", *masked, *mask, "--special-token-ids", "1,x")
        self.expect(2, "found '1.5', expected a finite number", *masked, *mask, "--mlm-probability", "1.5")
        self.expect(1, ["step 0: all 1024 labels of the batch are -100, so it has no loss; more tokens in a step have some, or a "
                        "higher --mlm-probability", "it is skipped", "step 99: ", "so were those of the 99 steps before"],
                    "masked", "--mock-data", "--train-iters", "200", *mask, "--mlm-probability", "1e-9")
        self.expect(1, "--cls-token-id without --sep-token-id", *masked, *mask, "--cls-token-id", "1")
        for data in (["--mock-data"], ["--data", CORPUS]):
            done = run("mgrun", "masked", *data, "--train-iters", "30", "--lr", "1e-2", *mask, "--mlm-probability", "0.3", "--log",
                       "masked.jsonl", "--cls-token-id", "1", "--sep-token-id", "2", "--special-token-ids", "0,3")
            if data[0] == "--data":
                self.assertIn("30 % of the tokens are masked", done.stdout + done.stderr)
            steps = records("masked.jsonl")
            # 1024 tokens, less 32 around samples.
            self.assertTrue(all(200 < step["tokens"] < 400 for step in steps), steps)
            self.assertLess(steps[-1]["loss"], steps[0]["loss"] - 0.5)
            os.remove("masked.jsonl")

    def test_weights_of_another_model(self):
        os.mkdir("other")
        config = json.loads(read("good/config.json"))
        activation = "relu" if config.get("activation_function") != "relu" else "gelu_new"
        write("other/config.json", json.dumps(config | {"activation_function": activation}).encode())
        write("other/model.safetensors", read("good/model.safetensors"))
        for message in ("other/config.json: describes another model than the plan", "activation: relu in the config.json, gelu",
                        "--ignore-config loads it all the same"):
            self.expect(1, message, "plan", *MOCK, "--load", "other")
        self.expect(0, "", "plan", *MOCK, "--load", "other", "--ignore-config")
        self.expect(1, "other/config.json: describes another", "plan", *MOCK, "--load", "other/model.safetensors")
        saved = "other: holds the config.json of another model"
        self.expect(1, saved, "plan", *MOCK, "--load", "good/model.safetensors", "--save", "other")
        self.expect(1, saved, "plan", *MOCK, "--load", "other", "--ignore-config", "--save", "other")
        os.remove("other/model.safetensors")
        self.expect(1, saved, "plan", *MOCK, "--save", "other")  # weights of another form may lie there
        self.assertEqual(json.loads(read("other/config.json"))["activation_function"], activation)
        self.expect(0, "", "plan", *MOCK, "--save", "other", "--force")

    def test_a_launch_of_one_process(self):
        self.expect(0, "", "plan", *MOCK, "--rank", "0", "--world-size", "1", "--master-addr", "localhost", "--master-port", "1")
        self.expect(2, "--master-addr: would do nothing", "plan", *MOCK, "--master-addr", "localhost")

    def test_replacing_an_older_form_of_the_model(self):
        """Buffers that older versions of transformers saved are no other model, for --save as for --load."""
        os.mkdir("older")
        raw = read("good/model.safetensors")
        size = struct.unpack("<Q", raw[:8])[0]
        header = json.loads(raw[8:8 + size])
        end = len(raw) - 8 - size
        header["transformer.h.0.attn.bias"] = {"dtype": "F32", "shape": [1], "data_offsets": [end, end + 4]}
        text = json.dumps(header).encode()
        write("older/model.safetensors", struct.pack("<Q", len(text)) + text + raw[8 + size:] + bytes(4))
        shutil.copytree("older", "replaced")
        self.expect(0, "", "plan", *MOCK, "--load", "older", "--save", "replaced")

    def test_weights(self):
        raw = read("good/model.safetensors")
        size = struct.unpack("<Q", raw[:8])[0]
        header, data = json.loads(raw[8:8 + size]), raw[8 + size:]
        name = "transformer.h.1.mlp.c_fc.weight"

        def changed(**fields):
            text = json.dumps({**header, name: {**header[name], **fields}}).encode()
            return struct.pack("<Q", len(text)) + text + data

        renamed = json.dumps({("other" if key == name else key): value for key, value in header.items()}).encode()
        for content, message in [
                (b"", "has 0 bytes"),
                (raw[:-4], "is it cut off?"),
                (raw + b"x", "follow the last tensor"),
                (struct.pack("<Q", 2**63) + raw[8:], "is this a safetensors file?"),
                (struct.pack("<Q", len(renamed)) + renamed + data, name),
                (changed(shape=[512, 128]), "found shape [512, 128], expected [128, 512]"),
                (changed(shape=[2**62, 4]), "is too large"),
                (changed(shape=[-1]), "has -1"),
                (changed(dtype="I32"), "found I32"),
                (changed(dtype="F77"), 'unknown dtype "F77"'),
                (changed(data_offsets=[0, 2**63 - 1]), "is it cut off?")]:
            with self.subTest(message=message):
                write("bad/model.safetensors", content)
                self.expect(1, message, "plan", *MOCK, "--load", "bad")

    def test_plan(self):
        (name,) = os.listdir("plan/kernels")
        text, library = read("plan/plan.json"), read("plan/kernels/" + name)
        other = bytearray(library)
        other[len(other) // 2] ^= 1
        for content, kernels, message in [
                (text[:len(text) // 2], library, "was edited or cut off"),
                (text.replace(b'"version": 33', b'"version": 99', 1), library, "is of version 99"),
                (b"{}", library, "does not begin like a plan"),
                (text, b"hello", "compile the plan again"),
                (text, bytes(other), "compile the plan again")]:
            with self.subTest(message=message):
                write("edited/plan.json", content)
                write("edited/kernels/" + name, kernels)
                self.expect(1, message, "edited", *MOCK)
        os.remove("edited/kernels/" + name)
        self.expect(1, name + ": cannot open", "edited", *MOCK)

    def test_row_kernels_are_called_as_they_were_compiled(self):
        """By a plan that was edited, its checksum too: it would reach beyond its memory."""
        (name,) = os.listdir("plan/kernels")
        write("beyond/kernels/" + name, read("plan/kernels/" + name))
        for edit, message in [
                (lambda kernel, _: kernel.update(range=1 << 40), "range = 1099511627776, but the kernel was compiled for"),
                (lambda kernel, _: kernel.update(range=0), "range = 0, but the kernel was compiled for"),
                (lambda kernel, _: kernel.update(scalars=[]), "scalars = 0, but the kernel was compiled for"),
                (lambda kernel, _: (kernel["operands"].append(kernel["operands"][0]), kernel["uses"].append(kernel["uses"][0])),
                 "but the kernel was compiled for"),
                (lambda kernel, _: kernel["uses"][0].update(bytes=kernel["uses"][0]["bytes"] - 64),
                 "read, the kernel was compiled for"),
                # With these edits the program reads what nothing wrote: the proof refuses it before the kernel does.
                (lambda kernel, _: kernel["uses"][-1].update(use="read"), "that no instruction wrote"),
                (lambda kernel, _: kernel["uses"][-1].update(bytes=kernel["uses"][-1]["bytes"] - 64), "that no instruction wrote"),
                (lambda kernel, bytes: kernel["operands"][0].update(offset=bytes[kernel["operands"][0]["segment"]] - 4),
                 "not inside segment")]:
            with self.subTest(message=message):
                document = mutate.read(pathlib.Path("plan"))
                edit(*next((instruction, program["segmentBytes"]) for program in document["plan"]["programs"]
                           for instruction in program["instructions"] if instruction.get("scalars")))
                mutate.write(document, pathlib.Path("beyond"))
                self.expect(1, message, "beyond", *MOCK)

    def test_a_limit_of_files_keeps_the_old_checkpoint(self):
        run("mgrun", "plan", *MOCK, "--save", "kept", "--no-save-optim")
        old = {name: read("kept/" + name) for name in os.listdir("kept")}
        self.expect(1, "files of this process may have 1.0 MiB (ulimit -f)", "plan", *MOCK, "--seed", "5", "--save", "kept",
                    **limited(resource.RLIMIT_FSIZE, 1 << 20))
        self.assertEqual(old, {name: read("kept/" + name) for name in os.listdir("kept")})

    def test_a_full_disk_leaves_what_is_printed(self):
        done = run("mgrun", "plan", "--mock-data", "--train-iters", "3", "--profile", "--trace", "t.json", code=1,
                   **limited(resource.RLIMIT_FSIZE, 1 << 12))
        self.assertIn("t.json: cannot write: File too large", done.stderr)
        self.assertIn("3 steps: loss", done.stdout)
        self.assertNotIn("t.json", done.stdout)
        self.assertIn("of the bound", done.stdout)

    def test_small_stacks(self):
        self.expect(0, "", "plan", *MOCK, "--threads", "2", env=os.environ | {"OMP_STACKSIZE": "192K"})

    def interrupted(self, after, *flags, signals=(signal.SIGINT,), **options):
        """A training that gets these signals once a line has this text; what it prints."""
        with start("mgrun", "plan", *ENDLESS, *flags, **options) as process:
            wait_for(process, after)
            for number in signals[:-1]:
                process.send_signal(number)
            return end(process, signals[-1])[0]

    def test_a_profile_that_was_interrupted(self):
        self.assertIn("no profile: interrupted before the second step", self.interrupted("steps of", "--profile"))

    def test_killed_while_saving(self):
        command = ["mgrun", "plan", "--mock-data", "--train-iters", "0", "--save", "killed", "--no-save-optim"]
        run(*command)
        inside = 0
        for attempt in range(200):  # on a busy machine most saves are over before this process sees that they began
            before = set(os.listdir("killed"))
            process = start(*command, "--seed", attempt, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            while process.poll() is None and not any("model" in name for name in set(os.listdir("killed")) - before):
                pass
            time.sleep(0.002 * (attempt % 8))  # so far into the save
            inside += process.poll() is None
            process.kill()
            process.wait()
            self.expect(0, "", "plan", *MOCK, "--load", "killed/model.safetensors")
            if attempt >= 7 and inside >= 4:
                break
        self.assertGreater(inside, 0, "no kill fell into a save")

    def test_interrupt_saves(self):
        self.assertIn("(interrupted)", self.interrupted("step 1:", "--save", "interrupted"))
        self.expect(0, "", "plan", *MOCK, "--load", "interrupted/model.safetensors")

    def test_an_interrupt_whose_save_fails_is_an_error(self):
        with start("mgrun", "plan", *ENDLESS, "--save", "lost") as process:
            wait_for(process, "step 0")
            os.rename("lost", "moved")
            write("lost", b"")
            self.assertIn("lost", end(process, signal.SIGINT, 1)[1])

    @contextlib.contextmanager
    def in_a_long_step(self, samples, save):
        """A run that is some time into its first step, of so many samples."""
        compile_plan("slow", TINY_GPT, "--seq 64 --mbs 2 --gbs", samples)
        with start("mgrun", "slow", "--mock-data", "--threads", "1", "--save", save) as process:
            wait_for(process, "steps of")
            time.sleep(0.1)
            yield process

    def test_one_request_may_be_several_signals(self):
        with self.in_a_long_step(256, "requested") as process:
            process.send_signal(signal.SIGTERM)
            self.assertIn("1 step (interrupted)", end(process, signal.SIGINT)[0])
        self.expect(0, "", "plan", *MOCK, "--load", "requested/model.safetensors")

    def test_requests_of_launchers_save_too(self):
        """SIGHUP of a terminal that went away, SIGUSR1 and SIGUSR2 of Slurm."""
        for number in signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2:
            with self.subTest(signal=number):
                self.assertIn("(interrupted)", self.interrupted("step 0", "--save", f"by-{number}", signals=[number]))
                self.assertIn("model.safetensors", os.listdir(f"by-{number}"))

    def test_a_request_that_is_ignored_stays_so(self):
        """As nohup does: it goes on until somebody means it."""
        with start("mgrun", "plan", *ENDLESS, "--save", "by-nohup",
                   preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as process:
            wait_for(process, "step 0")
            process.send_signal(signal.SIGHUP)
            wait_for(process, "step 20:")
            self.assertIn("(interrupted)", end(process, signal.SIGTERM)[0])
        self.assertIn("model.safetensors", os.listdir("by-nohup"))

    def test_a_checkpoint_that_has_no_room_is_found_first(self):
        done = run_in_small_folder('200k none small && exec "$0" "$@" --save small/weights', BIN / "mgrun", "plan", *ENDLESS)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"--save: small/weights: 0\.\d MiB are free, saving needs \d+\.\d MiB")

    def test_a_full_disk_of_temporary_files_ends_the_compiler_with_an_error(self):
        said = []
        for kibibytes in range(8, 400, 8):  # no room for objects; for what is linked of them; for all
            done = run_in_small_folder(f'{kibibytes}k none small && TMPDIR=small exec "$0" compile "$1" --seq 64 -o small-plan',
                                       BIN / "mgc", TINY_GPT)
            if done.returncode == 0:
                break
            self.assertEqual(done.returncode, 1, done.stderr)
            said.append(done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("No space left on device", said[0])
        self.assertTrue(any("as it does where a disk is full" in text for text in said), said)

    def test_a_plan_of_something_else_is_not_replaced(self):
        write("foreign/plan.json", '{"plan": "of my holidays"}')
        command = ["mgc", "compile", TINY_GPT, "-o", "foreign", "--seq", "64"]
        expect(1, "foreign/plan.json: is no plan that mgc wrote", *command)
        self.assertIn(b"holidays", read("foreign/plan.json"))
        for more in ["--force"], []:  # then it is one
            run(*command, *more)

    def test_threads_of_a_rank_spin_briefly(self):
        """Unless the user says how they wait."""
        def environment(**given):
            with start("mgrun", "plan", *ENDLESS, env={"PATH": os.environ["PATH"], **given}) as process:
                wait_for(process, "")
                words = read(f"/proc/{process.pid}/environ").split(b"\0")
                process.kill()
            return [word for word in words if word.startswith((b"GOMP", b"OMP"))]
        self.assertEqual(environment(), [b"GOMP_SPINCOUNT=1000"])
        self.assertEqual(environment(OMP_WAIT_POLICY="active"), [b"OMP_WAIT_POLICY=active"])
        self.assertEqual(environment(GOMP_SPINCOUNT="7"), [b"GOMP_SPINCOUNT=7"])

    def test_the_process_is_called_mgrun(self):
        """In ps, and where the system says what it ended for want of memory."""
        with start("mgrun", "plan", *ENDLESS) as process:
            wait_for(process, "")
            names = {read(f"/proc/{process.pid}/task/{thread}/comm") for thread in os.listdir(f"/proc/{process.pid}/task")}
            process.kill()
        self.assertEqual(names, {b"mgrun\n"})

    def test_a_second_request_ends_at_once(self):
        with self.in_a_long_step(16384, "unsaved") as process:
            time.sleep(1)  # its data are being made
            process.send_signal(signal.SIGINT)
            time.sleep(1.1)  # two within a second are one request
            self.assertIn("interrupted in the middle of a step; nothing is saved", end(process, signal.SIGINT)[1])

    def test_closed_streams(self):
        """Files opened with closed standard streams must not take their numbers. The exit code says that the summary has no reader."""
        self.expect(1, "", "plan", *MOCK, "--save", "closed", preexec_fn=lambda: os.closerange(0, 3))
        self.assertEqual(read("closed/model.safetensors"), read("good/model.safetensors"))
        self.expect(0, "", "plan", *MOCK, "--save", "blind", preexec_fn=lambda: (os.close(0), os.close(2)))
        self.assertEqual(read("blind/model.safetensors"), read("good/model.safetensors"))

    def test_output_that_cannot_be_written(self):
        """Closed, or a full disk: every program that prints, to any stream."""
        write("empty.mlir", "module {}")
        for command in (["mgc", "explain", "plan"], ["mgc", "explain", "plan", "--json"], ["mgc", "--help"],
                        ["mgc", "compile", TINY_GPT, "--seq", "64", "--compile-to", "grad"],
                        ["mgrun", "plan", *MOCK], ["mgrun", "--help"], ["mg-opt", "empty.mlir"], ["mg-opt", "--help"]):
            with self.subTest(command=command), open("/dev/full", "wb") as full:
                for given in {"stdout": full}, {"stdout": None, "preexec_fn": lambda: os.close(1)}:
                    self.assertRegex(run(*command, code=1, **given).stderr, "No space left on device|Bad file descriptor")

    def test_a_screen_that_goes_away(self):
        process = start("mgrun", "plan", *"--mock-data --train-iters 20 --log-interval 1 --save unseen".split(), stdout=subprocess.DEVNULL)
        wait_for(process, "")
        process.stderr.close()
        self.assertEqual(process.wait(timeout=60), 0)
        self.expect(0, "", "plan", *MOCK, "--load", "unseen/model.safetensors")

    def test_a_bar_fits_the_terminal(self):
        for columns in 40, 90, 0:
            mine, screen = pty.openpty()
            fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            process = start("mgrun", "plan", *"--mock-data --train-iters 3".split(), stderr=screen, stdout=subprocess.DEVNULL)
            os.close(screen)
            text = b""
            with contextlib.suppress(OSError), open(mine, "rb", buffering=0) as shown: # the error is the end
                while part := shown.read(4096):
                    text += part
            self.assertEqual(process.wait(timeout=60), 0)
            bars = re.findall(r"\r\x1b\[2K([^\r\n]*)", text.decode())
            self.assertEqual(len(bars), 3)
            self.assertTrue(all(len(bar) < (columns or 200) for bar in bars), bars)
            self.assertRegex(bars[2], r"^\[=+\] 3/3  elapsed \d:\d\d:\d\d")
            if columns != 40:
                self.assertRegex(bars[1], r"2/3  elapsed \d:\d\d:\d\d  left \d:\d\d:\d\d  loss \d" if columns else "k tokens$")

    def test_same_seed_same_bits(self):
        for name in "first", "second":
            run("mgrun", "plan", "--data", CORPUS, *"--train-iters 3 --seed 7 --threads 2 --save".split(), name)
        self.assertEqual(read("first/model.safetensors"), read("second/model.safetensors"))

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one core cannot be wasted")
    def test_ranks_sleep_while_they_wait(self):
        # One microbatch in four stages: one rank works at a time. Spinning ones would fill the other cores.
        compile_plan("lonely", TINY_GPT, "--pp 4 --seq 256 --mbs 4 --gbs 4")
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        run("mgrun", "lonely", *"--mock-data --train-iters 20 --threads 1".split())
        after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - start
        busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.assertLess(busy, 1.4 * wall)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
