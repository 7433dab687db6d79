#!/usr/bin/env python3
# Group C of docs/composition-bugs.md: random numbers and initial values.
import numpy

import models
from harness import assert_equal, assert_same_bits, main
from models import DROPOUT, GPT2, QWEN3


# A single place dropped elsewhere moves the loss by 1e-3 and more: 100 times what is allowed.
def test_15_dropout_masks(session):
    config = models.with_layers(GPT2 | DROPOUT, 4)
    one = session.train(config, "--tp 1")
    other = session.train(config, "--tp 1", flags="--seed 4321")
    assert abs(one.log[0]["loss"] - other.log[0]["loss"]) > 1e-3, "the seed changes nothing"
    assert abs(one.log[0]["loss"] - session.train(models.with_layers(GPT2, 4), "--tp 1").log[0]["loss"]) > 1e-3
    for layout in ("--tp 2 --sp", "--tp 2 --no-sp", "--tp 4 --sp", "--dp 2", "--dp 2 --mbs 2", "--pp 2 --schedule zb-h1",
                   "--tp 2 --sp --pp 2 --dp 2 --zero 1 --schedule interleaved --vpp 2"):
        assert_equal(one, session.train(config, layout), layout)


LAYOUTS = ("--tp 2", "--tp 4 --no-sp", "--pp 2", "--dp 2 --zero 1", "--tp 2 --pp 2 --dp 2 --zero 1 --schedule zb-h1")


def test_16_initial_weights(session):
    for config in (GPT2, QWEN3):
        one = session.train(config, "--tp 1", steps=0, weights="seed")
        for layout in LAYOUTS:
            assert_same_bits(one, session.train(config, layout, steps=0, weights="seed"), layout)
        matrices = [w for w in one.weights.values() if w.ndim == 2]
        for i, a in enumerate(matrices):
            for b in matrices[:i]:
                assert a.shape != b.shape or abs(numpy.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.5, "drawn alike"


# Loaded weights are saved unchanged.
def test_16_loaded_weights(session):
    wanted = models.random_weights(GPT2)
    for layout in LAYOUTS:
        found = session.train(GPT2, layout, steps=0).weights
        assert all(found[name].tobytes() == wanted[name].tobytes() for name in wanted), layout


if __name__ == "__main__":
    main(globals())
