#!/usr/bin/env python3
# Recomputation (compiler/grad/Recompute.h): which values a backward makes again changes no bit of what is trained.
import models
from harness import assert_same_bits, main
from models import GLM4_MOE, GPT2, LLAMA, QWEN3_MOE

FULL = "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
SELECTIVE = "--recompute-granularity selective --recompute-modules"


def policies_of(config):
    modules = ["core_attn"]
    modules += ["moe"] if "num_experts" in config or "n_routed_experts" in config else ["mlp"]
    if "kv_lora_rank" in config:
        modules += ["mla_up_proj"]
    modules += ["shared_experts"] if config.get("n_shared_experts") else []
    return ["--no-recompute", "", FULL, FULL.replace("uniform", "block")] + [f"{SELECTIVE} {name}" for name in modules] + [
        f"{SELECTIVE} {' '.join(modules)}"]


def test_policies_have_the_same_bits(session):
    for config in (GPT2, LLAMA, QWEN3_MOE, GLM4_MOE):
        for layout in ("--mbs 1", "--tp 2 --mbs 1", "--dp 2 --pp 2 --schedule zb-h1 --mbs 1", "--cp 2 --mbs 1 --dtype bf16"):
            first = None
            for policy in policies_of(config):
                run = session.train(config, f"{layout} {policy}")
                first = first or run
                assert_same_bits(first, run, (config["model_type"], layout, policy))


if __name__ == "__main__":
    main(globals())
