#!/usr/bin/env python3
# Group F of docs/composition-bugs.md: vocabulary, padding, sizes.
# 24 (label smoothing) has no flag here; what it asks of every formula, that its sizes are logical, is tested.
import re

import numpy

import models
import reference
from harness import LOSS, assert_equal, assert_same_bits, compare_layouts, instructions, main
from models import GPT2, LLAMA, QWEN3

TWELVE_HEADS = GPT2 | {"vocab_size": 37, "n_embd": 24, "n_head": 12, "n_inner": 48}
ODD = {"vocab_size": 37}  # over tp 4: 32 rows, 5 of 32, and two ranks of nothing but padding


def test_22_odd_vocabulary(session):
    for config in (GPT2 | ODD, LLAMA | ODD):
        compare_layouts(session, config, ["--tp 2 --sp", "--tp 4 --sp", "--tp 4 --no-sp --pp 2", "--dp 2 --zero 1"])
        batch, weights = models.random_batch(config), models.random_weights(config)
        weights = {name: w.astype(numpy.float64) for name, w in weights.items()}
        expected = reference.loss(config, weights, batch["input_ids"][0], batch["labels"][0])
        for tp in (1, 2, 4):
            loss = session.train(config, f"--tp {tp} --sp" if tp > 1 else "--tp 1").log[0]["loss"]
            assert abs(loss - expected) <= LOSS * expected, f"tp {tp}: {loss}, without padding {expected}"


# Two-dimensional tensor parallelism: h is split as well, so that tables and logits are resharded before the ops that
# need to know which rows and columns of the vocabulary they hold.
def test_22_vocabulary_of_resharded_tables(session):
    rules = {"b": ["dp"], "g": ["tpg"], "f": ["tpg"], "v": ["tpg"], "h": ["tpr"]}
    for config in (LLAMA, LLAMA | ODD, QWEN3):
        one = session.train(config, "--tp 1")
        for layout in ("--tp 4 --no-sp", "--tp 4 --no-sp --dp 2 --zero 1 --pp 2"):
            assert_equal(one, session.train(config, layout, rules=rules), f"{config['model_type']} {layout}")


# The padded size is a multiple of 128 and of tp. Gradients of padded rows are exactly 0, or the norm over all rows would
# not be that of the others (test_19), and training does not move the rows.
def test_22_padding(session):
    for layout, padded in (("--tp 1", 128), ("--tp 2", 128), ("--tp 4 --dp 2 --zero 1", 128), ("--tp 3 --no-sp", 384), ("--tp 6 --no-sp", 384)):
        sizes = set()
        for p in session.plan(TWELVE_HEADS, layout)["parameters"]:
            sizes |= {(d["size"], d["valid"]) for d in p["dims"] if d["name"] == "v"}
        assert sizes == {(padded, 37)}, (layout, sizes)


# Loss, gradients and weights do not change with the padding, and neither do those drawn from a seed.
def test_22_any_tp_that_divides_the_heads(session):
    for config in (TWELVE_HEADS, TWELVE_HEADS | {"tie_word_embeddings": False}):
        one, drawn = session.train(config, "--tp 1"), session.train(config, "--tp 1", steps=0, weights="seed")
        for layout in ("--tp 2", "--tp 3 --no-sp", "--tp 6 --no-sp", "--tp 3 --pp 2 --no-sp", "--tp 3 --cp 2 --no-sp",
                       "--tp 3 --no-sp --dp 2 --zero 1"):
            assert_equal(one, session.train(config, layout), layout)
            assert_same_bits(drawn, session.train(config, layout, steps=0, weights="seed"), layout)


def test_22_many_steps(session):
    compare_layouts(session, LLAMA | ODD, ["--tp 2 --sp", "--tp 4 --no-sp"], steps=8)


# A head whose weight is not split: no reduction over tp in the loss, and the same loss.
def test_23_head_not_split(session):
    rules = {"b": ["dp"], "g": ["tpg"], "r": ["tpr"], "f": ["tp"], "s": []}
    text = session.compile(LLAMA, "--tp 2 --no-sp", to="import", rules=rules)
    local = session.optimize(text, "--mg-merge", "--mg-grad", "--mg-shard", "--mg-local")
    head = next(f for f in local.split("func.func @") if f.startswith("head.backward"))
    assert "mg.all_" not in head and "mg.max" in head, head
    split = session.optimize(session.compile(LLAMA, "--tp 2 --no-sp", to="import"), "--mg-merge", "--mg-grad", "--mg-shard", "--mg-local")
    assert "mg.all_reduce" in next(f for f in split.split("func.func @") if f.startswith("head.backward"))
    one, other = session.train(LLAMA, "--tp 1"), session.train(LLAMA, "--tp 2 --no-sp", rules=rules)
    assert_equal(one, other, "head not split")


def test_24_sizes_in_formulas_are_logical(session):
    for layout in ("--tp 1", "--tp 2 --sp", "--tp 4 --no-sp"):
        text = session.compile(GPT2 | ODD, layout, to="import")
        local = session.optimize(text, "--mg-merge", "--mg-grad", "--mg-shard", "--mg-local")
        assert set(re.findall(r"valid = (\d+)", local)) == {"37"}, layout
        scales = {i["scale"] for i in instructions(session.plan(GPT2 | ODD, layout)) if i["op"] == "attention"}
        assert scales == {0.5}, f"{layout}: {scales} is not 1/sqrt(head_dim)"


# Queries, keys and values of one tensor (GPT-2), and of unequal widths (4 heads, 2 groups; gate and up).
def test_25_packed_projections(session):
    compare_layouts(session, GPT2, ["--tp 2 --no-sp", "--tp 4 --no-sp"])
    compare_layouts(session, LLAMA | {"head_dim": 6}, ["--tp 2 --no-sp", "--tp 4 --no-sp"])


# A rank's part of the packed tensor is its heads of q, of k and of v; no parameter spans two of them.
def test_25_parts_are_parameters(session):
    plan = session.plan(GPT2, "--tp 2")
    packed = [p for p in plan["parameters"] if p["tensor"] == "transformer.h.{}.attn.c_attn.weight"]
    assert [p["offset"] for p in packed] == [[0, 0], [0, 16], [0, 32]], packed
    for p in packed:
        assert [d["axes"] for d in p["dims"] if d.get("axes")] == [["tp"]] and [d["size"] for d in p["dims"]][:2] == [16, 4]


if __name__ == "__main__":
    main(globals())
