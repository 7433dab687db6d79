#!/usr/bin/python3
"""What the golden comparison must refuse: mistakes of the kind a layout can cause, made in the reference values."""
import unittest

import numpy

import compare
import golden


class CompareTest(unittest.TestCase):
    def setUp(self):
        self.load("llama")

    def load(self, model):
        self.golden = golden.Golden(model)
        self.expect = self.golden.expect
        keys = ("loss", "grad_norm")
        self.log = [dict(zip(keys, values), tokens=tokens) for *values, tokens in zip(
            self.expect["loss"], self.expect["grad_norm"], self.expect["valid_tokens"])]
        for name, values in self.expect.get("terms_f64", {}).items():
            for record, value in zip(self.log, values):
                record[name] = value
        self.gradients = {name: tensor.copy() for name, tensor in self.golden.gradients.items()}
        self.weights = {name: tensor.copy() for name, tensor in self.golden.weights.items()}

    def failures(self):
        return compare.beyond(compare.compare_steps(self.expect, self.log)
                              + compare.compare_gradients(self.expect, self.golden.gradients, self.gradients)
                              + compare.compare_weights(self.expect, self.trained(self.golden.weights), self.golden.gradients,
                                                        self.trained(self.weights)))

    def trained(self, tensors):
        return {name: tensor for name, tensor in tensors.items() if name not in self.expect["untrained"]}

    def refused(self, what):
        self.assertTrue(any(what in failure[0] for failure in self.failures()), self.failures())

    def test_reference_agrees_with_itself(self):
        for model in golden.MODELS:
            self.load(model)
            self.assertEqual(self.failures(), [], model)

    def test_term_counted_twice_or_missing(self):
        for model in ("mixtral_aux", "mixtral_balance"):
            for name in golden.Golden(model).expect["terms_f64"]:
                self.load(model)
                self.log[2][name] *= 2
                self.refused(f"{name} of step 2")
                del self.log[2][name]
                self.refused(f"{name} of step 2")

    def test_bias_of_a_router(self):
        """The load to the last token, and a bias that stays."""
        self.load("deepseek_v3")
        golden, name = self.golden, self.expect["untrained"][0]
        loads = {n: numpy.bincount(golden.routes[int(n.split(".")[2])].ravel(), minlength=golden.start[n].size)
                 for n in self.expect["untrained"]}
        failures = lambda: compare.compare_untrained(self.expect, golden.start, golden.routes, loads, self.weights)
        self.assertEqual(failures(), [])
        loads[name][0] += 1
        self.assertEqual(len(failures()), 1)
        loads[name][0] -= 1
        self.weights[name] = self.weights[name] + numpy.float32(1e-3)
        self.assertEqual(len(failures()), 1)

    def test_loads(self):
        """The least, mean and largest to the last token, of all layers with experts."""
        self.load("qwen3_moe_sparse2")
        routes, start = self.golden.routes, self.golden.start
        loads = {}
        for layer, chosen in routes.items():
            load = numpy.bincount(chosen.ravel(), minlength=8).tolist()
            loads[f"model.layers.{layer}.mlp.gate"] = {"min": min(load), "mean": sum(load) / 8, "max": max(load)}
        self.assertEqual(compare.compare_loads(start, routes, loads), [])
        for key in ("min", "mean", "max"):
            loads["model.layers.3.mlp.gate"][key] += 1
            self.assertEqual(len(compare.compare_loads(start, routes, loads)), 1)
            loads["model.layers.3.mlp.gate"][key] -= 1
        del loads["model.layers.1.mlp.gate"]
        self.assertEqual(len(compare.compare_loads(start, routes, loads)), 1)
        self.assertEqual(len(compare.compare_loads(start, {}, {})), 1)

    def test_step_missing(self):
        self.log.pop()
        self.refused("number of steps")

    def test_loss_is_mean_of_means(self):
        self.log[1]["loss"] *= 1 + 1e-5
        self.refused("loss of step 1")

    def test_tied_weight_counted_twice_in_norm(self):
        self.log[2]["grad_norm"] *= 1 + 1e-4
        self.refused("grad_norm of step 2")

    def test_gradient_counted_twice(self):
        self.gradients["model.norm.weight"] *= 2
        self.refused("gradient model.norm.weight")

    def test_gradient_not_a_number(self):
        self.gradients["model.norm.weight"][3] = float("nan")
        self.refused("gradient model.norm.weight")

    def test_gradient_missing(self):
        del self.gradients["lm_head.weight"]
        self.refused("gradient lm_head.weight is missing")

    def test_decay_forgotten(self):
        self.weights["model.layers.1.mlp.up_proj.weight"] *= 1 + 0.1 * sum(self.expect["lr"])
        self.refused("weight model.layers.1.mlp.up_proj.weight (rms)")

    def test_one_row_not_updated(self):
        self.weights["lm_head.weight"][5] += self.expect["lr"][0]
        self.refused("weight lm_head.weight")

    def test_bits(self):
        self.weights["lm_head.weight"][5] *= -1
        failures = compare.compare_bits("weight", self.golden.weights, self.weights)
        self.assertEqual([failure[0] for failure in failures], ["weight lm_head.weight: other bits"])


if __name__ == "__main__":
    unittest.main()
