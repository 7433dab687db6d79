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


def flags_of(options):
    return " ".join(f"{flag} {value}" for flag, value in options.items())


def facts_of(session, config, layout):
    return json.loads(session.execute("mgc", "explain", session.compile(config, layout, 4), "--json").stdout)


def seconds_of(session, config, layout):
    """Seconds of a step, as mgc explain predicts."""
    return facts_of(session, config, layout)["prediction"]["seconds"]


def sizes_of(session, config, layout):
    """Bytes of a plan of one stage, those that layers keep, seconds of a step, bytes of the frame."""
    explained = facts_of(session, config, layout)
    [stage] = explained["stages"]
    return stage["bytes"], stage["memory"]["activations"], explained["prediction"]["seconds"], stage["memory"]["frame"]


def smallest(session, config, layout):
    """The least budget, as the refusal of a smaller one says."""
    message, _ = session.refused(config, f"{layout} --memory 1")
    return int(re.search(r"possible: --memory (\d+)", message)[1])


def smallest_plan(session, config, layout):
    """The same of a target on which nothing is run here."""
    try:
        session.compile(config, f"{layout} --memory 1")
    except AssertionError as error:
        return int(re.search(r"possible: --memory (\d+)", str(error))[1])
    raise AssertionError(f"{layout} fits into one byte")


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


# The curve of a plan has the plan in it, and a plan of as much memory as a point takes no longer.
def test_the_curve(session):
    for config, layout in session.some(CASES, 2):
        most = peak_of(session.plan(config, f"{layout} --memory 1TB"))
        budget = (smallest(session, config, layout) + most) // 2
        asked = f"{layout} --memory {budget}"
        chosen, peak = facts_of(session, config, asked)["budget"], peak_of(session.plan(config, asked))
        assert chosen["bytes"] == budget
        assert len(chosen["curve"]) > 2, chosen["curve"]
        assert {"bytes": peak, "seconds": chosen["seconds"]} in chosen["curve"], (peak, chosen)
        for key, isDescending in ("bytes", False), ("seconds", True):
            values = [point[key] for point in chosen["curve"]]
            assert values == sorted(set(values), reverse=isDescending), (key, values)
        for policy in chosen["policies"]:
            assert policy["seconds_added"] > 0 or policy["bytes_saved"] <= 0, policy
        for point in chosen["curve"][::3]:  # areas may be packed a little less well than the sum
            within_point = facts_of(session, config, f"{layout} --memory {point['bytes'] * 101 // 100}")["budget"]
            assert within_point["seconds"] <= point["seconds"] * (1 + 1e-9), (config["model_type"], layout, point)


# Where nothing is said of the loss, parts of it are another choice; what is said holds.
def test_the_loss_tile(session):
    config, layout = GPT2 | {"n_layer": 1, "vocab_size": 50000}, "--mbs 4"
    parts = f"{layout} --loss-tile 16"
    least = {text: smallest(session, config, text) for text in (layout, f"{layout} --loss-tile 0", parts)}
    assert least[layout] < least[f"{layout} --loss-tile 0"], least
    tight, roomy = (facts_of(session, config, f"{layout} --memory {size}") for size in (least[layout], "1TB"))
    chosen = [layers["policy"] for layers in tight["stages"][0]["recompute"] if layers["block"] == "head"]
    assert chosen and chosen[0].startswith("loss-tile "), tight["stages"]
    assert tight["stages"][0]["bytes"] < roomy["stages"][0]["bytes"]
    assert_same_bits(session.train(config, f"{layout} --loss-tile {chosen[0].split()[1]} --no-recompute"),
                     session.train(config, f"{layout} --memory {least[layout]}"), chosen[0])


# The orders of auto and their cap are chosen with the policies.
def test_auto(session):
    config, layout = models.with_layers(GPT2, 8), "--pp 2 --mbs 1 --schedule auto"
    most = peak_of(session.plan(config, f"{layout} --memory 1TB"))
    least = smallest(session, config, layout)
    assert least < smallest(session, config, f"{layout} --schedule-memory 1")
    times = [within(session, config, layout, least + (most - least) * i // 3) for i in range(4)]
    assert times[-1] <= seconds_of(session, config, f"{layout} --schedule-memory 1 --no-recompute") * (1 + 1e-9), times


LEVELS = ("--zero 0", "--zero 1", "--zero 2", "--zero 3", "--zero 3 --no-reshard-after-forward")


# --zero auto takes least time of all levels that fit, and has their bits.
def test_levels(session):
    config, layout = models.with_layers(LLAMA, 4), "--dp 4 --mbs 1"
    least = {level: smallest(session, config, f"{layout} {level}") for level in LEVELS}
    for budget in (min(least.values()), sorted(least.values())[2], max(least.values()) * 2):
        found = within(session, config, f"{layout} --zero auto", budget)
        for level in LEVELS:
            if least[level] <= budget:
                assert found <= within(session, config, f"{layout} {level}", budget), (budget, level)
    message, _ = session.refused(config, f"{layout} --zero auto --memory {min(least.values()) - 1}")
    assert "auto: none of the 5 fits" in message and f"possible: --memory {min(least.values())}, with --zero 3" in message, message


# --offload auto takes least time of no offloading and of each quarter.
def test_offload(session):
    large = {"hidden_size": 256, "intermediate_size": 1024, "vocab_size": 16384}  # states beside which staging memory is small
    config, layout = models.with_layers(LLAMA | large, 2), "--mbs 1 --dtype bf16 --target cuda:sm_90"
    parts = ("", *(f" --optimizer-cpu-offload --optimizer-offload-fraction {part}" for part in (0.25, 0.5, 0.75, 1)))
    least = [smallest_plan(session, config, layout + part) for part in parts]
    assert least[0] > least[2] > least[4], least
    for budget in (least[4], least[2], 2 * least[0]):
        found = within(session, config, f"{layout} --offload auto", budget)
        for part, bytes_ in zip(parts, least):
            if bytes_ <= budget:
                assert found <= within(session, config, layout + part, budget), (budget, part)


# Near layouts that a refusal names fit, in the time that it says.
def test_near_layouts(session):
    config = models.with_layers(GPT2, 4)
    for layout in session.some(({"--dp": "2", "--mbs": "2"}, {"--pp": "2", "--mbs": "2"}, {"--dp": "4", "--zero": "1"}), 2):
        budget = smallest(session, config, flags_of(layout)) - 1
        message, _ = session.refused(config, f"{flags_of(layout)} --memory {budget}")
        near = re.findall(r"^  (--.*): [\d.]+ .i?B, ([\d.]+) (s|ms|us) a step on \d+ ranks?$", message, re.M)
        assert near, message
        times = [float(number) * {"s": 1, "ms": 1e-3, "us": 1e-6}[unit] for _, number, unit in near]
        assert times == sorted(times), message
        words, seconds = near[0][0].split(), times[0]
        asked = flags_of(layout | dict(zip(words[::2], words[1::2], strict=True)) | {"--memory": str(budget)})
        assert peak_of(session.plan(config, asked)) <= budget
        assert abs(seconds_of(session, config, asked) - seconds) <= 0.006 * seconds, (asked, seconds)  # three digits at least


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
    layers, layout = 3, "--mbs 2 --loss-tile 0"
    for config in (LLAMA, *session.some((GPT2,))):
        options = []
        for policy in policies:
            shallow, deep = (sizes_of(session, models.with_layers(config, count), f"{layout} {policy}") for count in (layers, layers + 1))
            options.append((deep[1] - shallow[1], deep[2] - shallow[2], deep[3]))  # bytes and seconds of a layer, the frame
        total, _, seconds, frame = sizes_of(session, models.with_layers(config, layers), layout)
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
        layout += " --loss-tile 0"  # another changes the order of a sum
        least, most = smallest(session, config, layout), peak_of(session.plan(config, f"{layout} --memory 1TB"))
        saving = session.train(config, f"{layout} --no-recompute", weights="seed")
        for budget in (least, (least + most) // 2):
            assert_same_bits(saving, session.train(config, f"{layout} --memory {budget}", weights="seed"), (config["model_type"], layout, budget))


if __name__ == "__main__":
    main(globals())
