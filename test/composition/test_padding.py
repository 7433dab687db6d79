#!/usr/bin/env python3
# pad_token_id: where it is a token its embedding gets no gradient, as with torch.nn.Embedding's padding_idx, which the
# decoders of transformers set. The head, a tied one too, gets its gradient as for any token.
import numpy

import models
from harness import GRADIENT, assert_equal, compare_layouts, main
from models import GPT2, LLAMA, QWEN3

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
LAYOUTS = ["--tp 2 --sp", "--pp 2 --tp 2", "--dp 2 --zero 1", "--pp 2 --schedule zb-h1"]


def frequent_token(config):
    """The most frequent token of the first batch among those that are labels too."""
    batch = models.random_batch(config)
    labels = batch["labels"][0]
    tokens = [token for token in numpy.unique(batch["input_ids"][0]) if (labels == token).any()]
    return int(max(tokens, key=lambda token: (batch["input_ids"][0] == token).sum()))


def assert_close(found, expected, what):
    error, bound = abs(found - expected).max(), 2 * GRADIENT * abs(expected).max()
    assert error <= bound, f"{what}: off by {error}, allowed {bound}"


def test_only_its_row_has_no_gradient(session):
    pad = frequent_token(LLAMA)
    without, padded = session.train(LLAMA, "--tp 1"), session.train(LLAMA | {"pad_token_id": pad}, "--tp 1")
    assert abs(without.gradients[EMBEDDING][pad]).max() > 0
    assert (padded.gradients[EMBEDDING][pad] == 0).all()
    for name, gradient in without.gradients.items():
        expected = gradient.copy()
        if name == EMBEDDING:
            expected[pad] = 0
        assert_close(padded.gradients[name], expected, name)
    assert abs(padded.log[0]["grad_norm"] - padded.norm()) <= 1e-5 * padded.norm()
    assert padded.log[0]["grad_norm"] < without.log[0]["grad_norm"] * 0.9999
    compare_layouts(session, LLAMA | {"pad_token_id": pad}, LAYOUTS)


# A tied weight's gradient is that of an embedding and that of a head of the same values, apart.
def test_a_tied_head_keeps_its_part(session):
    pad = frequent_token(QWEN3)
    apart = QWEN3 | {"tie_word_embeddings": False}
    weights = models.random_weights(QWEN3)
    parts = session.train(apart, "--tp 1", weights=weights | {HEAD: weights[EMBEDDING]}).gradients
    expected = parts[EMBEDDING].copy()
    expected[pad] = 0
    tied = QWEN3 | {"pad_token_id": pad}
    found = session.train(tied, "--tp 1", weights=weights).gradients[EMBEDDING]
    assert_close(found, expected + parts[HEAD], "the tied weight")
    assert_close(found[pad], parts[HEAD][pad], "its row of the padding")
    compare_layouts(session, tied, LAYOUTS)


def test_a_negative_one_counts_from_the_end(session):
    pad = frequent_token(LLAMA)
    assert_equal(session.train(LLAMA | {"pad_token_id": pad}, "--tp 1"),
                 session.train(LLAMA | {"pad_token_id": pad - LLAMA["vocab_size"]}, "--tp 1"), "-n")


# Its class passes no padding_idx on.
def test_gpt2_has_none(session):
    assert_equal(session.train(GPT2, "--tp 1"), session.train(GPT2 | {"pad_token_id": frequent_token(GPT2)}, "--tp 1"), "gpt2")


if __name__ == "__main__":
    main(globals())
