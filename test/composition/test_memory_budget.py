#!/usr/bin/env python3
# --memory (compiler/assemble/MemoryBudget.h): a rank's proved memory is within the budget, the step is the shortest that is, and what is
# trained has the same bits.
import json
import re

import models
from harness import assert_same_bits, main
from models import GLM4_MOE, GPT2, LLAMA, QWEN3_MOE

FULL = "--recompute-granularity full --recompute-method block --recompute-num-layers"
CASES = ((models.with_layers(LLAMA, 8), "--mbs 2"), (models.with_layers(GPT2, 8), "--pp 2 --mbs 1"),
         (models.with_layers(LLAMA, 8), "--pp 2 --vpp 2 --schedule interleaved --mbs 1"),
         (models.with_layers(GLM4_MOE | {"first_k_dense_replace": 2}, 4), "--mbs 2"),  # layers of two kinds
         (models.with_layers(QWEN3_MOE, 4), "--dp 2 --ep 2 --pp 2 --schedule zb-h1 --mbs 1"),
         (models.with_layers(LLAMA, 8), "--pp 2 --vpp 2 --schedule zb-v --mbs 1 --dtype bf16"),
         (models.with_layers(GPT2, 8), "--pp 2 --vpp 2 --schedule dualpipev --mbs 1"))


def peak_of(plan):
    return max(stage["bytes"] for stage in plan["stages"])


def seconds_of(session, config, layout):
    """Seconds of a step, as mgc explain predicts."""
    explained = session.execute("mgc", "explain", session.compile(config, layout, 4), "--json")
    return json.loads(explained.stdout)["prediction"]["seconds"]


def smallest(session, config, layout):
    """The least budget, as the refusal of a smaller one says."""
    message, _ = session.refused(config, f"{layout} --memory 1")
    return int(re.search(r"possible: --memory (\d+)", message)[1])


def within(session, config, layout, budget):
    """Seconds of a step within the budget."""
    asked = f"{layout} --memory {budget}"
    peak = peak_of(session.plan(config, asked))
    assert peak <= budget, (config["model_type"], layout, peak, budget)
    return seconds_of(session, config, asked)


def test_budgets(session):
    for config, layout in session.some(CASES):
        least, most = smallest(session, config, layout), peak_of(session.plan(config, f"{layout} --memory 1TB"))
        assert "more than" in session.refused(config, f"{layout} --memory {least - 1}")[0]
        budgets = [least + (most - least) * i // 7 for i in range(8)]
        times = [within(session, config, layout, budget) for budget in budgets]
        assert times == sorted(times, reverse=True), (config["model_type"], layout, budgets, times)
        if most > least:
            assert within(session, config, layout, most - 1) >= times[-1]
            assert peak_of(session.plan(config, f"{layout} --memory {most - 1}")) < most


# No plan of one policy, nor of some first layers recomputed, that fits is faster.
def test_no_fixed_policy_is_better(session):
    for config, layout in session.some(CASES, 1):
        policies = ["--no-recompute", "", "--recompute-activations", *(f"{FULL} {layers}" for layers in (1, 2, 3, 4, 8))]
        for policy in policies:
            peak, seconds = peak_of(session.plan(config, f"{layout} {policy}")), seconds_of(session, config, f"{layout} {policy}")
            found = within(session, config, layout, peak)
            assert found <= seconds * (1 + 1e-12), (config["model_type"], layout, policy, found, seconds)


# From all memory down to the least: each plan's peak is a budget that it fits, with the same time; a byte below are plans that need
# less and are no faster, and at last the refusal that names this peak. One chunk a stage and two.
def test_every_peak_and_a_byte_below(session):
    for config, layout in ((models.with_layers(LLAMA, 2), "--mbs 2"), *session.some((
            (models.with_layers(LLAMA, 3), "--mbs 2"), (models.with_layers(GPT2, 4), "--pp 2 --mbs 1"),
            (models.with_layers(LLAMA, 4), "--pp 2 --vpp 2 --schedule interleaved --mbs 1")), 1)):
        least, peak, seen = smallest(session, config, layout), peak_of(session.plan(config, f"{layout} --memory 1TB")), []
        while not seen or peak < seen[-1][0]:
            assert within(session, config, layout, peak + 1) == (seconds := within(session, config, layout, peak)), (layout, peak)
            assert not seen or seconds >= seen[-1][1], (layout, peak, seen)
            seen.append((peak, seconds))
            if peak > least:
                peak = peak_of(session.plan(config, f"{layout} --memory {peak - 1}"))
        assert peak == least and len(seen) > 3, (config["model_type"], layout, least, seen)
        assert f"possible: --memory {least}" in session.refused(config, f"{layout} --memory {least - 1}")[0]


def test_budgets_have_the_same_bits(session):
    for config, layout in session.some(CASES, 2):
        least, most = smallest(session, config, layout), peak_of(session.plan(config, f"{layout} --memory 1TB"))
        saving = session.train(config, f"{layout} --no-recompute", weights="seed")
        for budget in (least, (least + most) // 2):
            assert_same_bits(saving, session.train(config, f"{layout} --memory {budget}", weights="seed"), (config["model_type"], layout, budget))


if __name__ == "__main__":
    main(globals())
