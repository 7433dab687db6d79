#!/usr/bin/env python3
# --memory (compiler/assemble/MemoryBudget.h): a rank's proved memory is within the budget, the step is the shortest that is, and what is
# trained has the same bits.
import itertools
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


def facts_of(session, config, layout):
    """Bytes of a plan of one stage, those that layers keep, seconds of a step, bytes of the frame."""
    explained = json.loads(session.execute("mgc", "explain", session.compile(config, layout, 4), "--json").stdout)
    [stage] = explained["stages"]
    return stage["bytes"], stage["memory"]["activations"], explained["prediction"]["seconds"], stage["memory"]["frame"]


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


def descent(session, config, layout):
    """(peak, seconds) of the plans from all memory down to the least: each budget is a byte less than the peak before."""
    least, peak, seen = smallest(session, config, layout), peak_of(session.plan(config, f"{layout} --memory 1TB")), []
    while not seen or peak < seen[-1][0]:
        seen.append((peak, within(session, config, layout, peak)))
        if peak > least:
            peak = peak_of(session.plan(config, f"{layout} --memory {peak - 1}"))
    assert peak == least and len(seen) > 3, (config["model_type"], layout, least, seen)
    assert f"possible: --memory {least}" in session.refused(config, f"{layout} --memory {least - 1}")[0]
    return seen


# A plan's peak is a budget that it fits, with the time that a byte more gives; less memory is never faster. One chunk a stage and two.
def test_every_peak_and_a_byte_below(session):
    for config, layout in ((models.with_layers(LLAMA, 2), "--mbs 2"), *session.some((
            (models.with_layers(LLAMA, 3), "--mbs 2"), (models.with_layers(GPT2, 4), "--pp 2 --mbs 1"),
            (models.with_layers(LLAMA, 4), "--pp 2 --vpp 2 --schedule interleaved --mbs 1")), 1)):
        seen = descent(session, config, layout)
        for peak, seconds in seen:
            assert within(session, config, layout, peak + 1) == seconds, (config["model_type"], layout, peak, seen)
        assert [seconds for _, seconds in seen] == sorted(seconds for _, seconds in seen), (config["model_type"], layout, seen)


# All ways to give layers one of the six policies, by what a layer more of each policy keeps and takes: the plans from all memory down
# to the least are those that no other is below of, in bytes exactly. Seconds are sums of fewer than 1,000 terms: 1e-12 is more than
# float64 rounds.
def test_exhaustive_search(session):
    selective = "--recompute-granularity selective --recompute-modules"
    policies = ("--no-recompute", "", f"{selective} core_attn", f"{selective} mlp", f"{selective} core_attn mlp", f"{FULL} 9")
    layers, layout = 3, "--mbs 2"
    for config in (LLAMA, *session.some((GPT2,))):
        options = []
        for policy in policies:
            shallow, deep = (facts_of(session, models.with_layers(config, count), f"{layout} {policy}") for count in (layers, layers + 1))
            options.append((deep[1] - shallow[1], deep[2] - shallow[2], deep[3]))  # bytes and seconds of a layer, the frame
        total, _, seconds, frame = facts_of(session, models.with_layers(config, layers), layout)
        standard = options[1]
        everything = sorted((total - frame + max(option[-1] for option in chosen) + sum(option[0] - standard[0] for option in chosen),
                             seconds + sum(option[1] - standard[1] for option in chosen))
                            for chosen in itertools.combinations_with_replacement(options, layers))
        frontier = [point for i, point in enumerate(everything) if all(point[1] < other[1] * (1 - 1e-12) for other in everything[:i])]
        found = descent(session, models.with_layers(config, layers), layout)[::-1]
        assert [peak for peak, _ in found] == [bytes for bytes, _ in frontier], (config["model_type"], found, frontier)
        assert all(abs(a[1] / b[1] - 1) < 1e-12 for a, b in zip(found, frontier, strict=True)), (config["model_type"], found, frontier)


def test_budgets_have_the_same_bits(session):
    for config, layout in session.some(CASES, 2):
        least, most = smallest(session, config, layout), peak_of(session.plan(config, f"{layout} --memory 1TB"))
        saving = session.train(config, f"{layout} --no-recompute", weights="seed")
        for budget in (least, (least + most) // 2):
            assert_same_bits(saving, session.train(config, f"{layout} --memory {budget}", weights="seed"), (config["model_type"], layout, budget))


if __name__ == "__main__":
    main(globals())
