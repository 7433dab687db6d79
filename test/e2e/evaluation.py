#!/usr/bin/python3
"""Evaluation between steps: python3 evaluation.py BIN REPOSITORY

With a learning rate of 0 the weights stay what they are, so that training on some batches and evaluation on the same ones give
the same loss: of every family, in layouts of all axes, precisions and schedules; and of a model with dropout that of one without.
Evaluation changes no bit of the training.
"""
import json
import pathlib
import re
import shutil
import sys
import unittest

import numpy
import samples
import tensor_files
from tool_runs import GOLDEN, compile_plan, enter_folder, expect, read, records, run, timeless, write

setUpModule = enter_folder
STEPS, BATCH, SEQUENCE = 4, 8, 16  # shape of the goldens' batches
# Two sums of f32 in different orders may differ by a few units in the last place; bf16 rounds the summands alike.
TOLERANCE = 8 * 2.0**-24
CASES = [
    ("gpt2", "--tp 2 --sequence-parallel --pp 2 --mbs 1"),
    ("llama", "--dp 2 --zero 1 --mbs 2"),
    ("llama", "--pp 2 --mbs 1 --schedule zb-h1"),
    ("llama", "--pp 2 --vpp 2 --mbs 1 --num-layers-per-virtual-pipeline-stage 1"),
    ("llama", "--cp 2 --mbs 2"),
    ("llama_packed", "--tp 2 --dp 2 --mbs 1 --reset-position-ids --reset-attention-mask"),
    ("qwen3", "--tp 2 --mbs 2 --dtype bf16"),
    ("llama", "--tp 2 --pp 2 --mbs 1 --dtype bf16 --fp32-residual-connection"),
    ("bert", "--tp 2 --pp 2 --mbs 1"),
    ("t5", "--pp 2 --mbs 2 --seq 12 --encoder-seq-length 16"),
    ("mixtral", "--dp 2 --ep 2 --mbs 1"),
    ("deepseek_v3", "--dp 2 --ep 2 --pp 2 --mbs 1"),
    ("deepseek_v3_mtp", "--tp 2 --mbs 1"),  # its loss has a term that is not evaluated
    ("gpt_oss", "--tp 2 --dp 2 --mbs 1"),
    ("gpt2", "--tp 2 --dp 2 --zero 3 --mbs 1"),
    ("llama", "--dp 2 --pp 2 --zero 2 --mbs 1 --dtype bf16"),
    ("deepseek_v3", "--dp 2 --ep 2 --pp 2 --zero 3 --mbs 1"),
    ("llama", "--dp 4 --pp 2 --zero 3 --mbs 1 --freeze embeddings,layers:0 --num-distributed-optimizer-instances 2 "
              "--outer-dp-sharding-strategy optim"),
    ("gpt2", "--dp 2 --zero 1 --mbs 1 --freeze embeddings"),
    ("llama", "--dp 4 --pp 2 --zero 1 --mbs 1 --freeze embeddings,layers:0 --overlap-grad-reduce --overlap-param-gather "
              "--ddp-bucket-size 300 --num-distributed-optimizer-instances 2"),
    ("deepseek_v3", "--dp 2 --ep 2 --pp 2 --zero 2 --mbs 1 --overlap-grad-reduce --overlap-param-gather"),
    ("t5", "--dp 2 --zero 3 --mbs 1 --seq 12 --encoder-seq-length 16"),
]


def compiled(name, config, layout, *flags):
    compile_plan(name, config, layout, "" if "--seq " in layout else f"--seq {SEQUENCE}", f"--gbs {BATCH} --target-cpu native", *flags)
    return name


def trained(plan, log, *flags):
    run("mgrun", plan, "--train-iters", STEPS, "--log", log, "--threads", 1, *flags)
    return records(log)


def validation(lines):
    return [line["validation_loss"] for line in lines if "validation_loss" in line]


def mean_loss(lines):
    """Over all tokens: of the cross-entropy, whatever other terms the loss has."""
    steps = [line for line in lines if "loss" in line]
    return (sum(line.get("cross_entropy", line["loss"]) * line["tokens"] for line in steps) /
            sum(line["tokens"] for line in steps))


class Evaluation(unittest.TestCase):
    def test_the_loss_is_that_of_training_on_the_same_data(self):
        for number, (model, layout) in enumerate(CASES):
            with self.subTest(model=model, layout=layout):
                config = GOLDEN / model / "config.json"
                plan = compiled(f"plan-{number}", config, layout, "--evaluation",
                                *json.loads((GOLDEN / model / "expect.json").read_text(encoding="utf-8")).get("flags", []))
                data = GOLDEN / model.removesuffix("_mtp")
                batch = data / "batch.safetensors"
                lines = trained(plan, f"log-{number}", "--data", batch, "--valid-data", batch, "--eval-interval", STEPS,
                                "--eval-iters", STEPS, "--lr", 0, "--weight-decay", 0,
                                *(["--load", data / "model.safetensors"] if data.name == model else []))
                found, expected = lines[-1]["validation_loss"], mean_loss(lines)
                self.assertLess(abs(found - expected) / expected, TOLERANCE, (found, expected))
                self.assertEqual(lines[-1]["validation_tokens"], sum(line["tokens"] for line in lines[:-1]))

    def test_nothing_is_dropped(self):
        config = json.loads((GOLDEN / "gpt2/config.json").read_text(encoding="utf-8"))
        for name, p in ("kept", 0.0), ("dropped", 0.5):
            config |= {"attn_pdrop": p, "resid_pdrop": p, "embd_pdrop": p}
            write(f"{name}/config.json", json.dumps(config))
            compiled(name + "-plan", name, "--tp 2 --pp 2 --mbs 1", "--evaluation")
        flags = ["--mock-data", "--eval-interval", 1, "--eval-iters", 3, "--lr", 0]
        kept, dropped = (trained(name + "-plan", name + ".jsonl", *flags) for name in ("kept", "dropped"))
        self.assertEqual(validation(kept), validation(dropped))
        self.assertEqual(len(set(validation(kept))), STEPS, "each evaluation has its own batches")
        self.assertNotEqual(mean_loss(kept), mean_loss(dropped))

    def test_training_is_the_same_bit_for_bit(self):
        config = GOLDEN / "llama/config.json"
        compiled("watched", config, "--tp 2 --pp 2 --mbs 1", "--evaluation")
        flags = ["--mock-data", "--lr", 1e-2]
        plain = trained("watched", "plain.jsonl", *flags, "--save", "plain")
        lines = trained("watched", "watched.jsonl", *flags, "--save", "evaluated", "--eval-interval", 2, "--eval-iters", 2)
        steps = lambda log: [(line["loss"], line["grad_norm"]) for line in log if "loss" in line]
        self.assertEqual(steps(plain), steps(lines))
        self.assertEqual(read("plain/model.safetensors"), read("evaluated/model.safetensors"))
        found = [(line["step"], line["validation_loss"]) for line in lines if "validation_loss" in line]
        self.assertEqual([step for step, _ in found], [1, 3])
        self.assertLess(found[1][1], found[0][1])

    def test_a_run_that_goes_on_evaluates_what_it_would_have(self):
        config = GOLDEN / "llama/config.json"
        compiled("goes-on", config, "--dp 2 --mbs 2", "--evaluation")
        flags = ["--mock-data", "--lr", 1e-2, "--lr-decay-style", "constant", "--eval-interval", 1, "--eval-iters", 2]
        straight = trained("goes-on", "straight.jsonl", *flags)
        trained("goes-on", "halves.jsonl", *flags, "--exit-interval", 2, "--save", "half")
        halves = trained("goes-on", "halves.jsonl", *flags, "--save", "half", "--load", "half")
        self.assertEqual(validation(straight), validation(halves))

    def test_indexed_files(self):
        prefix = next((GOLDEN / "indexed").rglob("*.idx"))
        config = json.loads((GOLDEN / "llama/config.json").read_text(encoding="utf-8")) | {"vocab_size": 1 << 16}
        write("large.json", json.dumps(config))
        compiled("indexed", "large.json", "--mbs 2", "--evaluation")
        lines = trained("indexed", "indexed.jsonl", "--data-path", prefix.with_suffix(""), "--split", "80,10,10", "--eval-interval", 3,
                        "--eval-iters", 2)
        self.assertEqual([(line["step"], next(name for name in line if name.endswith("_loss"))) for line in lines if "loss" not in line],
                         [(2, "validation_loss"), (3, "validation_loss"), (3, "test_loss")])

    def test_batches_without_a_label(self):
        """They add nothing: a training skips them, as if the data lacked them, and so does an evaluation."""
        compiled("unlabelled", GOLDEN / "llama/config.json", "--tp 2 --dp 2 --mbs 2", "--evaluation")
        tensors = tensor_files.load(GOLDEN / "llama/batch.safetensors")
        none = {name: tensor.copy() for name, tensor in tensors.items()}
        none["labels"][[0, 2]] = -100
        some = {name: tensor[[1, 3]] for name, tensor in tensors.items()}
        nothing = tensors | {"labels": numpy.full_like(tensors["labels"], -100)}
        for name, data in ("none", none), ("some", some), ("nothing", nothing):
            tensor_files.save(f"{name}.safetensors", data)
        flags = ["--threads", 1, "--lr", 1e-2, "--lr-decay-style", "constant", "--eval-interval", 2]
        train = lambda name, *more: run("mgrun", "unlabelled", "--data", f"{name}.safetensors", "--valid-data", f"{name}.safetensors",
                                        "--save", name, "--log", f"{name}.jsonl", *flags, *more).stderr
        said = train("none", "--train-iters", 4, "--eval-iters", 4)
        self.assertIn(f"step 2: all {BATCH * SEQUENCE} labels of the batch are -100, so it has no loss; ", said)
        train("some", "--train-iters", 2, "--eval-iters", 2)
        self.assertEqual(read("none/model.safetensors"), read("some/model.safetensors"))
        lines = records("none.jsonl")
        self.assertEqual([line["tokens"] for line in lines if line.get("skipped")], [0, 0])
        self.assertEqual(validation(lines)[-1:], validation(records("some.jsonl")))
        said = run("mgrun", "unlabelled", "--data", "some.safetensors", "--valid-data", "nothing.safetensors", "--train-iters", 2, *flags,
                   "--eval-iters", 3, "--log", "no.jsonl").stderr
        self.assertIn("validation after 2 steps: all labels of its 3 batches are -100, so there is no loss", said)
        self.assertEqual([line["step"] for line in records("no.jsonl")], [0, 1])
        expect(1, "step 99: ", "mgrun", "unlabelled", "--data", "nothing.safetensors", "--train-iters", 200)

    def test_the_best_checkpoint_stays(self):
        """The loss falls, then rises: a rate of 1 spoils the weights. As a run that does not stop, and in parts."""
        plan = compiled("best", GOLDEN / "llama/config.json", "--dp 2 --mbs 2", "--evaluation")
        write("rates.json", json.dumps([1e-2] * 4 + [1.0] * 4))
        flags = ["--mock-data", "--lr-list", "rates.json", "--clip-grad", 0, "--threads", 1, "--eval-interval", 2, "--save-best"]
        train = lambda name, steps, *more, batches=2: run("mgrun", plan, *flags, "--eval-iters", batches, "--train-iters", steps, "--save",
                                                          name, "--log", f"{name}.jsonl", *more).stderr
        steps = lambda name: sorted(path.name for path in pathlib.Path(name).glob("iter_*"))
        train("best.straight", 8)
        losses = validation(records("best.straight.jsonl"))
        self.assertEqual(min(losses), losses[1], losses)
        self.assertEqual(steps("best.straight"), ["iter_0000004", "iter_0000008"])
        for part in 3, 5, 7:
            train("parts", 8, "--exit-interval", part, "--restart-from-latest")
        train("parts", 8, "--restart-from-latest")
        self.assertEqual(validation(records("parts.jsonl")), losses)
        for name in "iter_0000004", "iter_0000008":
            self.assertEqual(*({path.name: read(path) for path in pathlib.Path(folder, name).iterdir()} for folder in ("best.straight", "parts")))
        train("four", 4)
        for folder in "best.straight", "parts":
            self.assertEqual(pathlib.Path(folder, "best").resolve().name, "iter_0000004")
            run("mgrun", plan, "--mock-data", "--load", f"{folder}/best", "--finetune", "--train-iters", 0, "--save", f"{folder}.best")
            self.assertEqual(read(f"{folder}.best/model.safetensors"), read("four/model.safetensors"))
        run("mgrun", plan, *flags[:-1], "--eval-iters", 2, "--train-iters", 8, "--load", "parts", "--save", "parts")
        self.assertEqual(steps("parts"), ["iter_0000004", "iter_0000008"], "without the flag the best one stays too")
        said = train("best.straight", 8, "--load", "best.straight/best", "--force", batches=3)
        for part in "--eval-iters: 3, and 2 in the checkpoint", "the least validation loss and --early-stop count anew":
            self.assertIn(part, said)
        self.assertEqual(steps("best.straight"), ["iter_0000008"])
        for flags, message in (["--save-best", "--save", "s"], "--save-best requires --eval-interval"), (
                ["--save-best", "--eval-interval", 2], "--save-best requires --save"), (["--early-stop", 1], "--early-stop requires"):
            expect(2, message, "mgrun", plan, "--mock-data", *flags)

    def test_the_training_ends_early(self):
        """With a rate of 0 the loss on the same batches stays, so that of the first evaluation is the least."""
        plan = compiled("early", GOLDEN / "llama/config.json", "--tp 2 --mbs 2", "--evaluation")
        batch = GOLDEN / "llama/batch.safetensors"
        flags = ["--data", batch, "--valid-data", batch, "--lr", 0, "--weight-decay", 0, "--eval-interval", 2, "--eval-iters", STEPS,
                 "--threads", 1, "--train-iters", 40, "--restart-from-latest"]
        train = lambda name, *more, stop=3: run("mgrun", plan, *flags, "--early-stop", stop, "--save", name, "--log", f"{name}.jsonl", *more)
        said = train("ended").stderr
        self.assertIn("--early-stop 3: in 3 evaluations the validation loss did not fall below", said)
        self.assertEqual(records("ended.jsonl")[-1]["step"], 7)
        train("stopped", "--exit-interval", 5)
        train("stopped")
        self.assertEqual(timeless("ended.jsonl"), timeless("stopped.jsonl"))
        self.assertEqual(read("ended/iter_0000008/checkpoint.json"), read("stopped/iter_0000008/checkpoint.json"))
        self.assertIn("0 steps of 40", train("ended").stdout)
        train("ended", stop=5)
        self.assertEqual(records("ended.jsonl")[-1]["step"], 11)

    def test_too_many_bad_steps_end_a_run_that_is_evaluated_too(self):
        compiled("diverging", GOLDEN / "llama/config.json", "--mbs 2", "--evaluation")
        flags = ["--mock-data", "--train-iters", 12, "--lr", 1e30, "--clip-grad", 0, "--skip-bad-steps", 2, "--eval-iters", 1]
        for interval in 1, 100:  # behind each step; at the end alone
            expect(1, "--skip-bad-steps 2 skips as many in a row, and this is one more", "mgrun", "diverging", *flags, "--eval-interval",
                   interval)

    def test_what_is_refused(self):
        config = GOLDEN / "llama/config.json"
        refuse = lambda message, plan, *flags: expect(1, message, "mgrun", plan, "--train-iters", 2, *flags)
        compiled("refused", config, "--tp 2 --mbs 2")
        evaluated = ["--mock-data", "--eval-interval", 1]
        refuse("refused has no plan that evaluates; expected one compiled with --evaluation", "refused", *evaluated)
        compiled("refused", config, "--tp 2 --mbs 2", "--evaluation")
        run("mgrun", "refused", "--train-iters", 1, *evaluated, "--eval-iters", 1)
        huge = 9 * 10**18
        refuse(f"--eval-iters = {huge}: 3 evaluations of batches of", "refused", *evaluated, "--eval-iters", huge)
        expect(1, f"--train-iters = {huge}: is more than", "mgrun", "refused", "--mock-data", "--train-iters", huge)
        compiled("other", config, "--dp 2 --mbs 2", "--evaluation")
        shutil.copytree("other/evaluation", "refused/evaluation", dirs_exist_ok=True)
        refuse("does not evaluate what refused trains: its mesh is another; compile it again", "refused", *evaluated)
        refuse("there is nothing to evaluate on; expected --valid-data", "other", "--data", GOLDEN / "llama/batch.safetensors",
               "--eval-interval", 1)
        compiled("other", config, "--dp 2 --mbs 2")
        self.assertFalse(pathlib.Path("other/evaluation").exists(), "of a plan that is not there any more")
        self.assertRegex(run("mgc", "compile", config, "--evaluation", "--compile-to", "grad", code=2).stderr,
                         re.compile("--compile-to excludes --evaluation|--evaluation excludes --compile-to"))


if __name__ == "__main__":
    samples.main(sys.argv[:1])
