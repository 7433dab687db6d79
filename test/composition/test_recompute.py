#!/usr/bin/env python3
# Recomputation (compiler/grad/Recompute.h): which values a backward makes again changes no bit of what is trained, and what is saved
# is what the policy says.

import collections
import json
import pathlib
import re
import shutil
import sys

import models
from harness import assert_same_bits, main
from models import DROPOUT, GLM4_MOE, GPT2, LLAMA, QWEN3, QWEN3_MOE

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "mutation"))
import mutate  # noqa: E402

FULL = "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
UNIFORM = FULL.removesuffix(" 1")
BLOCK = "--recompute-granularity full --recompute-method block --recompute-num-layers"
SELECTIVE = "--recompute-granularity selective --recompute-modules"
LAYOUTS = ("--mbs 1", "--tp 2 --mbs 1", "--tp 2 --no-sp --mbs 2", "--dp 2 --pp 2 --schedule zb-h1 --mbs 1", "--cp 2 --mbs 1 --dtype bf16",
           "--cp 2 --cp-comm-type a2a --mbs 1", "--cp 2 --cp-comm-type p2p --mbs 1", "--dp 2 --zero 3 --mbs 1 --dtype bf16")


def policies_of(config):
    experts = "num_experts" in config or "n_routed_experts" in config
    modules = ["core_attn", "moe" if experts else "mlp"]
    modules += ["shared_experts"] if config.get("n_shared_experts") else []
    return ["", FULL, f"{BLOCK} 1"] + [f"{SELECTIVE} {name}" for name in modules] + [f"{SELECTIVE} {' '.join(modules)}"]


def assert_same_whatever_is_saved(session, config, layout, policies, **options):
    saving = session.train(config, f"{layout} --no-recompute", **options)
    for policy in policies:
        assert_same_bits(saving, session.train(config, f"{layout} {policy}", **options), (config["model_type"], layout, policy))


def test_policies_have_the_same_bits(session):
    for config in (GPT2, LLAMA, QWEN3, QWEN3_MOE, GLM4_MOE):
        for layout, policy in session.some([(layout, policy) for layout in LAYOUTS for policy in policies_of(config)]):
            assert_same_whatever_is_saved(session, config, layout, [policy])


# Masks are of their keys: no state of a generator is restored. Halves of a backward and pairs of runs recompute in one of them.
def test_dropout(session):
    config, schedules = models.with_layers(GPT2 | DROPOUT, 4), ("", "--pp 2", "--pp 2 --vpp 2 --schedule zb-v", "--pp 2 --vpp 2 --schedule dualpipev")
    layouts = [f"{split} {schedule} --mbs 1{dtype}" for split, dtype in (("--dp 2", ""), ("--tp 2", " --dtype bf16"), ("--cp 2", ""))
               for schedule in schedules]
    for layout, policy in session.some([(layout, policy) for layout in layouts for policy in policies_of(config)], 1):
        assert_same_whatever_is_saved(session, config, layout, [policy], valid=models.VALID * 2)


def test_experts_are_chosen_once(session):
    for config, layout in session.some([(config, layout) for config in (QWEN3_MOE, GLM4_MOE) for layout in (
            "--dp 2 --ep 2 --mbs 1", "--dp 2 --ep 2 --moe-token-dispatcher-type alltoall --mbs 1",
            "--tp 2 --ep 2 --etp 1 --moe-token-dispatcher-type alltoall --mbs 1 --moe-router-load-balancing-type seq_aux_loss --moe-aux-loss-coeff 1",
            "--dp 2 --pp 2 --schedule zb-h1 --ep 2 --moe-expert-capacity-factor 0.4 --mbs 1")]):
        assert_same_whatever_is_saved(session, config, layout, [f"{SELECTIVE} moe", FULL])
        half = "input" if "zb-h1" in layout else "backward"
        text = session.compile(config, f"{layout} {FULL}", to="grad").split(f"func.func @layer.{half}(")[1].split("func.func @")[0]
        assert "mg.route_grad" in text and not re.search(r"mg\.(route|drop) ", text), (config["model_type"], layout)


# All scores are equal, so each token has the first two of four experts, and a rank of two has no rows. A choice that is made again
# may be another one, a load that is counted again is twice as large, and ranks that expect other rows wait for ever.
def test_ties_and_ranks_without_rows(session):
    flag, choices = "--moe-per-layer-logging", 2 * models.SEQUENCE * len(models.VALID)
    exchanged, drops = "--moe-token-dispatcher-type alltoall", "--dp 2 --ep 2 --moe-token-dispatcher-type alltoall --moe-expert-capacity-factor 0.5"
    for config, layout in ((QWEN3_MOE, drops), *session.some([(GLM4_MOE, drops)] + [(config, layout) for config in (QWEN3_MOE, GLM4_MOE) for layout in (
            "--dp 2 --ep 2", f"--dp 2 --ep 2 {exchanged}", f"--tp 2 --ep 2 --etp 1 {exchanged}", f"--dp 2 --pp 2 --ep 2 --schedule zb-h1 {exchanged}",
            f"--dp 2 --pp 2 --ep 2 --vpp 2 --schedule dualpipev {exchanged} --dtype bf16")], 1)):
        deep = models.with_layers(config, 4)
        weights = models.random_weights(deep)
        for name, tensor in weights.items():
            if name.endswith(("mlp.gate.weight", "e_score_correction_bias")):
                tensor[:] = 0
        saving, *others = (session.train(deep, f"{layout} --mbs 1 {flag} {policy}", flags=flag, weights=weights)
                           for policy in ("--no-recompute", *policies_of(deep)))
        loads = saving.log[0]["tokens_per_expert"].values()
        assert len(loads) == 4 and all(load == {"min": 0, "mean": choices / 4, "max": choices / 2} for load in loads), (layout, loads)
        for other, policy in zip(others, policies_of(deep), strict=True):
            assert_same_bits(saving, other, (config["model_type"], layout, policy))


def test_frozen_layers_and_later_tokens(session):
    config = models.with_layers(QWEN3, 4)
    for layout in ("--dp 2 --mbs 1 --freeze layers:0-1", "--mbs 2 --freeze embeddings,layers:1", "--dp 2 --mbs 1 --mtp-num-layers 1"):
        assert_same_whatever_is_saved(session, config, layout, [FULL, f"{BLOCK} 1", f"{SELECTIVE} mlp"], weights="seed")


def layers_of(plan, chunk):
    """The block of each layer that the chunk runs, in its order."""
    names = []
    for call in chunk["calls"]:
        count = next((repeat["count"] for repeat in chunk.get("repeats", []) if repeat["begin"] <= chunk["calls"].index(call) < repeat["end"]), 1)
        names += [plan["programs"][call["program"]]["name"].rsplit(".", 1)[0]] * count
    return [name for name in names if name.startswith("layer")]


def costly_ops(session, config, layout, half):
    """How many products, attentions and exchanges a half of a layer's backward has."""
    text = session.compile(config, layout, to="grad")
    body = text.split(f"func.func @layer.{half}(")[1].split("func.func @")[0]
    return collections.Counter(re.findall(r"mg\.(einsum|attention|grouped_einsum|dispatch|combine) ", body))


# The first half of a backward recomputes, and hands on what the second reads.
def test_second_halves_repeat_nothing(session):
    for config in (GPT2, LLAMA, QWEN3_MOE, GLM4_MOE):
        layout = "--pp 2 --schedule zb-h1 --mbs 1"
        standard = costly_ops(session, config, layout, "weight")
        for policy in policies_of(config):
            found = costly_ops(session, config, f"{layout} {policy}", "weight")
            assert not found - standard, (config["model_type"], policy, found, standard)
        repeated = costly_ops(session, config, f"{layout} {FULL}", "input") - costly_ops(session, config, layout, "input")
        products = 2 if "num_experts_per_tok" not in config else 4 if config.get("n_shared_experts") else 3  # all but the last ones
        assert repeated["attention"] == 1 and repeated["einsum"] + repeated["grouped_einsum"] >= products, (config["model_type"], repeated)


# The first N of each stage, and of each virtual stage, as Megatron-LM counts them.
def test_block_is_of_the_first_layers(session):
    config = models.with_layers(LLAMA, 8)
    for layout, count, chunks in (("", 3, [8]), ("--pp 2", 1, [4, 4]), ("--pp 2 --vpp 2 --schedule interleaved", 1, [2, 2, 2, 2]),
                                  ("--pp 2 --vpp 2 --schedule zb-v", 9, [2, 2, 2, 2]), ("--pp 3", 2, [3, 3, 2])):
        plan = session.plan(config, f"{layout} --mbs 1 {BLOCK} {count}")
        found = [layers_of(plan, chunk) for stage in plan["stages"] for chunk in stage["chunks"] if chunk["task"] == "forward"]
        wanted = [["layer.full"] * min(count, layers) + ["layer"] * (layers - count) for layers in chunks]
        assert sorted(found) == sorted(wanted), (layout, count, found)


def explained(session, config, layout):
    """{layer: stage} of the layers that mgc explain says are recomputed whole, in its text and in its facts."""
    plan = session.compile(config, layout)
    text, facts = (session.execute("mgc", "explain", plan, *form).stdout for form in ((), ("--json",)))
    told = {layer: int(stage) for stage, ranges in re.findall(r"^  stage (\d+): layer ([^:]*): full", text, re.M)
            for begin, last in re.findall(r"(\d+)(?: to (\d+))?", ranges) for layer in range(int(begin), int(last or begin) + 1)}
    full = {layer: number for number, stage in enumerate(json.loads(facts)["stages"]) for row in stage["recompute"] if row["policy"] == "full"
            for begin, end in row["layers"] for layer in range(begin, end)}
    return told, full


# The layers of Megatron-LM's rule, in stages that are uneven and in virtual ones, where mgc explain says that they are.
def test_explain_lists_the_layers(session):
    config = models.with_layers(LLAMA, 8)
    virtual, mirrored = ((0, 0), (2, 1), (4, 0), (6, 1)), ((0, 0), (2, 1), (4, 1), (6, 0))  # first layer, stage
    for layout, chunks in (("", ((0, 0),)), ("--pp 3", ((0, 0), (3, 1), (6, 2))), ("--pp 2 --vpp 2 --schedule interleaved", virtual),
                           ("--pp 2 --vpp 2 --schedule zb-v", mirrored), ("--pp 2 --vpp 2 --schedule dualpipev", mirrored)):
        ends = [begin for begin, _ in chunks[1:]] + [8]
        for policy, count in ((f"{BLOCK} 1", 1), (f"{BLOCK} 2", 2), (f"{BLOCK} 9", 9), (FULL, 9)):
            wanted = {layer: stage for (begin, stage), end in zip(chunks, ends, strict=True) for layer in range(begin, min(end, begin + count))}
            told, full = explained(session, config, f"{layout} --mbs 1 {policy}")
            assert told == full == wanted, (layout, policy, told, full, wanted)
        told, full = explained(session, config, f"{layout} --mbs 1 {UNIFORM} 3") if "zb" not in layout and "dual" not in layout else (wanted, wanted)
        assert told == full == wanted, (layout, told, full)
    text = session.execute("mgc", "explain", session.compile(config, f"--mbs 1 {UNIFORM} 3")).stdout
    assert "  stage 0: layer 0 to 5: full, in units of 3\n  stage 0: layer 6 to 7: full, in units of 2\n" in text, text


def names_of(plan, chunk):
    """Programs of layers that the chunk runs, repeats unrolled, with the numbers of the layers."""
    names, repeats, i = [], {repeat["begin"]: repeat for repeat in chunk.get("repeats", [])}, 0
    while i < len(chunk["calls"]):
        repeat = repeats.get(i, {"end": i + 1, "count": 1})
        for iteration in range(repeat["count"]):
            for call in chunk["calls"][i:repeat["end"]]:
                name = plan["programs"][call["program"]]["name"]
                if name.startswith("layer"):
                    names.append((name, call["instance"] + iteration * call.get("instanceStride", 0)))
        i = repeat["end"]
    return names


# Units of Megatron-LM's uniform method, in stages that they do not divide: what they call again, and in which order.
def test_units(session):
    config = models.with_layers(LLAMA, 8)
    for layout, of_unit, chunks in (("", 3, [8]), ("", 8, [8]), ("", 9, [8]), ("--pp 2", 3, [4, 4]), ("--pp 2 --vpp 2 --schedule interleaved", 2, [2] * 4),
                                    ("--pp 3", 2, [3, 3, 2])):
        plan = session.plan(config, f"{layout} --mbs 1 {UNIFORM} {of_unit}")
        wanted, begin = {"forward": [], "backward": []}, 0
        for layers in chunks:
            wanted["forward"].append([("layer.full.forward", i) for i in range(begin, begin + layers)])
            units = [range(first, min(first + of_unit, begin + layers)) for first in range(begin, begin + layers, of_unit)]
            wanted["backward"].append([call for unit in reversed(units) for call in
                                       [("layer.forward", i) for i in unit[:-1]] + [("layer.full.backward", unit[-1])] +
                                       [("layer.backward", i) for i in reversed(unit[:-1])]])
            begin += layers
        for task, calls in wanted.items():
            found = [names_of(plan, chunk) for stage in plan["stages"] for chunk in stage["chunks"] if chunk["task"] == task]
            assert sorted(found) == sorted(calls), (layout, of_unit, task, found, calls)


# Gradients that are reduced while backward runs part a unit; values in slices are gathered twice, into memory of which calls use two in turn.
def test_units_have_the_same_bits(session):
    sliced = "--dp 2 --zero 3 --mbs 1"
    layouts = [layout for layout in LAYOUTS if "zb" not in layout] + [
        "--dp 2 --overlap-grad-reduce --ddp-bucket-size 20000 --mbs 1", "--dp 2 --zero 1 --overlap-grad-reduce --ddp-bucket-size 20000 --overlap-param-gather --mbs 1",
        "--dp 2 --zero 2 --overlap-grad-reduce --mbs 1", f"{sliced} --overlap-grad-reduce --overlap-param-gather", f"{sliced} --no-reshard-after-forward",
        f"{sliced} --overlap-grad-reduce --overlap-param-gather --pp 2", "--pp 2 --vpp 2 --schedule interleaved --tp 2 --mbs 1", "--pp 2 --schedule gpipe --mbs 1"]
    cases = [(config, layout, of_unit) for config in (GPT2, LLAMA, QWEN3, GLM4_MOE) for layout in layouts for of_unit in (2, 3, 5)]
    for config, layout, of_unit in session.some(cases, 12):
        assert_same_whatever_is_saved(session, models.with_layers(config, 5), layout, [f"{UNIFORM} {of_unit}"])
    for layout in session.some(("--dp 2", "--tp 2 --pp 2 --dtype bf16", "--cp 2"), 13):
        assert_same_whatever_is_saved(session, models.with_layers(GPT2 | DROPOUT, 5), f"{layout} --mbs 1", [f"{UNIFORM} 2"], valid=models.VALID * 2)
    for flags in session.some(("--dp 2 --mbs 1 --freeze layers:0-1", "--mbs 2 --freeze embeddings,layers:2", "--dp 2 --mbs 1 --mtp-num-layers 1"), 14):
        assert_same_whatever_is_saved(session, models.with_layers(QWEN3, 5), flags, [f"{UNIFORM} 2"], weights="seed")


# An expert's choice is made once, and so is what adds to the loss: such layers are units by themselves.
def test_layers_that_run_once_are_no_units(session):
    plan = session.plan(models.with_layers(QWEN3_MOE, 4), f"--mbs 1 {UNIFORM} 2")
    called = [name for chunk in plan["stages"][0]["chunks"] if chunk["task"] == "backward" for name, _ in names_of(plan, chunk)]
    assert called == ["layer.full.backward"] * 4, called
    assert not any(region["kind"] == "transient" for region in plan["stages"][0]["regions"])


def test_units_take_what_the_docs_say(session):
    """A unit keeps what enters it; the stage has once the standard policy's bytes of all layers of a unit but one."""
    bytes_of = lambda plan, kind: next((region["bytes"] for region in plan["stages"][0]["regions"] if region["kind"] == kind), 0)
    tokens = 4 * models.SEQUENCE
    standard = saved_by_layer(session, LLAMA, "")
    entering = saved_by_layer(session, LLAMA, FULL)
    for of_unit in (2, 4):
        plan = session.plan(models.with_layers(LLAMA, 8), f"--mbs 4 {UNIFORM} {of_unit}")
        assert bytes_of(plan, "transient") == (of_unit - 1) * standard * tokens, (of_unit, bytes_of(plan, "transient"), standard)
        whole = session.plan(models.with_layers(LLAMA, 8), f"--mbs 4 {FULL}")
        assert bytes_of(whole, "activations") - bytes_of(plan, "activations") == (8 - 8 // of_unit) * entering * tokens, of_unit


# A part of a chunk begins with a layer that is recomputed, whose frame is moved over the gradient that the part before left.
def test_frames_on_gradients_of_the_part_before(session):
    layout = f"--dp 2 --overlap-grad-reduce --ddp-bucket-size 2000 --mbs 1 {UNIFORM} 2"
    bundle = session.compile(models.with_layers(LLAMA, 6), layout, sequences=2)
    document = mutate.read(bundle)
    (stage,), programs = document["plan"]["stages"], document["plan"]["programs"]
    frame = next(region["offset"] for region in stage["regions"] if region["kind"] == "frame")
    chunk = next(chunk for chunk in stage["chunks"] if chunk["task"] == "backward")
    moved = [(call, programs[call["program"]]["frame"]) for call in chunk["calls"] if programs[call["program"]]["name"] == "layer.forward"]
    assert moved and any(step.get("firstCall", 0) > 0 for step in stage["schedule"])
    for call, segment in moved:
        before = call["segments"][segment]
        call["segments"][segment] = {"slot": -1, "offset": frame}
        edited = session.new_folder()
        shutil.copytree(bundle, edited / "plan")
        mutate.write(document, edited / "plan")
        done = session.execute("mgc", "explain", edited / "plan")
        assert done.returncode == 1 and "of the frame" in done.stderr, (done.returncode, done.stderr)
        call["segments"][segment] = before


def saved_by_layer(session, config, policy, layout=""):
    """Bytes that a layer keeps of each token, from two depths of the model: what enters it, and what it saves."""
    def activations(layers):
        plan = session.plan(models.with_layers(config, layers), f"--mbs 4 {layout} {policy}")
        return next(region["bytes"] for region in plan["stages"][0]["regions"] if region["kind"] == "activations")
    return (activations(8) - activations(4)) / 4 / (models.SEQUENCE * 4)


# docs/memory.md: 8h + 4k + 4a + 4f in bf16.
def test_a_layer_saves_what_the_policy_says(session):
    h, f, a = 64, 128, 4
    config = LLAMA | {"hidden_size": h, "intermediate_size": f, "num_attention_heads": a, "num_key_value_heads": 2,
                      "attention_bias": False, "mlp_bias": False}
    k = h // 2
    saved_anyway = 8 + 4 * h // a  # f32: roots of two norms, cosines and sines of a head
    for policy, bytes_of_token in (("", 8 * h + 4 * k + 4 * a + 4 * f), (f"{SELECTIVE} mlp", 8 * h + 4 * k + 4 * a),
                                   (f"{SELECTIVE} core_attn mlp", 6 * h + 4 * k), (FULL, 2 * h),
                                   ("--no-recompute", 12 * h + 4 * k + 4 * a + 8 * f + saved_anyway)):
        found = saved_by_layer(session, config, policy, "--dtype bf16")
        assert found == bytes_of_token, (policy, found, bytes_of_token)


if __name__ == "__main__":
    main(globals())
