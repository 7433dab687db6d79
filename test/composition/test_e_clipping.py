#!/usr/bin/env python3
# Group E of docs/composition-bugs.md: the gradient norm and clipping.
import models
from harness import assert_equal, compare_layouts, differences, instructions, main
from models import GPT2, LLAMA, QWEN3, QWEN3_MOE

LAYOUTS = ("--tp 1", "--tp 2 --sp", "--tp 4 --no-sp", "--dp 2 --zero 1", "--pp 2 --zero 0", "--tp 2 --pp 2 --dp 2 --zero 1",
           "--tp 4 --sp --pp 2 --zero 1 --schedule zb-h1", "--tp 2 --pp 2 --dp 2 --zero 2", "--tp 2 --pp 2 --dp 2 --zero 3",
           "--pp 2 --dp 4 --mbs 1 --zero 3 --num-distributed-optimizer-instances 2 --outer-dp-sharding-strategy optim")


# Every element counts once: the norm is that of the gathered gradients. Gradients of padded rows are not among them.
def test_19_norm_of_the_gathered_gradients(session):
    for config in (GPT2, QWEN3 | {"num_key_value_heads": 1, "vocab_size": 37}):
        for layout in LAYOUTS:
            run = session.train(config, layout)
            found, wanted = run.log[0]["grad_norm"], run.norm()
            assert abs(found / wanted - 1) <= 1e-5, f"{config['model_type']} {layout}: {found}, expected {wanted}"


# Each expert is on some ranks alone, of which none is special.
def test_19_norm_with_experts(session):
    for layout in ("--tp 2 --ep 2 --etp 1", "--tp 2 --dp 2 --ep 4 --etp 1", "--tp 2 --dp 2 --ep 2 --zero 1"):
        run = session.train(QWEN3_MOE, layout)
        found, wanted = run.log[0]["grad_norm"], run.norm()
        assert abs(found / wanted - 1) <= 1e-5, f"{layout}: {found}, expected {wanted}"
    limit = session.train(QWEN3_MOE, "--tp 1").log[0]["grad_norm"] / 3
    compare_layouts(session, QWEN3_MOE, ["--tp 2 --ep 2 --etp 1", "--dp 2 --ep 2 --zero 1"], flags=f"--clip-grad {limit:.6f}")


def test_20_clip_bites(session):
    for config in (GPT2, LLAMA):
        limit = session.train(config, "--tp 1").log[0]["grad_norm"] / 3
        flags = f"--clip-grad {limit:.6f}"
        compare_layouts(session, config, LAYOUTS[1:], flags=flags)
        clipped, free = session.train(config, "--tp 1", flags=flags), session.train(config, "--tp 1")
        seen = differences(free, clipped)
        assert sum(text.startswith("weight") for text in seen) > 10, f"the clip does not bite: {seen}"
        assert clipped.log[0] == free.log[0], "the norm is that before clipping"


# No instruction stands under a condition: a program is a list, the same for all ranks of a stage, and each run of the
# schedule is unconditional. A rank's data can change only values.
def test_21_no_conditions(session):
    plan = session.plan(GPT2, "--tp 2 --pp 2 --dp 2 --zero 1")
    assert {i["op"] for i in instructions(plan)} == {"rowKernel", "gemm", "attention", "collective", "move"}
    for stage in plan["stages"]:
        assert {s["kind"] for s in stage["schedule"]} <= {"run", "send", "recv"}
        allowed = {"kind", "chunk", "ring", "microbatch", "stride", "waits"}
        assert all(set(s) <= allowed for s in stage["schedule"])
    sums = [[i for c in stage["chunks"] for call in c["calls"] for i in plan["programs"][call["program"]]["instructions"]
             if i["op"] == "collective" and "pp" in i.get("axes", [])] for stage in plan["stages"]]
    assert [len(found) for found in sums] == [1, 1], "the scalars are summed over the stages once, on each stage"


# Infinite values on the second stage only: an error of all ranks at once, no rank waits for another.
def test_21_overflow_on_one_stage(session):
    weights = models.random_weights(LLAMA)
    weights["model.layers.1.mlp.down_proj.weight"] = weights["model.layers.1.mlp.down_proj.weight"] * 1e30
    weights["model.layers.1.mlp.up_proj.weight"] = weights["model.layers.1.mlp.up_proj.weight"] * 1e30
    for layout in ("--pp 2", "--pp 2 --tp 2 --dp 2 --zero 1"):
        error, seconds = session.refused(LLAMA, layout, weights=weights)
        assert "not finite" in error, error
        assert seconds < 30, f"{seconds} s: somebody waited"


# Stages that lack a kind of parameter (here the embedding, tied between the first and the last) take part in the norm
# all the same.
def test_21_stages_without_a_kind(session):
    config = models.with_layers(GPT2, 4)
    plan = session.plan(config, "--pp 4")
    tied = [any(bucket.get("tiedStages") for bucket in stage["buckets"]) for stage in plan["stages"]]
    assert tied == [True, False, False, True], tied
    compare_layouts(session, config, ["--pp 4", "--pp 4 --dp 2 --zero 1"])
    assert_equal(session.train(config, "--tp 1"), session.train(config, "--pp 3"), "--pp 3")


if __name__ == "__main__":
    main(globals())
