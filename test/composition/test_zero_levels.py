#!/usr/bin/env python3
# Levels of ZeRO: what reduces and shares out gradients (docs/sharding.md, The functions of a step), in layouts of every axis, and how
# many bytes travel for it (docs/memory.md).
import json
import math

import models
from harness import assert_same_bits, compare_layouts, main  # plan_lists is found by its path
import plan_lists
from models import GPT2, LLAMA, QWEN3, QWEN3_MOE

MICROBATCHES = (1, 2, 4)


def test_every_microbatch_counts_once(session):
    for config in (GPT2, QWEN3):
        compare_layouts(session, config, [f"--dp 2 --zero 2 --mbs {2 // min(m, 2)} {more}" for m in MICROBATCHES
                                          for more in ("", "--tp 2 --sp", "--pp 2", "--pp 2 --schedule zb-h1")])


# Sums over data ranks come before those over microbatches, and behind those over other axes: with one microbatch, and nothing that is
# pending over tp, they are the same sums.
def test_levels_have_the_same_bits(session):
    for layout in ("--dp 2 --mbs 2", "--dp 2 --tp 2 --no-sp --mbs 2"):
        runs = [session.train(LLAMA, f"{layout} --zero {zero}", flags="--clip-grad 0") for zero in (1, 2)]
        assert_same_bits(*runs, layout)


def test_tied_tables_behind_other_units(session):
    for config in (GPT2, QWEN3):
        compare_layouts(session, config, ["--dp 2 --zero 2", "--pp 2 --dp 2 --zero 2", "--pp 2 --dp 2 --tp 2 --sp --zero 2 --mbs 1",
                                          "--cp 2 --pp 2 --zero 2"])


def test_norms_and_few_groups(session):
    for config in (QWEN3, LLAMA | {"num_key_value_heads": 1}):
        compare_layouts(session, config, ["--tp 2 --sp --dp 2 --zero 2", "--tp 4 --no-sp --dp 2 --zero 2"])


# Experts have data ranks of their own: none where ep takes all of them.
def test_experts_have_their_own_data_ranks(session):
    compare_layouts(session, QWEN3_MOE, [f"--dp {dp} --ep {ep} --zero 2 --mbs 1" for dp, ep in ((2, 2), (4, 2), (2, 1))])
    plan = session.plan(QWEN3_MOE, "--dp 2 --ep 2 --zero 2")
    for stage in plan["stages"]:
        for bucket in stage["buckets"]:
            roles = {state["role"] for state in bucket["states"]}
            assert ("unitGradient" in roles) == bool(bucket.get("dataAxes")), bucket


def test_one_replica_trains_as_level_0(session):
    for layout in ("", "--tp 2", "--pp 2"):
        assert_same_bits(session.train(GPT2, f"{layout} --zero 0"), session.train(GPT2, f"{layout} --zero 2"), layout)


def test_slices_that_are_empty_or_padding(session):
    compare_layouts(session, GPT2, ["--dp 8 --zero 2 --mbs 1"], valid=models.VALID * 2)


def collectives(plan, stage):
    """(task, kind, elements of the larger side) of all collectives of the stage's chunks, those of a microbatch once."""
    sizes = {axis["name"]: axis["size"] for axis in plan["mesh"]["axes"]}
    for chunk in stage["chunks"]:
        for call, _ in plan_lists.runs(chunk["calls"], chunk.get("repeats", [])):
            for i in plan["programs"][call["program"]]["instructions"]:
                if i["op"] == "collective" and i.get("axes"):
                    axes = [p for axis in i["axes"] for p in plan["mesh"]["named"].get(axis, [axis])]
                    ranks = 1 if i["kind"] == "all_reduce" else math.prod(sizes[axis] for axis in axes)
                    yield chunk["task"], i["kind"], i.get("outer", 1) * i["chunk"] * ranks


def units(plan, stage):
    """Elements of the gradients of units that a microbatch makes: each instance makes one of each of its buckets. A tied table is one of
    two instances, on one stage or on two."""
    one = len(plan["stages"]) == 1
    tables = {place["bucket"] for p in plan["parameters"] if p["tensor"] in ("transformer.wte.weight", "model.embed_tokens.weight")
              for place in p["places"] if one}
    shared = lambda b: b in tables and plan["stages"][0]["buckets"][b].get("units", 1) == 1 and json.loads(plan["modelConfig"])["tie_word_embeddings"]
    return sum(bucket["elements"] * (2 if shared(b) else 1) for b, bucket in enumerate(stage["buckets"]))


# P elements of a stage's buckets, padding too. Level 0: one all-reduce of P a step. 1: one reduce-scatter and one gather of P. 2: a
# reduce-scatter of P in each microbatch, one for each unit of each bucket, and the gather.
def test_bytes_that_travel(session):
    for config, layout in ((models.with_layers(GPT2, 4), "--dp 2"), (models.with_layers(QWEN3, 4), "--dp 4 --pp 2"), (LLAMA, "--dp 2 --tp 2 --no-sp")):
        for zero in (0, 1, 2):
            plan = session.plan(config, f"{layout} --zero {zero} --mbs 1", 8)
            for stage in plan["stages"]:
                elements = sum(bucket["elements"] for bucket in stage["buckets"])
                found = {}
                for task, kind, size in collectives(plan, stage):
                    if size >= 16:  # not the step's scalars
                        found.setdefault((task, kind), []).append(size)
                of = lambda task, kind: sum(found.get((task, kind), []))
                backward = [one for one in ("backward", "input", "weight") if (one, "reduce_scatter") in found]
                if zero == 0:
                    assert of("reduce", "all_reduce") == elements and not backward, (layout, found)
                elif zero == 1:
                    assert of("reduce", "reduce_scatter") == elements == of("update", "all_gather") and not backward, (layout, found)
                else:
                    scattered = [size for one in backward for size in found[one, "reduce_scatter"]]
                    assert of("reduce", "reduce_scatter") == 0 and of("update", "all_gather") == elements, (layout, found)
                    assert sum(scattered) == units(plan, stage), (layout, sum(scattered), units(plan, stage))


if __name__ == "__main__":
    main(globals())
