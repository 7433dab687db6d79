#!/usr/bin/env python3
# Group B of docs/composition-bugs.md: scaling by tokens, ranks and microbatches.
# 14 needs extra prediction heads, which do not exist here.
import copy
import re

import numpy

import models
from harness import assert_equal, compare_layouts, differences, instructions, main
from models import GPT2, LLAMA, QWEN3_MOE


def test_10_unequal_tokens(session):
    compare_layouts(session, GPT2, ["--dp 2", "--dp 4", "--dp 2 --mbs 2", "--dp 2 --tp 2 --sp --zero 1"])


# An expert has seen the tokens of ep ranks before any gradient is reduced.
def test_13_gradients_of_experts(session):
    compare_layouts(session, QWEN3_MOE, ["--dp 4 --ep 1", "--dp 4 --ep 2", "--dp 4 --ep 4", "--dp 2 --ep 2 --mbs 2 --zero 1"])
    compare_layouts(session, QWEN3_MOE, ["--dp 4 --ep 2", "--dp 4 --ep 4 --zero 1"], valid=(0, 0, 0, 1))


# One data rank counts no token at all, then nobody but one sequence does, a single one.
def test_10_rank_without_tokens(session):
    for valid in ((0, 0, 15, 16), (0, 15, 0, 16), (0, 0, 0, 1)):
        compare_layouts(session, LLAMA, ["--dp 2", "--dp 2 --mbs 2 --zero 1", "--dp 4"], valid=valid)


def constants(session, config, layout):
    """All numbers in the ops of the local program, by block and direction: sizes are not among them."""
    text = session.optimize(session.compile(config, layout, to="import"), "--mg-merge", "--mg-grad", "--mg-shard", "--mg-local")
    found = {}
    for function in text.split("func.func @")[1:]:
        numbers = re.findall(r"(\w+) = (-?[\d.]+(?:[eE][+-]?\d+)?) : (?:f64|f32|i64)", function.split("attributes", 1)[1])
        dims = ("dim", "split", "concat")  # attributes of collectives: numbers of dimensions
        found[function.split("(")[0]] = sorted(n for n in numbers if n[0] not in dims)
    return found


def scales(session, config, layout):
    """Scales of kernels and attention at run time, without coordinates."""
    plan = session.plan(config, layout)
    attention = {(i["scale"], i.get("dropout", 0)) for i in instructions(plan) if i["op"] == "attention"}
    return attention, {i["reduce"] for i in instructions(plan) if i["op"] == "collective" and "reduce" in i} - {"max"}


def test_11_no_constant_contains_a_rank_count(session):
    for config in (GPT2, LLAMA):
        one = constants(session, config, "--tp 1")
        assert sum(map(len, one.values())) >= 10, one
        for layout in ("--dp 4", "--dp 2 --tp 2 --sp", "--tp 4 --no-sp", "--dp 2 --mbs 2", "--pp 2"):
            other = constants(session, config, layout)
            assert one == other, f"{layout}: {[(f, one[f], other.get(f)) for f in one if one[f] != other.get(f)]}"
            attention, reductions = scales(session, config, layout)
            assert attention == scales(session, config, "--tp 1")[0], layout
            assert reductions <= {"sum"}, f"{layout}: {reductions}"


def test_11_data_parallel(session):
    compare_layouts(session, LLAMA, ["--dp 4", "--dp 2 --tp 2"])


# The comparison must see this error: means of the data ranks' means instead of the mean over all tokens.
def test_10_mean_of_means_is_seen(session):
    halves = [session.train(GPT2, "--tp 1", valid=valid) for valid in (models.VALID[:2], models.VALID[2:])]
    one = session.train(GPT2, "--tp 1")
    wrong = copy.deepcopy(one)
    wrong.log[0]["loss"] = sum(half.log[0]["loss"] for half in halves) / 2
    assert any(text.startswith("step 0 loss") for text in differences(one, wrong))
    for name in one.gradients:
        wrong.gradients[name] = one.gradients[name] * numpy.float32(1 + 1e-3)
    gradients = [text for text in differences(one, wrong) if text.startswith("gradient")]
    assert len(gradients) > len(one.gradients) - 4, gradients  # the gradients of key biases are only rounding


def test_12_accumulation_and_pipeline(session):
    one = session.train(GPT2, "--tp 1")
    for m in (1, 2, 4):
        for layout in (f"--pp 2 --mbs {4 // m}", f"--dp 2 --mbs {max(1, 2 // m)}", f"--mbs {4 // m}"):
            assert_equal(one, session.train(GPT2, layout), layout)


if __name__ == "__main__":
    main(globals())
