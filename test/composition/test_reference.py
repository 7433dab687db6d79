#!/usr/bin/env python3
# One rank against float64 in numpy: the loss, and the gradients along random directions of every tensor. All other tests
# compare layouts with one rank.
import numpy

import models
import reference
from harness import GRADIENT, LOSS, main

DIRECTIONS = 3


def check(session, config, **options):
    run = session.train(config, "--tp 1", **options)
    batch = models.random_batch(config, options.get("valid", models.VALID))
    tokens, labels = batch["input_ids"][0], batch["labels"][0]
    weights = {name: w.astype(numpy.float64) for name, w in models.random_weights(config).items()}
    expected = reference.loss(config, weights, tokens, labels)
    assert abs(run.log[0]["loss"] - expected) <= LOSS * max(1, expected), (run.log[0], expected)
    assert run.log[0]["tokens"] == (labels >= 0).sum()
    assert abs(run.log[0]["grad_norm"] / run.norm() - 1) <= 1e-5
    largest = max(float(abs(g).max()) for g in run.gradients.values())
    r = numpy.random.default_rng(3)
    for name, gradient in run.gradients.items():
        for _ in range(DIRECTIONS):
            direction = r.standard_normal(gradient.shape)
            found = float((gradient * direction).sum())
            wanted = reference.slope(config, weights, tokens, labels, name, direction)
            # Rounding of the elements adds up like a random walk; the differences of the loss are good to 1e-8.
            bound = GRADIENT * max(float(abs(gradient).max()), 0.05 * largest) * numpy.linalg.norm(direction) + 1e-8
            assert abs(found - wanted) <= bound, f"{name}: slope {found}, expected {wanted}, allowed {bound:.3g}"


def test_gpt2(session):
    check(session, models.GPT2)


def test_gpt2_untied_odd_vocabulary(session):
    check(session, models.GPT2 | {"tie_word_embeddings": False, "vocab_size": 37})


def test_llama(session):
    check(session, models.LLAMA)


def test_llama_one_group(session):
    check(session, models.LLAMA | {"num_key_value_heads": 1})


def test_qwen3(session):
    check(session, models.QWEN3)


def test_sequences_without_tokens(session):
    check(session, models.GPT2, valid=(0, 3, 0, 16))


if __name__ == "__main__":
    main(globals())
