#!/usr/bin/env python3
# Group G of docs/composition-bugs.md, experts, and the extremes of what a router can do.
import numpy

import models
from harness import assert_equal, assert_same_bits, compare_layouts, instructions, main
from models import GLM4_MOE, QWEN3_MOE

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
    for offset, favourites in enumerate(((2, 3), (0, 1), (3, 0))):
        weights = with_favourites(QWEN3_MOE, favourites)
        one = session.train(QWEN3_MOE, "--tp 1", weights=weights)
        for expert in range(4):
            gradient = one.gradients[f"model.layers.0.mlp.experts.{expert}.up_proj.weight"]
            assert gradient.any() == (expert in favourites), f"expert {expert} of {favourites}"
        layouts = ("--dp 2 --ep 2", "--tp 2 --ep 2 --etp 1 --moe-token-dispatcher-type alltoall", *PARALLEL)
        for layout in session.some(layouts, offset):
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


# Sequences fill an expert's room in the order of their positions, so no layout changes who has it: not one that cuts
# them, puts them in zigzag, or sends tokens elsewhere. The mbs sequences of a microbatch share one room.
def test_27_capacity(session):
    for offset, flags in enumerate(("--moe-expert-capacity-factor 0.5", "--moe-expert-capacity-factor 0.001",
                                    "--moe-expert-capacity-factor 0.75 --moe-token-drop-policy position")):
        one = session.train(QWEN3_MOE, f"--tp 1 {flags}")
        for layout in session.some((*PARALLEL, "--cp 2 --dp 2 --ep 2", "--cp 2 --cp-comm-type p2p --tp 2 --ep 4 --etp 1",
                                    "--pp 2 --dp 2 --zero 1"), offset):
            assert_equal(one, session.train(QWEN3_MOE, f"{layout} {flags}"), f"{layout} {flags}")
        one = session.train(QWEN3_MOE, f"--tp 1 --mbs 2 {flags}")
        for layout in ("--dp 2 --ep 2 --mbs 2", "--cp 2 --tp 2 --mbs 2 --ep 2 --etp 1"):
            assert_equal(one, session.train(QWEN3_MOE, f"{layout} {flags}"), f"{layout} --mbs 2 {flags}")


# An expert has 4 rows of each microbatch of a data rank; every token chooses 2 and 3, whose ranks are full to the last row.
def test_27_room_of_a_capacity(session):
    flags, capacity = "--moe-expert-capacity-factor 0.5", 4
    weights = with_favourites(QWEN3_MOE, (2, 3))
    one = session.train(QWEN3_MOE, f"--tp 1 {flags}", weights=weights)
    for layout, travel, experts, meeting in session.some((
            ("--dp 2 --ep 2", False, 2, 2), ("--dp 2 --ep 2", True, 2, 2), ("--dp 4 --ep 4", True, 1, 4),
            ("--tp 2 --dp 2 --ep 4 --etp 1", True, 1, 2), ("--tp 2 --ep 2 --etp 1", False, 2, 1),
            ("--cp 2 --dp 2 --ep 2", True, 2, 1), ("--dp 2", False, 4, 1))):
        layout += f" --moe-token-dispatcher-type {'alltoall' if travel else 'allgather'}"
        plan, dropless = (session.plan(QWEN3_MOE, f"{layout} {more}") for more in (flags, ""))
        name = "exchangeRows" if travel else "groupRows"
        places = {i["places"] for i in instructions(plan) if i["op"] == name}
        assert places == {experts * capacity * meeting}, f"{layout}: {places}"
        assert plan["stages"][0]["bytes"] < dropless["stages"][0]["bytes"], layout
        assert_equal(one, session.train(QWEN3_MOE, f"{layout} {flags}", weights=weights), layout)


# A rank sends at most the rows that its own tokens may have, over all experts.
def test_27_rows_that_are_sent(session):
    flags = "--dp 4 --ep 4 --moe-token-dispatcher-type alltoall --moe-expert-capacity-factor 0.25"
    sent = {(i["rows"], i["places"]) for i in instructions(session.plan(QWEN3_MOE, flags)) if i["op"] == "exchangeRows"}
    assert sent == {(4 * 2, 4 * 2)}, sent


# Each of two experts has 16 tokens and room for 8, those of the first positions: later ones change nothing of the
# experts' gradients. With cp 2 in zigzag they are not the first ones of the ranks, one after another.
def test_27_first_positions_have_the_room(session):
    flags = "--moe-expert-capacity-factor 1 --moe-token-drop-policy position"
    config = models.with_layers(QWEN3_MOE, 1)
    weights = with_favourites(config, (0, 1))
    batch = models.random_batch(config, (16, 16, 16, 16))
    for kept, weighs in ((slice(0, 8), True), (slice(8, 16), False)):
        labels = batch["labels"].copy()
        counted = numpy.zeros_like(labels, dtype=bool)
        counted[..., kept] = True
        labels[~counted] = -100
        for layout in ("--tp 1", "--cp 2 --dp 2 --ep 2"):
            run = session.train_new(config, f"{layout} {flags}", steps=1, weights=weights, batch=batch | {"labels": labels})
            for expert in (0, 1):
                gradient = run.gradients[f"model.layers.0.mlp.experts.{expert}.up_proj.weight"]
                assert gradient.any() == weighs, f"{layout} positions {kept}: {abs(gradient).max()}"


def test_room_for_all_drops_nothing(session):
    one, roomy = session.train(QWEN3_MOE, "--tp 1"), session.train(QWEN3_MOE, "--tp 1 --moe-expert-capacity-factor 2")
    assert_same_bits(one, roomy, "a capacity of all tokens")


def biases(tensors):
    return {name: tensor for name, tensor in tensors.items() if name.endswith("e_score_correction_bias")}


# A bias moves by the rate where its expert has not the mean load, whatever the optimizer's scalars say: by the load of the whole
# step, which no layout changes. With --dtype bf16 the bias and the load are f32, in files too.
def test_30_bias_moves_by_load(session):
    rate, tokens = 0.01, models.SEQUENCE * len(models.VALID)
    weights = models.random_weights(GLM4_MOE)
    for layout in session.some(("--tp 1", "--dp 2 --ep 2 --zero 1", "--tp 2 --pp 2", "--cp 2 --dp 2 --ep 4",
                                "--dp 2 --mbs 2 --tp 2 --ep 4 --etp 1", "--dtype bf16 --tp 2",
                                "--dtype bf16 --dp 2 --zero 1 --grad-dtype bf16")):
        run = session.train(GLM4_MOE, layout, weights=weights, steps=1,
                            flags=f"--moe-router-bias-update-rate {rate} --clip-grad 0.01")
        loads, moved = biases(run.gradients), biases(run.weights)
        assert len(loads) == len(moved) == 2, layout
        for name, load in loads.items():
            assert load.dtype == moved[name].dtype == numpy.float32
            assert load.sum() == tokens * 2 and (load == load.round()).all(), f"{layout}: {load}"
            assert len(set(load)) > 1, "even load moves nothing: no test"
            expected = weights[name] + numpy.float32(rate) * numpy.sign(tokens * 2 / 4 - load).astype(numpy.float32)
            assert (moved[name] == expected).all(), f"{layout} {name}: {moved[name]}, not {expected}, of {load}"


def test_30_load_is_of_the_choice(session):
    for favourites in ((0, 1), (3, 1)):
        weights = with_favourites(GLM4_MOE, favourites)
        for bias in biases(weights).values():
            bias[:] = 0
        for layout in ("--tp 1", "--tp 2 --ep 2 --etp 1", "--cp 2 --pp 2"):
            run = session.train(GLM4_MOE, layout, weights=weights, steps=1, flags="--moe-router-bias-update-rate 0.5")
            expected = [models.SEQUENCE * len(models.VALID) * (e in favourites) for e in range(4)]
            for name, load in biases(run.gradients).items():
                assert load.tolist() == expected, f"{layout} {name}: {load}"


# In the log as in the gradients: of the step that the line is of.
def test_30_load_in_the_log(session):
    for layout in ("--tp 1", "--dp 2 --ep 2 --zero 1 --pp 2"):
        run = session.train(GLM4_MOE, layout, flags="--moe-per-layer-logging")
        loads = biases(run.gradients)
        expected = {name.rsplit(".", 1)[0]: {"min": load.min(), "mean": load.mean(), "max": load.max()} for name, load in loads.items()}
        assert run.log[0]["tokens_per_expert"] == expected and len(expected) == 2, f"{layout}: {run.log[0]}"
    error, _ = session.refused(QWEN3_MOE, "--tp 1", flags="--moe-per-layer-logging")
    assert "--moe-per-layer-logging: the plan of the qwen3_moe model does not count the load of experts; expected one" in error, error


# A router without a bias counts if it is asked to, and nothing else changes; no rate moves what counts. Loads are of choices before
# any is dropped.
def test_load_of_other_routers(session):
    flag, choices = "--moe-per-layer-logging", models.SEQUENCE * len(models.VALID) * 2
    weights = with_favourites(QWEN3_MOE, (2, 0))
    for layout in session.some((
            "--tp 1", "--tp 2 --no-sp", "--tp 2 --pp 2 --schedule zb-h1", "--dp 2 --ep 2 --zero 1 --pp 2", "--cp 2 --dp 2 --ep 4",
            "--tp 2 --moe-expert-capacity-factor 0.5", "--dp 2 --zero 1 --overlap-grad-reduce --ddp-bucket-size 1",
            "--dtype bf16 --tp 2", "--dtype bf16 --dp 2 --zero 1 --grad-dtype bf16")):
        plain = session.train(QWEN3_MOE, layout, weights=weights)
        counted = session.train(QWEN3_MOE, f"{layout} {flag}", weights=weights, flags=flag)
        loads = [record.pop("tokens_per_expert") for record in counted.log]
        assert_same_bits(plain, counted, layout)
        assert loads[0] == {f"model.layers.{layer}.mlp.gate": {"min": 0, "mean": choices / 4, "max": choices / 2}
                            for layer in range(2)}, f"{layout}: {loads[0]}"
    error, _ = session.refused(QWEN3_MOE, f"--tp 1 {flag}", flags="--moe-router-bias-update-rate 0.1")
    assert "--moe-router-bias-update-rate 0.1: the qwen3_moe model of the plan has no bias" in error, error


# Routers that have a bias count anyway.
def test_asking_for_what_is_counted(session):
    plans = [session.plan(GLM4_MOE, f"--tp 2 {flag}") for flag in ("", "--moe-per-layer-logging")]
    assert plans[0] == plans[1]


# A bias that has moved changes the choice of the next steps, the same one in every layout.
def test_30_moved_bias_chooses(session):
    flags = "--moe-router-bias-update-rate 1"
    compare_layouts(session, GLM4_MOE, ("--dp 2 --ep 2 --zero 1", "--tp 2 --pp 2 --mbs 2", "--cp 2 --dp 2 --ep 4"), flags=flags, steps=3)
    still, moved = session.train(GLM4_MOE, "--tp 1", steps=3), session.train(GLM4_MOE, "--tp 1", flags=flags, steps=3)
    name = "model.layers.0.mlp.experts.0.up_proj.weight"
    assert (still.weights[name] != moved.weights[name]).any(), "no later step chose otherwise"
    before = biases(models.random_weights(GLM4_MOE))
    assert all(tensor.tobytes() == before[name].tobytes() for name, tensor in biases(still.weights).items())


def test_30_rate_without_a_bias(session):
    error, _ = session.refused(QWEN3_MOE, "--tp 1", flags="--moe-router-bias-update-rate 0.1")
    assert "--moe-router-bias-update-rate 0.1: the qwen3_moe model of the plan has no bias" in error, error


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
