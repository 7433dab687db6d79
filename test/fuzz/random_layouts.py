#!/usr/bin/env python3
# Random (model, layout) pairs: every one either equals its one-rank run or is refused with an error that names a layout
# that works, which then equals its one-rank run. None hangs, none crashes.
#
#   test/fuzz/random_layouts.py --bin build/release/bin --count 1000 --seed 1 --jobs 2     the full run
#   test/fuzz/random_layouts.py --bin build/release/bin --dtype bf16 --count 200           gradients, residuals in f32 or bf16
#   test/fuzz/random_layouts.py .. --target cuda:sm_90        ranks that share a device, here that of test/emulate/cuda
#
# Equal means: losses of all steps, tokens, gradient norms, and every gradient of step 0, within the tolerances of
# test/composition/harness.py. What recomputes in backward must have the bits of the same layout with --no-recompute.
#
# Of bf16, equal means: as far from one rank in f32 as one rank in bf16 is. How far that is, is drawn: both on weights moved
# by up to a unit of bf16's last place, so that all is rounded otherwise. The statistic is the largest, over losses, norms and
# gradients, mean square of the error divided by that of the draws; its logarithm is taken as normal, and a run may exceed
# what one more draw would exceed once in 10^5 (Student's t).
import argparse
import concurrent.futures
import json
import math
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import types

import numpy

sys.path += [str(pathlib.Path(__file__).resolve().parent.parent / folder) for folder in ("e2e", "composition")]
import harness  # noqa: E402
import samples  # noqa: E402
import tensor_files  # noqa: E402

DRAWS, STUDENT = 16, 6.1  # draws of bf16; t of 15 degrees of freedom, beyond which is 10^-5
STEPS = 2
ADAM_EPS = "1e-3"  # gradients that are rounding alone (queries and keys where documents have one token) move no weight
SECONDS = 120  # a run of these sizes takes less than one; longer is a hang


WHOLE = ("gpipe", "1f1b", "interleaved")  # schedules that have a backward in one
ROUTED = ("deepseek_v2", "deepseek_v3", "glm4_moe")


def random_experts(r, family, layers):
    """All experts are chosen: rounding moves no token to another one. Choices are what the goldens are for."""
    count = r.choice([1, 2, 3, 4, 5])
    experts = {"num_experts" if family == "qwen2_moe" else "num_local_experts": count, "num_experts_per_tok": count}
    if family in ("qwen2_moe", "qwen3_moe"):
        experts |= {"moe_intermediate_size": r.choice([4, 6, 20]), "norm_topk_prob": r.random() < 0.5,
                    "decoder_sparse_step": r.randint(1, min(layers, 2))}
    if family in ROUTED:
        experts = {"n_routed_experts": count, "num_experts_per_tok": count, "moe_intermediate_size": r.choice([4, 6, 20]),
                   "n_shared_experts": r.choice([0, 2]), "first_k_dense_replace": r.randint(0, min(2, layers - 1)),
                   "n_group": 1, "topk_group": 1}
    if family == "qwen2_moe":
        experts |= {"shared_expert_intermediate_size": r.choice([4, 8, 12]), "qkv_bias": r.random() < 0.5}
    return experts


def random_model(r):
    family = r.choice(["deepseek_v2", "deepseek_v3", "glm4_moe", "gpt2", "gpt_oss", "llama", "mistral", "mixtral", "qwen2",
                       "qwen2_moe", "qwen3", "qwen3_moe"])
    groups = r.choice([1, 2, 3, 4])
    heads = groups * r.choice([1, 2, 3]) if family != "gpt2" else r.choice([1, 2, 3, 4, 6])
    size = r.choice([4, 6, 8]) if "qwen3" not in family else r.choice([4, 8, 16])
    hidden = heads * size if "qwen3" not in family else heads * r.choice([4, 8])
    layers, vocabulary = r.randint(1, 5), r.choice([17, 100, 128, 200, 257])
    tied = r.random() < 0.5
    if family == "gpt2":
        return {"model_type": "gpt2", "n_embd": hidden, "n_head": heads, "n_layer": layers, "n_positions": 64,
                "n_inner": r.choice([None, 3 * hidden]), "vocab_size": vocabulary, "tie_word_embeddings": tied,
                "activation_function": r.choice(["gelu_new", "gelu", "relu", "silu", "quick_gelu"]),
                "attn_pdrop": r.choice([0.0, 0.1]), "embd_pdrop": r.choice([0.0, 0.1]),
                "resid_pdrop": r.choice([0.0, 0.1]), "layer_norm_epsilon": 1e-5, "initializer_range": 0.2}
    config = {"model_type": family, "hidden_size": hidden, "num_attention_heads": heads, "num_key_value_heads": groups,
              "num_hidden_layers": layers, "intermediate_size": r.choice([8, 12, 24, 30, 64]),
              "vocab_size": vocabulary, "tie_word_embeddings": tied, "rms_norm_eps": 1e-6,
              "max_position_embeddings": 64, "rope_theta": r.choice([100.0, 10000.0]), "hidden_act": "silu",
              "initializer_range": 0.2}
    if family == "llama":
        config |= {"attention_bias": r.random() < 0.5, "mlp_bias": r.random() < 0.5}
    if family in ("mistral", "mixtral"):
        config |= {"sliding_window": r.choice([None, 3, 7])}
    if family.startswith("deepseek"):
        config |= {"num_key_value_heads": heads, "q_lora_rank": r.choice([None, 8, 20]), "kv_lora_rank": r.choice([8, 12]),
                   "qk_nope_head_dim": r.choice([4, 6]), "qk_rope_head_dim": r.choice([2, 4]), "v_head_dim": r.choice([3, 8])}
    if family == "glm4_moe":
        config |= {"head_dim": r.choice([8, 16]), "partial_rotary_factor": r.choice([0.25, 0.5, 1.0]),
                   "attention_bias": r.random() < 0.5, "use_qk_norm": r.random() < 0.5}
    if family == "gpt_oss":
        config |= {"head_dim": size, "sliding_window": r.choice([3, 7]), "swiglu_limit": r.choice([0.05, 7.0]),
                   "attention_bias": r.random() < 0.5, "rope_scaling": {"rope_type": "default"}}
    if family in ROUTED + ("gpt_oss", "mixtral", "qwen2_moe", "qwen3_moe"):
        config |= random_experts(r, family, layers)
    if "qwen3" in family:
        config |= {"head_dim": size, "attention_bias": r.random() < 0.3}
    return config


def random_balance(r, model):
    """Flags of terms of the loss."""
    if "num_experts_per_tok" not in model or r.random() < 0.4:
        return []
    sequence = ["--moe-router-load-balancing-type=seq_aux_loss", f"--moe-aux-loss-coeff={r.choice([0.01, 1])}"]
    return r.choice([sequence, ["--moe-z-loss-coeff=0.1"], [*sequence, "--moe-z-loss-coeff=1"]])


def random_capacity(r, model):
    """Flags of the room of experts, by position: rounding could change which weights are the largest."""
    if "num_experts_per_tok" not in model or r.random() < 0.7:
        return []
    return [f"--moe-expert-capacity-factor={r.choice([0.1, 0.4, 0.8])}", "--moe-token-drop-policy=position"]


def random_later_tokens(r, model):
    """Flags of modules that predict later tokens."""
    if model["model_type"] == "gpt2" or r.random() < 0.7:
        return []
    return [f"--mtp-num-layers={r.choice([1, 1, 2])}", f"--mtp-loss-scaling-factor={r.choice([0.1, 1])}"]


def random_policy(r, model, schedule):
    """Flags of what backward recomputes, or of the memory by which that is chosen; sometimes of a module that the model lacks."""
    if r.random() < 0.3:
        return []
    if r.random() < 0.3:
        return [f"--memory={int(2 ** r.uniform(16, 22))}"]
    full = ["--recompute-granularity=full", f"--recompute-method={r.choice(['uniform', 'block', 'block'])}"]
    if r.random() < 0.5:
        return [*full, f"--recompute-num-layers={1 if full[1].endswith('uniform') and schedule not in WHOLE else r.choice([1, 2, 3])}"]
    has_experts = "num_experts_per_tok" in model
    modules = ["core_attn", "moe" if has_experts and r.random() < 0.95 else "mlp"]
    modules += [name for key, name in (("n_shared_experts", "shared_experts"), ("kv_lora_rank", "mla_up_proj")) if model.get(key)]
    return ["--recompute-granularity=selective", "--recompute-modules", ",".join(r.sample(modules, r.randint(1, len(modules))))]


def random_expert_ranks(r, model, sizes):
    """Flags that say which ranks have which experts; sometimes such as cannot be."""
    if "num_experts_per_tok" not in model:
        return []
    experts = next(model[key] for key in ("num_experts", "num_local_experts", "n_routed_experts") if key in model)
    columns = model.get("moe_intermediate_size", model.get("intermediate_size"))
    ranks = sizes["tp"] * sizes["cp"] * sizes["dp"]
    fitting = [(ep, etp) for ep in (1, 2, 3, 4) for etp in (1, 2, 3, 4)
               if ranks % (ep * etp) == 0 and experts % ep == 0 and columns % etp == 0]
    ep, etp = r.choice(fitting) if r.random() < 0.95 else (2, 3)
    kinds = [[], ["--moe-token-dispatcher-type=allgather"], ["--moe-token-dispatcher-type=alltoall"]]
    return [f"--ep={ep}", f"--etp={etp}", *r.choice(kinds)]


def random_context(r, cp):
    """Flags that say how attention sees the sequence."""
    if cp == 1:
        return []
    kind = r.choice(["all_gather", "a2a", "a2a+p2p", "a2a+all_gather", "p2p"])
    flags = [f"--cp-comm-type={kind}"]
    if "a2a+" in kind:
        inner = r.choice([n for n in (1, 2, 4) if cp % n == 0])
        flags += ["--hierarchical-context-parallel-sizes", str(inner), str(cp // inner)]
    return flags + r.choice([[], [], ["--cp-order=zigzag"], ["--cp-order=contiguous"]])


def exchanging_ranks(layout):
    """Ranks that exchange heads under a2a, or the first of the sizes of a hierarchy."""
    sizes = [flag for flag in layout["context"] if flag.isdecimal()]
    return int(sizes[0]) if sizes else layout["cp"]


def random_sizes(r):
    sizes = [1, 2, 3, 4]
    layout = {"tp": r.choice(sizes), "pp": r.choice(sizes), "dp": r.choice(sizes), "mbs": r.choice([1, 2])}
    layout["cp"] = r.choice([1, 1, 1, 2, 2, 4])
    layout["gbs"] = layout["mbs"] * layout["dp"] * r.choice([1, 2, 3, 4, 6]) + (1 if r.random() < 0.05 else 0)
    layout["seq"] = r.choice([5, 8, 12, 16])
    layout["zero"] = r.choice([0, 1, 2, 3])
    layout["num-distributed-optimizer-instances"] = r.choice([1, 1, 2]) if layout["zero"] and layout["dp"] % 2 == 0 else 1
    layout["loss-tile"] = r.choice([0, 1, 5, 8])
    layout["schedule"] = r.choice(["gpipe", "1f1b", "zb-h1", "interleaved", "zb-v", "v-half", "dualpipev", "auto"])
    layout["vpp"] = r.choice({"interleaved": [2, 3], "zb-v": [2], "v-half": [2], "dualpipev": [2], "auto": [1, 2]}.get(layout["schedule"], [1]))
    if layout["schedule"] == "auto":
        layout["schedule-memory"] = r.choice([0, 0.5, 1, 1.5])
    layout["sp"] = r.random() < 0.5
    layout["context"] = random_context(r, layout["cp"])
    layout["documents"] = r.choice([[], [], ["--reset-attention-mask"], ["--reset-position-ids", "--reset-attention-mask"]])
    return layout


def likely(model, layout):
    """Whether the layout should be possible: most pairs are to run, not to be refused."""
    tp, heads = layout["tp"], model.get("n_head") or model["num_attention_heads"]
    groups = model.get("num_key_value_heads", heads)
    inner = model.get("intermediate_size") or model.get("n_inner") or 4 * model["n_embd"]
    layers = model.get("n_layer") or model["num_hidden_layers"]
    if layout["seq"] % (2 * layout["cp"]) * (layout["cp"] > 1) or (layout["sp"] and layout["seq"] % (tp * layout["cp"])):
        return False
    if any("a2a" in flag for flag in layout["context"]) and groups % (tp * exchanging_ranks(layout)):
        return False
    return (heads // groups % (tp // math.gcd(groups, tp)) == 0 and inner % tp == 0
            and not (layout["sp"] and layout["seq"] % tp) and layout["pp"] * layout["vpp"] <= layers
            and layout["gbs"] % (layout["mbs"] * layout["dp"]) == 0 and not (layout["vpp"] > 1 == layout["pp"]))


def random_layout(r, model):
    wanted = r.random() < 0.85
    layout = random_sizes(r)
    while wanted and not likely(model, layout):
        layout = random_sizes(r)
    flags = [f"--{name}={value}" for name, value in layout.items() if name not in ("sp", "context", "documents")]
    flags += layout["context"]
    flags.append("--sp" if layout["sp"] else "--no-sp")
    flags += layout["documents"] + random_balance(r, model) + random_capacity(r, model) + random_later_tokens(r, model) + random_expert_ranks(r, model, layout)
    if layout["num-distributed-optimizer-instances"] > 1 and layout["zero"] == 3 and r.random() < 0.5:
        flags += ["--outer-dp-sharding-strategy", "optim"]
    if layout["zero"] == 3 and layout["schedule"] not in ("dualpipev", "auto") and r.random() < 0.3:
        flags.append("--no-reshard-after-forward")
    if r.random() < 0.5:
        flags += ["--overlap-grad-reduce", f"--ddp-bucket-size={r.choice([1, 300, 3000])}"]
    if (layout["zero"] == 3 or (layout["zero"] and "--overlap-grad-reduce" in flags)) and r.random() < 0.5:
        flags.append("--overlap-param-gather")
    if "num_experts_per_tok" in model and r.random() < 0.3:
        flags.append("--moe-per-layer-logging")
    return flags, layout


def run(command, where):
    try:
        done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None, f"hangs: {' '.join(map(str, command))}"
    if done.returncode not in (0, 1):
        return None, f"exit code {done.returncode}: {' '.join(map(str, command))}\n{done.stderr[-2000:]}"
    return done, None


def train(binaries, where, name, flags, *start):
    """Compiles, if there is no plan of that name, and trains; (record, None), ('refused', message) or (None, what is wrong)."""
    plan = where / name
    if not plan.exists():
        done, wrong = run([binaries / "mgc", "compile", "config.json", "-o", plan, *flags], where)
        if wrong:
            return None, wrong
        if done.returncode == 1:
            return "refused", done.stderr
    log, gradients = where / f"{name}.jsonl", where / f"{name}.gradients"
    log.unlink(missing_ok=True)  # mgrun appends
    done, wrong = run([binaries / "mgrun", plan, "--mock-data", "--train-iters", str(STEPS), "--lr", "1e-3", "--adam-eps", ADAM_EPS, "--seed", "7",
                       *start, "--log", log, "--save-gradients", gradients, "--timeout", "60"], where)
    if wrong or done.returncode:
        return None, wrong or f"mgrun fails: {done.stderr[-2000:]}"
    steps = [json.loads(line) for line in open(log)]
    assert len(steps) == STEPS, f"{len(steps)} records of {STEPS} steps in {log}"
    return types.SimpleNamespace(log=steps, gradients=tensor_files.load(gradients), weights={}), None


def value_of(flags):
    return {flag[2:]: int(value) for flag, value in zip(flags, flags[1:]) if flag in ("--seq", "--gbs", "--mbs")}


def results(run):
    """Losses, norms and gradients by name."""
    scalars = {f"{key} of step {i}": numpy.array([record[key]]) for i, record in enumerate(run.log) for key in ("loss", "grad_norm")}
    return {name: value.astype(numpy.float64) for name, value in (scalars | run.gradients).items()}


def squares(found, exact):
    return {name: float(((found[name] - value) ** 2).mean()) for name, value in exact.items()}


def tokens_of(run):
    return [record["tokens"] for record in run.log]


def moved_weights(binaries, where, plan, unit):
    """Files of the weights that the plan's run begins with, each moved by up to a unit of its type's last place."""
    done, wrong = run([binaries / "mgrun", where / plan, "--mock-data", "--train-iters", "0", "--seed", "7", "--save", where / "start",
                       "--no-save-optim"], where)
    assert not wrong and done.returncode == 0, wrong or done.stderr
    start, r = tensor_files.load(where / "start" / "model.safetensors"), numpy.random.default_rng(1)
    for _ in range(DRAWS):
        moved = {name: (w * (1 + r.uniform(-unit, unit, w.shape))).astype(numpy.float32) for name, w in start.items()}
        tensor_files.save(where / "moved.safetensors", moved)
        yield where / "moved.safetensors"


def bf16_differences(binaries, where, single, types, many):
    """Differences of a run in bf16 from one rank with the same weights."""
    exact, message = train(binaries, where, "exact", single)
    if message:
        return [message]
    draws = []
    for moved in moved_weights(binaries, where, "exact", 2.0**-7):
        pair = [train(binaries, where, name, flags, "--load", moved) for name, flags in (("exact", single), ("one", single + types))]
        if wrong := [message for _, message in pair if message]:
            return wrong
        draws.append(squares(*(results(one) for one, _ in reversed(pair))))
    return beyond_draws(exact, many, draws)


def beyond_draws(exact, many, draws):
    """Differences of a run from the exact one that one more draw would exceed once in 10^5."""
    if many.gradients.keys() != exact.gradients.keys():
        return ["the gradients have other names"]
    if tokens_of(many) != tokens_of(exact):
        return [f"tokens {tokens_of(exact)} one rank, {tokens_of(many)}"]
    found = squares(results(many), results(exact))
    names = [name for name in found if sum(d[name] > 0 for d in draws) > 1]  # so that without any one draw there is a mean
    # A quantity that is exact in every draw, such as the gradient of a bias that nothing reads, must be exact; one that
    # is exact in all but one draw may be off by STUDENT times that one's.
    allowed = {name: STUDENT**2 * max(d[name] for d in draws) for name in found if name not in names}
    wrong = [f"{name}: off by {found[name] ** 0.5:.3g}, allowed {most ** 0.5:.3g}, exact on one rank in {DRAWS - 1} draws or more"
             for name, most in allowed.items() if not found[name] <= most]

    def statistic(one, others):
        return math.log(max(one[name] / numpy.mean([d[name] for d in others]) for name in names))

    drawn = [statistic(d, [other for other in draws if other is not d]) for d in draws]
    limit = numpy.mean(drawn) + STUDENT * numpy.std(drawn, ddof=1) * (1 + 1 / DRAWS) ** 0.5
    value = statistic(found, draws)
    worst = max(names, key=lambda name: found[name] / numpy.mean([d[name] for d in draws]))
    if not value <= limit:
        wrong.append(f"statistic {value:.2f}, allowed {limit:.2f}, of the draws {max(drawn):.2f}; worst: {worst}")
    return wrong


def random_types(r):
    residual = r.choice([[], ["--fp32-residual-connection"]])
    return ["--dtype=bf16", f"--grad-dtype={r.choice(['f32', 'bf16'])}", *residual]


def random_offload(r, target, model, policy):
    """Optimizer state and activations on the host, where the target has a memory of its own."""
    if target == "cpu":
        return []
    flags = ["--optimizer-cpu-offload", f"--optimizer-offload-fraction={r.choice([1, 0.5, 0.2])}"] if r.random() < 0.5 else []
    if r.random() < 0.5 and not any(flag.startswith("--memory=") for flag in policy):
        modules = ["attn_norm", "core_attn", "attn_proj", "mlp_norm"]
        modules += ["expert_fc1", "moe_act"] if "num_experts_per_tok" in model and r.random() < 0.95 else ["mlp"]
        flags += ["--fine-grained-activation-offloading", f"--offload-modules={','.join(r.sample(modules, r.randint(1, len(modules))))}",
                  f"--activation-offload-fraction={r.choice([1, 1, 0.5])}"]
    return flags


def one_pair(binaries, seed, dtype="f32", target="cpu"):
    r = random.Random(seed)
    model = random_model(r)
    flags, layout = random_layout(r, model)
    types = random_types(r) if dtype == "bf16" else []
    terms = [flag for flag in flags if flag.startswith(("--moe-", "--mtp-"))]
    more, policy = [*types, f"--target={target}"], random_policy(r, model, layout["schedule"])
    saving = [*flags, *more, "--no-recompute"]
    if isOpen := bool(policy) and policy[0].startswith("--memory=") and r.random() < 0.3:
        flags = ["--zero=auto" if flag.startswith("--zero=") else flag for flag in flags
                 if not flag.startswith(("--schedule-memory=", "--loss-tile="))]
    policy += random_offload(r, target, model, policy)
    flags += [*policy, *more]
    where = pathlib.Path(tempfile.mkdtemp(prefix="mgc-fuzz-"))
    try:
        (where / "config.json").write_text(json.dumps(model))
        many, message = train(binaries, where, "many", flags)
        label = f"seed {seed}: {json.dumps(model)} {' '.join(flags)}"
        verdict = "equal"
        if many is None:
            return "wrong", f"{label}\n  {message}"
        if least := many == "refused" and re.search(r"possible: --memory (\d+)", message):
            flags = [f"--memory={least[1]}" if flag.startswith("--memory=") else flag for flag in flags]
            many, message = train(binaries, where, "least", flags)
            if many is None or many == "refused":
                return "wrong", f"{label}\n  --memory={least[1]} does not work: {message}"
        if many == "refused":
            works = re.search(r"a layout that works: (.*)", message)
            if not works:
                return "wrong", f"{label}\n  names no alternative: {message}"
            flags = re.sub(r"--((target|memory|(grad-)?dtype) \S+|fp32-residual-connection)", "", works[1]).split()
            many, message = train(binaries, where, "alternative", flags + more)
            if many is None or many == "refused":
                return "wrong", f"{label}\n  the alternative {' '.join(flags)} does not work: {message}"
            layout, verdict = value_of(flags), "refused"
        elif policy and not isOpen:  # levels and parts of the loss have other orders of sums
            found = bits_that_differ(many, *train(binaries, where, "saving", saving))
            if found:
                return "wrong", f"{label}\n  {found}"
        together = layout.get("mbs", 1) if any("capacity" in flag for flag in terms) else 1  # sequences that share the room
        single = [f"--seq={layout['seq']}", f"--gbs={layout['gbs']}", f"--mbs={together}", "--tp=1", "--pp=1", "--dp=1"]
        single += [flag for flag in flags if flag.startswith("--reset-")] + terms
        one, message = train(binaries, where, "one", single + (more if types else []))
        if one is None or one == "refused":
            return "wrong", f"{label}\n  one rank: {message}"
        found = bf16_differences(binaries, where, single, more, many) if types else harness.differences(one, many)
        return (verdict, "") if not found else ("wrong", label + "".join(f"\n  {line}" for line in found[:8]))
    finally:
        shutil.rmtree(where, ignore_errors=True)


def bits_that_differ(many, saving, message):
    """Differences from a run that saves all that backward reads; empty: none. Layers that recompute take longer, so stages may be
    cut elsewhere: then the norm, and with it what is clipped, is summed in another order."""
    if saving is None or saving == "refused":
        return f"with --no-recompute: {message}"
    logs = [[{key: value for key, value in step.items() if key not in ("seconds", "host_seconds")} for step in run.log]
            for run in (many, saving)]
    norms = [log[0]["grad_norm"] for log in logs]
    first = [{key: value for key, value in log[0].items() if key != "grad_norm"} for log in logs]
    if first[0] != first[1] or abs(norms[0] - norms[1]) > 1e-6 * norms[1] or (norms[0] == norms[1] and logs[0] != logs[1]):
        return f"{logs[0]}; with --no-recompute {logs[1]}"
    names = [name for name, value in saving.gradients.items() if not numpy.array_equal(value, many.gradients[name])]
    return f"gradients differ from those with --no-recompute: {names[:5]}" if names else ""


def count(judged, counts, what):
    """Adds up verdicts as they come; prints what is wrong, and every 100 how far it is."""
    for done, (verdict, text) in enumerate(judged, 1):
        counts[verdict] += 1
        if done % 100 == 0:
            print(f"{done} {what}: {dict(counts)}", flush=True)
        if text:
            print(text, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default="build/release/bin")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=samples.seed())
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--target", default="cpu", help="of mgc compile, but for the one rank of f32")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    counts = {"equal": 0, "refused": 0, "wrong": 0}
    seeds = range(options.seed * 1_000_000, options.seed * 1_000_000 + options.count)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        judged = pool.map(lambda s: one_pair(options.bin.resolve(), s, options.dtype, options.target), seeds)
        count(judged, counts, "pairs")
    print(f"{options.count} pairs: {counts['equal']} equal their one-rank run, {counts['refused']} refused with an "
          f"alternative that does, {counts['wrong']} wrong")
    sys.exit(1 if counts["wrong"] or not counts["equal"] else 0)


if __name__ == "__main__":
    main()
