#!/usr/bin/python3
"""Programs that were edited: numbers that contradict the program are refused, and weights that another program than the
config.json's trained are not saved next to it.

    edited_programs.py BIN SOURCE
"""
import json
import os
import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import tool_runs  # noqa: E402

LAYOUTS = {"gpt2": "--tp 2 --pp 2 --dp 2 --seq 16 --mbs 2 --gbs 16 --zero 1",
           "qwen3": "--tp 2 --pp 2 --seq 16 --mbs 2 --gbs 16 --vpp 2 --bf16 --overlap-grad-reduce --ddp-bucket-size 1000",
           "qwen3_moe": "--moe-per-layer-logging --ep 2 --dp 2 --seq 16 --mbs 2 --gbs 16 --moe-expert-capacity-factor 0.5 --moe-token-drop-policy position"
                        " --moe-router-load-balancing-type seq_aux_loss --moe-aux-loss-coeff 0.01 --moe-z-loss-coeff 0.001",
           "llama": "--seq 16 --mbs 2 --no-fusion"}
REPLICAS = r"global_batch_size = 16; expected micro_batch_size 2 \* dp 4|of size 2 becomes 1; expected it divided by 4"
NO_CONFIG = "is not the program of a config.json in its mg.model"


def run(code, *command):
    done = tool_runs.run(*command, code=code)
    return done.stdout + done.stderr


class Edited(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        for model, layout in LAYOUTS.items():
            run(0, "mgc", "compile", tool_runs.GOLDEN / model / "config.json", *layout.split(), "--dump-phases",
                cls.folder / model, "-o", cls.folder / "plan")

    def phases(self, model="gpt2"):
        return sorted((self.folder / model).glob("*.mlir"))

    def edited(self, phase, before, after):
        text = phase.read_text()
        self.assertRegex(text, before)
        path = self.folder / "edited.mlir"
        path.write_text(re.sub(before, after, text, count=1))
        return path

    def test_what_was_not_edited_keeps_its_config(self):
        for model in LAYOUTS:
            for phase in self.phases(model):
                with self.subTest(phase=phase):
                    said = run(0, "mgc", "compile", phase, "-o", self.folder / "again")
                    self.assertNotIn(NO_CONFIG, said)
        again = json.loads((self.folder / "again/plan.json").read_text())["plan"]
        self.assertEqual(json.loads(again["modelConfig"])["model_type"], "llama")

    def test_numbers_that_contradict_the_program(self):
        for before, after, message in [
                ("micro_batch_size = 2", "micro_batch_size = 1", r"b = 4; expected 2, the micro_batch_size 1 \* dp 2|"
                 r"global_batch_size = 16; expected micro_batch_size 1 \* dp 2 \* microbatches 4"),
                ("global_batch_size = 16", "global_batch_size = 32", "global_batch_size = 32; expected micro_batch_size 2"),
                ("microbatches = 4", "microbatches = 2", "global_batch_size = 16; expected .* microbatches 2"),
                ("sequence_length = 16", "sequence_length = 8", "= 16; expected 8, the sequence_length"),
                ("vocabulary = 128", "vocabulary = 100", "counts 128 columns; expected 100, the vocabulary")]:
            for phase in self.phases():
                with self.subTest(phase=phase.name, after=after):
                    said = run(1, "mgc", "compile", self.edited(phase, before, after), "-o", self.folder / "wrong")
                    self.assertRegex(said, message)

    def test_an_axis_along_which_ranks_would_repeat_work(self):
        phase = self.phases("llama")[0]
        for role, message in (("", "axis 'x' of 2 ranks splits nothing, so all would compute the same"),
                              (" : sequence", "axis 'x' of 2 ranks splits nothing"),
                              (" : data", r"global_batch_size = 2; expected micro_batch_size 2 \* dp 2")):
            with self.subTest(role=role):
                said = run(1, "mgc", "compile", self.edited(phase, "#mg.mesh<", f"#mg.mesh<x = 2{role}, "), "-o", self.folder / "wrong")
                self.assertRegex(said, message)

    def test_settings_that_a_plan_cannot_have(self):
        edited = self.edited(self.phases("llama")[0], r'"refused"\]', '"forbidden"]')
        self.assertRegex(run(1, "mgc", "compile", edited, "-o", self.folder / "wrong"),
                         r'mg.training: settings = .*"forbidden"\].*; expected a list, each entry of it a flag, a value and one of "refused", "noted"')

    def test_an_objective_that_contradicts_the_program(self):
        training = "#mg.training<"
        for added, message in [("token_types = 2", "tokenTypes: found 2, expected 0, for no stage reads token types"),
                               ('objective = "wild"', 'mg.training: objective = "wild"; expected one of "causal", "masked"')]:
            edited = self.edited(self.phases("llama")[0], training, f"{training}{added}, ")
            with self.subTest(added=added):
                self.assertIn(message, run(1, "mgc", "compile", edited, "-o", self.folder / "wrong"))
        edited = self.edited(self.phases("llama")[0], training, f'{training}objective = "masked", ')
        run(0, "mgc", "compile", edited, "-o", self.folder / "masked")
        self.assertEqual(json.loads((self.folder / "masked/plan.json").read_text())["plan"]["objective"], "masked")

    def test_replicas_that_contradict_the_program(self):
        for phase in self.phases():
            with self.subTest(phase=phase.name):
                said = run(1, "mgc", "compile", self.edited(phase, "dp = 2", "dp = 4"), "-o", self.folder / "wrong")
                self.assertRegex(said, REPLICAS)

    def test_the_name_of_another_schedule(self):
        for phase in self.phases():
            with self.subTest(phase=phase.name):
                edited = self.edited(phase, 'schedule = "1f1b"', 'schedule = "gpipe"')
                self.assertNotIn(NO_CONFIG, run(0, "mgc", "compile", edited, "-o", self.folder / "other"))
                self.assertIn("gpipe", run(0, "mgc", "explain", self.folder / "other"))

    def test_weights_of_an_edited_program_have_no_config(self):
        plan, weights = self.folder / "changed", self.folder / "weights"
        said = run(0, "mgc", "compile", self.edited(self.phases("llama")[0], r"mg\.silu", "mg.relu"), "-o", plan)
        self.assertIn(NO_CONFIG, said)
        run_flags = ["--mock-data", "--train-iters", "1", "--save", weights, "--no-save-optim"]
        self.assertIn("gets no config.json: the plan is of an edited program", run(0, "mgrun", plan, *run_flags))
        self.assertEqual(sorted(os.listdir(weights)), ["model.safetensors", "run.toml"])
        run(0, "mgrun", plan, "--mock-data", "--train-iters", "1", "--load", weights / "model.safetensors")
        (weights / "config.json").write_text("{}")
        self.assertIn("config.json: describes another program than the plan's", run(1, "mgrun", plan, *run_flags))

    def test_every_change_of_the_mathematics_is_seen(self):
        for model, before, after in [("llama", r"scale = 0\.3535", "scale = 0.25"), ("llama", "epsilon = 9.99", "epsilon = 1.99"),
                                     ("gpt2", 'form = "tanh"', 'form = "erf"')]:
            phases = [phase for phase in self.phases(model)[:4] if re.search(before, phase.read_text())]
            self.assertTrue(phases, before)
            for phase in phases:
                with self.subTest(phase=phase, after=after):
                    said = run(0, "mgc", "compile", self.edited(phase, before, after), "-o", self.folder / "changed")
                    self.assertIn(NO_CONFIG, said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
