#!/usr/bin/python3
"""The prediction of bf16 runs: its models are the reference's, a right run agrees with it, and mistakes of precision that
a run could make do not. Mistakes are made in the models; the seeds are none of those of the prediction."""
import unittest

import numpy

import compare
import golden
import prediction
import rounded_models
from rounded_ops import Pass, Rounding, nearest

UNSEEN = 1000


class NormInBf16(Pass):
    """Each norm adds up in bf16."""

    @staticmethod
    def mean(x):
        total = numpy.zeros(x.shape[:-1])
        for k in range(x.shape[-1]):
            total = nearest(total + x[..., k])
        return total[..., None] / x.shape[-1]


class ProductsInBf16(Pass):
    """Each product adds up in bf16."""

    @staticmethod
    def multiply(a, b):
        total = 0.0
        for k in range(b.shape[0]):
            total = nearest(total + a[..., k : k + 1] @ b[k : k + 1])
        return total


class OneCotangentLess(Pass):
    """The first layer's feed-forward does not give its input's norm its part of the gradient."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.norms = 0

    def norm(self, x, *arguments):
        y = super().norm(x, *arguments)
        self.norms += 1
        if self.norms == 2:
            value, backward = self.tape[-1]
            self.tape[-1] = (value, lambda dy: (backward(dy), x.uses.pop()))
        return y


class NoMasters(rounded_models.AdamW):
    """Weights are kept in bf16."""

    def update(self, weights, *arguments):
        super().update(weights, *arguments)
        weights |= {name: nearest(w) for name, w in weights.items()}


class RoundingTest(unittest.TestCase):
    def test_nearest(self):
        self.assertEqual(list(nearest([1.0, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-40, -3.0, 0.0])),
                         [1.0, 1.0, 1 + 2**-6, 1 + 2**-7, -3.0, 0.0])

    def test_error_is_uniform_in_half_a_unit(self):
        numbers = numpy.random.default_rng(1).uniform(1, 2, 100000)
        errors = (Rounding(5)(numbers) - numbers) / 2**-7
        self.assertLess(abs(errors).max(), 0.5 + 1e-9)
        self.assertAlmostEqual(errors.mean(), 0, delta=6 * 12**-0.5 / 100000**0.5)
        self.assertAlmostEqual((errors**2).mean(), 1 / 12, delta=6 * 180**-0.5 / 100000**0.5)

    def test_exact_numbers_stay_and_equal_ones_stay_equal(self):
        exact = nearest(numpy.random.default_rng(1).standard_normal(1000))
        self.assertTrue((Rounding(5)(exact) == exact).all())
        same = Rounding(5)(numpy.full(10, 1 / 3))
        self.assertEqual(len(set(same)), 1)
        self.assertNotEqual(same[0], Rounding(6)(numpy.full(1, 1 / 3))[0])


class ModelTest(unittest.TestCase):
    def test_without_rounding_they_are_the_reference(self):
        for model in golden.PREDICTED + golden.PREDICTED_TOO:
            one = golden.Golden(model)
            found = rounded_models.Training(one, microbatches=2, data_ranks=2, parts=2).results()
            for key in ("loss", "grad_norm"):
                wanted = one.expect[f"{key}_f64"]
                numpy.testing.assert_allclose([found[f"{key} of step {i}"][0] for i in range(len(wanted))], wanted, rtol=1e-12)
            for name, gradient in one.gradients.items():
                gap = one.expect["gap"][f"grad.{name}"][0]  # the file has float32's
                numpy.testing.assert_allclose(found[f"gradient {name}"], gradient, rtol=1e-6, atol=1.01 * gap + 1e-9)


class PredictionTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.golden = golden.Golden("llama")
        kinds = (None, (2, 4))
        found = prediction.predict([(cls.golden, kind) for kind in kinds], 2)
        cls.predicted = {kind: found[cls.golden, kind] for kind in kinds}

    def failures(self, gradients=None, **mutation):
        found = prediction.draw(self.golden, gradients, UNSEEN, **mutation)
        return [what for what, *_ in compare.beyond(self.predicted[gradients].comparisons(found))]

    def test_right_runs_agree(self):
        self.assertEqual(self.failures(), [])
        self.assertEqual(self.failures((2, 4)), [])

    def test_norm_adds_up_in_bf16(self):
        # How many tensors are refused, 6 to 15 in twelve draws, changes with the last bit of the exp of the CPU at hand.
        self.assertTrue(self.failures(ops=NormInBf16))

    def test_products_add_up_in_bf16(self):
        self.assertGreater(len(self.failures(ops=ProductsInBf16)), 10)  # 68 to 104

    def test_cotangent_dropped(self):
        self.assertIn("gradient model.embed_tokens.weight", self.failures(ops=OneCotangentLess))

    def test_residuals_of_another_type(self):
        """A stream of bf16 is refused where f32 is asked for: a stream that is large compared with what branches add
        is rounded by so much more."""
        large = golden.Golden("llama")
        large.start["model.embed_tokens.weight"] = 16 * large.start["model.embed_tokens.weight"]
        finer = prediction.predict([(large, None)], 2, fp32_residual=True)[large, None]
        for found in (False, True):
            run = prediction.draw(large, None, UNSEEN, fp32_residual=found)
            self.assertEqual(not compare.beyond(finer.comparisons(run)), found)

    def test_no_masters(self):
        self.assertIn("weight lm_head.weight", self.failures(optimizer=NoMasters))

    def test_last_sequence_not_trained_on(self):
        found = rounded_models.Training(self.golden, Rounding(UNSEEN))
        found.batch["labels"] = found.batch["labels"].copy()
        found.batch["labels"][:, -1] = -100
        self.assertGreater(len(compare.beyond(self.predicted[None].comparisons(found.results()))), 10)

    def weights_refused(self, spoil):
        """spoil(weight of the run, weight at the start): whether it was done. Each spoiled alone must be refused."""
        right = prediction.draw(self.golden, None, UNSEEN)
        for name in self.golden.start:
            found = right[f"weight {name}"].copy()
            if spoil(found, self.golden.start[name]):
                failures = compare.beyond(self.predicted[None].comparisons(right | {f"weight {name}": found}))
                self.assertTrue([what for what, *_ in failures if what.startswith(f"weight {name}")], name)

    def test_tail_of_a_matrix_never_updated(self):
        def spoil(found, start):
            first = found.size - found.size // 32
            found.ravel()[first:] = start.ravel()[first:]
            return found.ndim > 1

        self.weights_refused(spoil)

    def test_first_of_a_vector_never_updated(self):
        def spoil(found, start):
            found.ravel()[:8] = start.ravel()[:8]
            return found.ndim == 1

        self.weights_refused(spoil)

    def test_few_elements_not_finite(self):
        for wrong in (numpy.inf, -numpy.inf, numpy.nan):
            def spoil(found, _):
                found.ravel()[::32] = wrong
                return True

            self.weights_refused(spoil)

    def test_one_element_far_off(self):
        def spoil(found, _):
            found.ravel()[found.size // 2] += 0.1
            return True

        self.weights_refused(spoil)

    def test_tail_of_a_gradient_missing(self):
        right = prediction.draw(self.golden, None, UNSEEN)
        for name in self.golden.start:
            found = right[f"gradient {name}"].copy()
            tail = found.ravel()[found.size - max(found.size // 32, 8) :]
            if numpy.any(tail):
                tail[:] = 0
                failures = compare.beyond(self.predicted[None].comparisons(right | {f"gradient {name}": found}))
                self.assertTrue([what for what, *_ in failures if what.startswith(f"gradient {name}")], name)


if __name__ == "__main__":
    unittest.main()
