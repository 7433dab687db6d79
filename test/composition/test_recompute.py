#!/usr/bin/env python3
# Recomputation (compiler/grad/Recompute.h): which values a backward makes again changes no bit of what is trained, and what is saved
# is what the policy says.

import collections
import re

import models
from harness import assert_same_bits, main
from models import DROPOUT, GLM4_MOE, GPT2, LLAMA, QWEN3, QWEN3_MOE

FULL = "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
BLOCK = "--recompute-granularity full --recompute-method block --recompute-num-layers"
SELECTIVE = "--recompute-granularity selective --recompute-modules"
LAYOUTS = ("--mbs 1", "--tp 2 --mbs 1", "--tp 2 --no-sp --mbs 2", "--dp 2 --pp 2 --schedule zb-h1 --mbs 1", "--cp 2 --mbs 1 --dtype bf16",
           "--cp 2 --cp-comm-type a2a --mbs 1", "--cp 2 --cp-comm-type p2p --mbs 1", "--dp 2 --zero 3 --mbs 1 --dtype bf16")


def policies_of(config):
    experts = "num_experts" in config or "n_routed_experts" in config
    modules = ["core_attn", "moe" if experts else "mlp"]
    modules += ["shared_experts"] if config.get("n_shared_experts") else []
    return ["", FULL, f"{BLOCK} 1"] + [f"{SELECTIVE} {name}" for name in modules] + [f"{SELECTIVE} {' '.join(modules)}"]


def assert_same_whatever_is_saved(session, config, layout, policies, weights=None):
    saving = session.train(config, f"{layout} --no-recompute", weights=weights)
    for policy in policies:
        assert_same_bits(saving, session.train(config, f"{layout} {policy}", weights=weights), (config["model_type"], layout, policy))


def test_policies_have_the_same_bits(session):
    for config in (GPT2, LLAMA, QWEN3, QWEN3_MOE, GLM4_MOE):
        for layout, policy in session.some([(layout, policy) for layout in LAYOUTS for policy in policies_of(config)]):
            assert_same_whatever_is_saved(session, config, layout, [policy])


# Masks are of their keys: no state of a generator is restored. Halves of a backward and pairs of runs recompute in one of them.
def test_dropout(session):
    config = models.with_layers(GPT2 | DROPOUT, 4)
    for layout in session.some(("--dp 2 --mbs 1", "--tp 2 --mbs 1", "--cp 2 --mbs 1", "--pp 2 --mbs 1", "--pp 2 --vpp 2 --schedule zb-v --mbs 1",
                                "--pp 2 --vpp 2 --schedule dualpipev --mbs 1 --dtype bf16")):
        assert_same_whatever_is_saved(session, config, layout, [f"{SELECTIVE} core_attn mlp", FULL, f"{BLOCK} 1"])


def test_experts_are_chosen_once(session):
    sized = QWEN3_MOE | {"num_experts": 4, "num_experts_per_tok": 1}  # ranks without rows
    for config, layout in session.some([(config, layout) for config in (QWEN3_MOE, sized, GLM4_MOE) for layout in (
            "--dp 2 --ep 2 --mbs 1", "--dp 2 --ep 2 --moe-token-dispatcher-type alltoall --mbs 1 --moe-per-layer-logging",
            "--tp 2 --ep 2 --etp 1 --moe-token-dispatcher-type alltoall --mbs 1 --moe-router-load-balancing-type seq_aux_loss --moe-aux-loss-coeff 1",
            "--dp 2 --pp 2 --schedule zb-h1 --ep 2 --moe-expert-capacity-factor 0.4 --mbs 1")]):
        assert_same_whatever_is_saved(session, config, layout, [f"{SELECTIVE} moe", FULL])
        half = "input" if "zb-h1" in layout else "backward"
        text = session.compile(config, f"{layout} {FULL}", to="grad").split(f"func.func @layer.{half}(")[1].split("func.func @")[0]
        assert "mg.route_grad" in text and not re.search(r"mg\.(route|drop) ", text), (config["model_type"], layout)


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
