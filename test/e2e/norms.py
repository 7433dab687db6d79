#!/usr/bin/python3
"""Gradient norms by layer: python3 norms.py BIN REPOSITORY

In every layout the root of the sum of their squares is the gradient's norm, and each is that of one rank alone.
"""
import math
import pathlib
import sys
import unittest

from tool_runs import GOLDEN, compile_plan, enter_folder, records, run

STEPS = 3
# Sums of f32 in another order, over a step or two of training.
TOLERANCE = 2e-4
setUpModule = enter_folder


def norms(model, layout):
    """By step: the whole norm, and by layer."""
    compile_plan("plan", GOLDEN / model / "config.json", "--force --target-cpu native --seq 16 --gbs 8", layout)
    log = pathlib.Path("log.jsonl")
    log.unlink(missing_ok=True)
    run("mgrun", "plan", *"--mock-data --lr 1e-3 --clip-grad 0.1 --threads 1 --log-norms-by-layer --log".split(), log, "--train-iters", STEPS)
    return [(line["grad_norm"], line["grad_norm_by_layer"]) for line in records(log)]


class Norms(unittest.TestCase):
    def compare(self, model, layouts, layers):
        expected = norms(model, layouts[0])
        self.assertEqual(len(expected), STEPS)
        self.assertEqual(set(layers) - set(expected[0][1]), set())
        for layout in layouts:
            with self.subTest(f"{model} {layout}"):
                for step, (whole, by_layer) in enumerate(norms(model, layout)):
                    self.assertGreater(whole, 0)
                    root = math.sqrt(sum(norm * norm for norm in by_layer.values()))
                    self.assertAlmostEqual(root / whole, 1, delta=1e-5, msg=f"step {step}: {by_layer}")
                    self.assertEqual(list(by_layer), list(expected[step][1]))
                    for layer, norm in by_layer.items():
                        self.assertAlmostEqual(norm, expected[step][1][layer], delta=TOLERANCE * whole, msg=layer)

    def test_tied_weights_count_once(self):
        self.compare("gpt2", ["--mbs 2", "--tp 2 --pp 2 --mbs 2", "--dp 2 --zero 1 --pp 2 --mbs 2",
                              "--dp 2 --zero 1 --tp 2 --sp --mbs 2", "--dp 4 --zero 0 --mbs 2"], ["transformer.h.0", "transformer.h.1"])

    def test_llama(self):
        self.compare("llama", ["--mbs 2", "--tp 2 --sp --mbs 2", "--pp 2 --dp 2 --zero 1 --mbs 2", "--cp 2 --mbs 2"],
                     ["model.layers.0", "model.embed_tokens"])

    def test_experts(self):
        self.compare("mixtral", ["--mbs 2", "--dp 2 --ep 2 --zero 1 --mbs 2"], ["model.layers.0", "lm_head"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
