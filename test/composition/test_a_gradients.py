#!/usr/bin/env python3
# Group A of docs/composition-bugs.md: a reduction of gradients that is missing, doubled, or over the wrong ranks.
import numpy

import models
from harness import assert_equal, compare_layouts, instructions, main  # plan_lists is found by its path
import plan_lists
from models import GPT2, LLAMA, QWEN3, QWEN3_MOE


def test_01_norms_under_sequence_parallelism(session):
    for config in (GPT2, LLAMA):
        compare_layouts(session, config, ["--tp 2 --sp", "--tp 4 --sp", "--tp 2 --sp --dp 2 --zero 1"])


def test_02_weights_shared_by_heads(session):
    compare_layouts(session, QWEN3, [f"--tp {tp} {sp}" for tp in (2, 4) for sp in ("--sp", "--no-sp")])


def test_03_mqa_fewer_kv_heads_than_tp(session):
    for config in (LLAMA, QWEN3):
        compare_layouts(session, config | {"num_key_value_heads": 1},
                        ["--tp 2 --no-sp", "--tp 4 --no-sp", "--tp 4 --sp", "--tp 4 --sp --pp 2 --schedule zb-h1"])


# The type error of a complete bias on a pending product is tested in test/lit/ops/composition-types.mlir.
def test_04_row_parallel_bias(session):
    for config in (GPT2, LLAMA):
        compare_layouts(session, config, ["--tp 2 --no-sp", "--tp 4 --no-sp"])


DISPATCHERS = ("--moe-token-dispatcher-type allgather", "--moe-token-dispatcher-type alltoall")


def test_05_gradients_before_experts(session):
    for dispatcher in DISPATCHERS:
        compare_layouts(session, QWEN3_MOE, [f"{layout} {dispatcher}" for layout in (
            "--dp 2 --ep 2", "--dp 4 --ep 4", "--tp 2 --ep 2 --etp 1 --sp", "--tp 2 --ep 2 --etp 1 --no-sp",
            "--cp 2 --ep 2", "--dp 2 --ep 2 --pp 2 --schedule zb-h1")])


# Groups of ranks that refine tp and dp: the pending axes of an expert are what split tokens and not it.
def test_06_columns_of_experts(session):
    compare_layouts(session, QWEN3_MOE, ["--dp 4 --etp 4", "--tp 2 --etp 1 --sp", "--tp 2 --etp 1 --no-sp",
                                         "--dp 2 --etp 2", "--tp 2 --dp 2 --etp 4", "--tp 4 --etp 2 --ep 2"])


# edp is 1: gradients of experts are summed over nobody.
def test_07_experts_on_all_data_ranks(session):
    plan = session.plan(QWEN3_MOE, "--dp 2 --ep 2 --zero 1")
    alone = [bucket for stage in plan["stages"] for bucket in stage["buckets"] if not bucket.get("dataAxes")]
    assert alone and not any(bucket.get("shardAxes") for bucket in alone), "experts have no replicas"
    compare_layouts(session, QWEN3_MOE, [f"--dp 2 --ep 2 --zero {zero} --mbs {mbs}" for zero in (0, 1) for mbs in (1, 2)])


def test_07_groups_of_one_rank(session):
    one = session.plan(GPT2, "--tp 1")
    assert one["mesh"]["axes"] == [], one["mesh"]
    assert not [i for i in instructions(one) if i["op"] == "collective"], "a collective for one rank"
    for layout in ("--tp 2 --zero 1", "--dp 2 --zero 1", "--pp 2 --zero 1"):
        plan = session.plan(GPT2, layout)
        assert [axis["size"] for axis in plan["mesh"]["axes"]] == [2], plan["mesh"]
        named = plan["mesh"]["named"]
        for i in instructions(plan):
            if i["op"] == "collective":
                axes = [p for axis in i.get("axes", []) for p in named.get(axis, [axis])]
                assert axes or len(i.get("stages", [])) > 1, f"{layout}: {i['label']} has a group of one rank"
    runs = {m: session.train(GPT2, f"--tp 1 --zero 1 --mbs {4 // m}") for m in (1, 2, 4)}
    for m in (2, 4):
        assert_equal(runs[1], runs[m], f"{m} microbatches")


SCHEDULES = ("--pp 2 --schedule gpipe", "--pp 2 --schedule 1f1b", "--pp 2 --schedule zb-h1",
             "--pp 2 --schedule interleaved --vpp 2", "--pp 2 --schedule gpipe --vpp 2",
             "--pp 2 --schedule zb-v", "--pp 2 --schedule v-half", "--pp 2 --schedule dualpipev",
             "--pp 2 --schedule auto --vpp 2")


def test_08_last_microbatch(session):
    config, valid = models.with_layers(GPT2, 4), models.VALID + (3, 9, 0, 5)
    one = session.train(config, "--dp 2 --mbs 4", valid=valid)
    for number, schedule in enumerate(SCHEDULES):
        layout = f"--dp 2 --mbs 1 --zero {number % 2} {schedule}"
        assert_equal(one, session.train(config, layout, valid=valid), layout)


# Where gradients are reduced over the data ranks is a chunk that runs once per step, after the last backward.
def test_08_reduction_reads_the_last_sum(session):
    for layout in ("--dp 2 --zero 0", "--dp 2 --zero 1", "--dp 2 --pp 2 --zero 1 --schedule zb-h1"):
        plan = session.plan(GPT2, layout)
        for stage in plan["stages"]:
            data = {c for c, chunk in enumerate(stage["chunks"]) for call in chunk["calls"]
                    if any(i["op"] == "collective" and "dp" in i.get("axes", [])
                           for i in plan["programs"][call["program"]]["instructions"])}
            steps = [s for s in plan_lists.schedule(stage) if s["kind"] == "run"]
            last = max(n for n, s in enumerate(steps) if s.get("microbatch", -1) >= 0)
            where = [n for n, s in enumerate(steps) if s["chunk"] in data]
            assert where and min(where) > last, f"{layout}: {where} are not all after {last}"
            assert len(where) == len(data), f"{layout}: a reduction runs more than once"


# The reductions of partial sums to mixed targets: test_a_reshard.py. Here the softmax over a split dimension.
def test_09_logits_near_300(session):
    weights = models.random_weights(LLAMA)
    weights["lm_head.weight"] = weights["lm_head.weight"] * numpy.float32(200)
    weights["model.norm.weight"] = weights["model.norm.weight"] * numpy.float32(1.5)
    one = session.train(LLAMA, "--tp 1", steps=1, weights=weights)
    assert 100 < one.log[0]["loss"] < 1000, one.log
    for tp in (2, 4):
        assert_equal(one, session.train(LLAMA, f"--tp {tp}", steps=1, weights=weights), f"tp {tp}")


if __name__ == "__main__":
    main(globals())
