#!/usr/bin/env python3
# Group G of docs/composition-bugs.md, experts, and the extremes of what a router can do.
import numpy

import models
from harness import assert_equal, compare_layouts, instructions, main
from models import QWEN3_MOE

PARALLEL = ("--dp 4 --ep 4 --moe-token-dispatcher-type allgather", "--dp 4 --ep 4 --moe-token-dispatcher-type alltoall",
            "--tp 2 --dp 2 --ep 4 --etp 1 --moe-token-dispatcher-type alltoall", "--tp 2 --ep 2 --etp 1 --no-sp")


def routers(weights):
    return [name for name in weights if name.endswith("mlp.gate.weight")]


def with_favourites(config, favourites):
    """Weights whose routers send every token to these experts, whatever it says: x is what a norm made of a hidden state of
    which the first element is large, as no sublayer writes to it."""
    weights = models.random_weights(config)
    weights["model.embed_tokens.weight"][:, 0] = 2
    for name, tensor in weights.items():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            tensor[0] = 0
        if name.endswith("layernorm.weight"):
            tensor[0] = 1
    for name in routers(weights):
        weights[name][:, 0] = 0
        for place, expert in enumerate(favourites):
            weights[name][expert, 0] = 20 - 4 * place
    return weights


# Memory is full of NaN before a run: rows of other ranks, and those behind the last one, would show.
def test_29_rows_of_others(session):
    compare_layouts(session, QWEN3_MOE, PARALLEL)


# All tokens to the experts of one rank: the room of a rank is full to the last row, and the others get nothing.
def test_all_tokens_to_one_rank(session):
    for favourites in ((2, 3), (0, 1), (3, 0)):
        weights = with_favourites(QWEN3_MOE, favourites)
        one = session.train(QWEN3_MOE, "--tp 1", weights=weights)
        for expert in range(4):
            gradient = one.gradients[f"model.layers.0.mlp.experts.{expert}.up_proj.weight"]
            assert gradient.any() == (expert in favourites), f"expert {expert} of {favourites}"
        for layout in ("--dp 2 --ep 2", "--tp 2 --ep 2 --etp 1 --moe-token-dispatcher-type alltoall", *PARALLEL):
            assert_equal(one, session.train(QWEN3_MOE, layout, weights=weights), f"{favourites} {layout}")


def test_room_is_what_memory_has(session):
    for ep, dp in ((2, 2), (4, 4)):
        plan = session.plan(QWEN3_MOE, f"--dp {dp} --ep {ep} --moe-token-dispatcher-type alltoall")
        tokens, experts = models.SEQUENCE * dp, QWEN3_MOE["num_experts"] // ep
        places = {i["places"] for i in instructions(plan) if i["op"] == "exchangeRows"}
        assert places == {tokens * min(2, experts)}, places


def test_as_many_choices_as_experts(session):
    compare_layouts(session, QWEN3_MOE | {"num_experts_per_tok": 4}, PARALLEL)


def test_one_expert(session):
    config = QWEN3_MOE | {"num_experts": 1, "num_experts_per_tok": 1}
    compare_layouts(session, config, ["--dp 2", "--tp 2", "--tp 2 --etp 1 --no-sp", "--dp 4 --etp 2 --zero 1"])


# Named, not routed: a NaN is no number that is larger than others.
def test_nan_logits(session):
    weights = models.random_weights(QWEN3_MOE)
    weights[routers(weights)[0]][1, 3] = numpy.nan
    for layout in ("--tp 1", *PARALLEL):
        error, seconds = session.refused(QWEN3_MOE, layout, weights=weights)
        assert "not finite" in error or "NaN" in error, error
        assert seconds < 30, f"{seconds} s: somebody waited"


# Forward the rows of both projections travel at once, and a number for each; then they come back. Backward the gradients of what
# came back go, and those of the rows come; the rows themselves go again, as the room for all that may come is not kept.
def test_exchanges_are_counted(session):
    plan = session.plan(QWEN3_MOE | {"num_hidden_layers": 1}, "--dp 4 --ep 4 --moe-token-dispatcher-type alltoall")
    found = [(i["width"], i.get("back", False)) for i in instructions(plan) if i["op"] == "exchangeRows"]
    forward = [(16, False), (1, False), (16, True)]
    backward = [(16, False), (16, False), (16, True), (1, True)]
    assert sorted(found) == sorted(forward + backward), found


if __name__ == "__main__":
    main(globals())
