#!/usr/bin/env python3
# Group H of docs/composition-bugs.md: what attention is asked for holds under every type of context parallelism.
import models
from harness import assert_equal, assert_same_bits, main
from models import DROPOUT, GPT2, LLAMA, QWEN3

MISTRAL = {key: value for key, value in LLAMA.items() if key not in ("attention_bias", "mlp_bias")} | {
    "model_type": "mistral", "sliding_window": 5}
ODD_SCALE = LLAMA | {"head_dim": 8}
FEW_GROUPS = LLAMA | {"num_key_value_heads": 1}
TYPES = ("--cp 2", "--cp 4 --cp-order contiguous", "--cp 2 --cp-comm-type a2a", "--cp 4 --cp-comm-type a2a --cp-order zigzag",
         "--cp 4 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2", "--cp 2 --cp-comm-type a2a,all_gather")


# Each property, at a value that changes the result, under each type.
def test_33_every_property_under_every_type(session):
    plain = session.train(LLAMA, "--tp 1").log[0]["loss"]
    for config in (GPT2, GPT2 | DROPOUT, LLAMA, MISTRAL, ODD_SCALE, FEW_GROUPS, QWEN3):
        one = session.train(config, "--tp 1")
        assert config is LLAMA or one.log[0]["loss"] != plain, "the property changes nothing"
        for layout in TYPES:
            assert_equal(one, session.train(config, layout), f"{config['model_type']} {layout}")


def test_33_with_every_other_axis(session):
    for config in (GPT2 | DROPOUT, MISTRAL):
        one = session.train(config, "--tp 1")
        for layout in ("--cp 2 --tp 2 --sp", "--cp 2 --tp 2 --no-sp --cp-comm-type a2a", "--cp 2 --dp 2 --zero 1 --overlap-grad-reduce",
                       "--cp 2 --pp 2 --tp 2 --schedule zb-h1 --cp-comm-type a2a", "--cp 4 --pp 2 --schedule gpipe",
                       "--cp 2 --tp 4 --sp"):
            assert_equal(one, session.train(config, layout), f"{config['model_type']} {layout}")


# A rank of cp is a replica of the weights: same drawn values, and gradients over dp and cp in one reduction.
def test_33_ranks_of_cp_share_weights(session):
    one = session.train(GPT2, "--tp 1", steps=0, weights="seed")
    for layout in TYPES:
        assert_same_bits(one, session.train(GPT2, layout, steps=0, weights="seed"), layout)
    plan = session.plan(GPT2, "--cp 2 --dp 2 --zero 1")
    for stage in plan["stages"]:
        assert all(set(bucket["dataAxes"]) == {"dp", "cp"} for bucket in stage["buckets"]), stage["buckets"]


# What a rank keeps of a microbatch falls with cp: all of it is per position, or per head of whole sequences.
def test_33_activations_fall_with_cp(session):
    def kept(layout):
        stage = session.plan(LLAMA, layout)["stages"][0]
        return sum(region["bytes"] for region in stage["regions"] if region["kind"] == "activations")

    whole = kept("--tp 1")
    for cp in (2, 4):
        for kind in ("all_gather", "a2a"):
            assert kept(f"--cp {cp} --cp-comm-type {kind}") == whole // cp, (cp, kind)


if __name__ == "__main__":
    main(globals())
