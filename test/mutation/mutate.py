#!/usr/bin/env python3
# Mutates a plan one fact at a time and shows that each mutant is noticed: refused by the verifiers (`mgc explain`, which
# runs all of them, or `mgrun`), or its training run differs from the plan's own (losses, norms, gradients, weights).
# A mutant that nothing notices is a fact nobody checks.
#
#   test/mutation/mutate.py --bin build/release/bin --model gpt2 [--sample N --seed S]       a small model, compiled here
#   test/mutation/mutate.py --bin build/release/bin --plan PLAN
#
# Data: tokens at random and labels of which each rank ignores another number, so that no two ranks or microbatches agree.
#
# Facts: every instruction (dropped), every collective (doubled, over other axes, with another reduction), every slice and
# demote (over other axes), the accumulation and the transpositions of every product, every scale factor of a coordinate,
# every scalar and stride of attention, every step of the schedule (dropped, other microbatch, swapped), every wait, every
# ring, every repeat and what is added in its iterations, what a row kernel does with its operands, every view of the
# checkpoint, part of a matrix, bucket, input and call, the task of every chunk, the sizes of the step. Not the symbols of
# kernels: a function that is called with operands of another one may do anything.
import argparse
import concurrent.futures
import copy
import json
import math
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import numpy

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / folder) for folder in ("e2e", "composition")]
import models  # noqa: E402
import plan_lists  # noqa: E402
from plan_lists import fnv1a, read, write  # noqa: E402, F401
import samples  # noqa: E402
import tensor_files  # noqa: E402

GPT2 = {"model_type": "gpt2", "n_embd": 16, "n_head": 4, "n_layer": 2, "n_positions": 16, "vocab_size": 100,
        "attn_pdrop": 0.1, "embd_pdrop": 0.1, "resid_pdrop": 0.1, "initializer_range": 0.2}
QWEN3 = models.QWEN3 | {"vocab_size": 100, "max_position_embeddings": 64}
QWEN3_MOE = QWEN3 | {"model_type": "qwen3_moe", "num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 12,
                     "norm_topk_prob": True}
GPT_OSS = QWEN3 | {"model_type": "gpt_oss", "intermediate_size": 12, "num_local_experts": 4, "num_experts_per_tok": 2,
                   "sliding_window": 3, "rope_scaling": {"rope_type": "default"}}
GLM4_MOE = models.GLM4_MOE | {"moe_intermediate_size": 12, "vocab_size": 100, "max_position_embeddings": 64}
BART = {"model_type": "bart", "d_model": 16, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_layers": 2,
        "decoder_layers": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_position_embeddings": 12, "vocab_size": 100,
        "dropout": 0.1, "attention_dropout": 0.1, "pad_token_id": 1, "decoder_start_token_id": 2, "init_std": 0.2}
T5 = {"model_type": "t5", "d_model": 16, "d_kv": 4, "num_heads": 4, "num_layers": 2, "num_decoder_layers": 3, "d_ff": 32,
      "vocab_size": 100, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 8, "dropout_rate": 0.1,
      "pad_token_id": 0, "decoder_start_token_id": 0, "feed_forward_proj": "gated-gelu", "is_encoder_decoder": True}
LLAVA = {"model_type": "llava", "image_token_index": 99,
         "text_config": QWEN3 | {"num_hidden_layers": 2},
         "vision_config": {"model_type": "clip_vision_model", "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 3,
                           "num_attention_heads": 2, "image_size": 4, "patch_size": 2, "num_channels": 2}}
# Each rank's slice of each bucket holds some element that is no padding: else it does not matter what lies there. Nor does it
# where learned positions are never used.
MODELS = {  # name: config.json, layout
    "gpt2": (GPT2, "--tp 2 --pp 2 --dp 2 --sp --zero 1 --gbs 8 --seq 8 --loss-tile 4"),
    "gpt2-units": (GPT2 | {"n_layer": 4}, "--tp 2 --pp 2 --dp 2 --sp --zero 2 --gbs 8 --seq 8"),
    "gpt2-sharded": (GPT2 | {"n_layer": 4}, "--pp 2 --vpp 2 --dp 2 --zero 3 --dtype bf16 --schedule dualpipev --freeze layers:1 --gbs 8 --seq 8"),
    "gpt2-instances": (GPT2, "--pp 2 --dp 4 --zero 3 --num-distributed-optimizer-instances 2 --outer-dp-sharding-strategy optim "
                             "--overlap-param-gather --overlap-grad-reduce --gbs 8 --seq 8"),
    "gpt2-ahead": (GPT2 | {"n_layer": 3}, "--tp 2 --pp 2 --dp 2 --sp --zero 1 --gbs 8 --seq 8 --overlap-grad-reduce --overlap-param-gather "
                                          "--ddp-bucket-size 1 --freeze layers:1"),
    "gpt2-offloaded": (GPT2 | {"n_layer": 4}, "--pp 2 --dp 2 --zero 1 --dtype bf16 --target cuda:sm_90 --optimizer-cpu-offload "
                                              "--optimizer-offload-fraction 0.7 --gbs 8 --seq 8"),
    "gpt2-activations": (GPT2 | {"n_layer": 6}, "--pp 2 --dp 2 --dtype bf16 --target cuda:sm_90 --fine-grained-activation-offloading "
                                                "--offload-modules attn_norm,core_attn,mlp --gbs 8 --seq 8"),
    "gpt2-recomputed": (GPT2 | {"n_layer": 5}, "--dp 2 --zero 3 --recompute-granularity full --recompute-method uniform "
                                               "--recompute-num-layers 2 --gbs 4 --seq 8"),
    "gpt2-parts": (GPT2 | {"n_layer": 5}, "--dp 2 --overlap-grad-reduce --ddp-bucket-size 2000 --recompute-granularity full "
                                          "--recompute-method uniform --recompute-num-layers 2 --gbs 2 --seq 8"),
    "gpt2-gathered": (GPT2, "--pp 2 --cp 2 --dp 2 --zero 3 --no-reshard-after-forward --gbs 8 --seq 8"),
    "qwen3": (QWEN3, "--tp 2 --pp 2 --dp 2 --sp --zero 1 --gbs 8 --seq 8 --loss-tile 4"),
    "bart": (BART, "--tp 2 --pp 2 --dp 2 --sp --zero 1 --gbs 8 --seq 10 --encoder-seq-length 12"),
    "t5": (T5, "--tp 2 --pp 2 --dp 2 --sp --zero 1 --gbs 8 --seq 10 --encoder-seq-length 12"),
    "llava": (LLAVA, "--tp 2 --pp 2 --dp 2 --sp --zero 1 --gbs 8 --seq 8"),
    "qwen3-one-group": (QWEN3 | {"num_key_value_heads": 1, "head_dim": 32, "tie_word_embeddings": False},
                        "--tp 4 --pp 2 --dp 2 --sp --zero 1 --gbs 8 --seq 8 --schedule zb-h1"),
    "qwen3-v": (QWEN3 | {"num_hidden_layers": 4}, "--pp 2 --dp 2 --zero 1 --gbs 8 --seq 8 --schedule zb-v"),
    "qwen3-bf16": (QWEN3, "--tp 2 --pp 2 --dp 2 --sp --zero 1 --gbs 8 --seq 8 --dtype bf16 --overlap-grad-reduce "
                   "--ddp-bucket-size 1"),
    "qwen3-context": (QWEN3, "--tp 2 --cp 2 --pp 2 --sp --zero 1 --gbs 4 --seq 8"),
    "gpt2-exchange": (GPT2 | {"n_positions": 8}, "--tp 2 --cp 2 --dp 2 --zero 1 --gbs 4 --seq 8 --cp-comm-type a2a"),
    "qwen3-ring": (QWEN3, "--tp 2 --cp 2 --zero 1 --gbs 4 --seq 8 --dtype bf16 --cp-comm-type p2p"),
    "gpt2-hierarchy": (GPT2 | {"n_positions": 8}, "--cp 4 --zero 1 --gbs 2 --seq 8 --cp-comm-type a2a+p2p "
                       "--hierarchical-context-parallel-sizes 2 2"),
    "qwen3-experts": (QWEN3_MOE, "--tp 2 --pp 2 --dp 2 --sp --zero 1 --gbs 8 --seq 8"),
    "qwen3-exchange": (QWEN3_MOE | {"num_experts": 4}, "--tp 2 --dp 2 --ep 2 --etp 2 --sp --zero 1 --gbs 4 --seq 8 "
                       "--moe-token-dispatcher-type alltoall"),
    "qwen3-balance": (QWEN3_MOE, "--tp 2 --pp 2 --dp 2 --sp --zero 1 --gbs 8 --seq 8 --moe-router-load-balancing-type "
                      "seq_aux_loss --moe-aux-loss-coeff 0.5 --moe-z-loss-coeff 0.25"),
    "qwen3-capacity": (QWEN3_MOE | {"num_experts": 4}, "--tp 2 --cp 2 --ep 2 --etp 1 --sp --zero 1 --gbs 4 --mbs 2 --seq 8 "
                       "--moe-expert-capacity-factor 0.5"),
    "glm4-load": (GLM4_MOE, "--tp 2 --sp --gbs 2 --seq 8"),  # the load of experts is pending over tp alone
    "qwen3-load": (QWEN3_MOE, "--tp 2 --pp 2 --dp 2 --sp --zero 1 --gbs 8 --seq 8 --moe-per-layer-logging"),
    "gpt-oss": (GPT_OSS, "--tp 2 --dp 2 --ep 2 --etp 2 --sp --zero 1 --gbs 4 --seq 8"),
    "qwen3-later": (QWEN3, "--tp 2 --pp 2 --dp 2 --sp --zero 1 --gbs 8 --seq 8 --mtp-num-layers 1 --loss-tile 4"),
    # Stage 0 has layers of which one is frozen, and one that is half frozen; the table is tied over both stages, and frozen too.
    "qwen3-frozen": (QWEN3 | {"num_hidden_layers": 4}, "--tp 2 --pp 2 --dp 2 --sp --zero 1 --gbs 8 --seq 8 --freeze "
                     "embeddings,layers:0,model.layers.1.mlp.*"),
    "qwen3-packed": (QWEN3, "--tp 2 --cp 2 --sp --zero 1 --gbs 4 --seq 8 --reset-position-ids --reset-attention-mask "
                     "--cp-comm-type all_gather,a2a"),
}
STEPS, SECONDS = 2, 120
DOCUMENTS = {"positionIds": "positions", "documentStarts": "positionIds", "keyDocumentStarts": "keyPositions"}
ENDS = {"documentEnds": "positions", "keyDocumentEnds": "keyPositions"}
ENCODER_ENDS = {"encoderEnds": "positions"}
IMAGES = {"imagePlaces": "positions"}
WAIT = "8"  # seconds until ranks that wait for each other in vain give up


def encoder_tensors(plan, r):
    """The encoder's inputs, with padding behind half of the tokens, or less."""
    shape = (STEPS, plan["globalBatchSize"], plan["encoderLength"])
    mask = numpy.arange(shape[2]) < r.integers(shape[2] // 2, shape[2] + 1, shape[:2])[..., None]
    return {"input_ids": r.integers(0, plan["vocabulary"], shape, dtype=numpy.int32), "attention_mask": mask.astype(numpy.int32)}


def image_tensors(plan, tokens, r):
    """Image tokens in all samples of a step but one, as many as an image has features, and the images."""
    images = plan["images"]
    tokens[tokens == images["token"]] = 0
    features = images.get("classTokens", 0) + images["rows"] * images["columns"] - images.get("firstFeature", 0)
    for step in range(STEPS):
        for sample in range(tokens.shape[1] - 1):
            tokens[step, sample, r.permutation(tokens.shape[2])[:features]] = images["token"]
    shape = (STEPS, tokens.shape[1] - 1, images["channels"], images["rows"] * images["patchSize"],
             images["columns"] * images["patchSize"])
    return {"input_ids": tokens, "pixel_values": r.standard_normal(shape).astype(numpy.float32)}


def write_batches(path, plan):
    """As mgrun's --data: input_ids, labels and what else the plan reads, [steps, samples, positions], a fifth of the labels ignored."""
    shape = (STEPS, plan["globalBatchSize"], plan["sequenceLength"])
    r = numpy.random.default_rng(1)
    tokens = r.integers(0, plan["vocabulary"], shape, dtype=numpy.int32)
    labels = r.integers(0, plan["vocabulary"], shape, dtype=numpy.int32)
    labels[r.random(shape) < 0.2] = -100
    positions = numpy.broadcast_to(numpy.arange(shape[2], dtype=numpy.int32), shape).copy()
    kinds = {given["kind"] for stage in plan["stages"] for given in stage["inputs"]}
    if kinds & DOCUMENTS.keys():
        for i in range(1, shape[2]):
            positions[..., i] = numpy.where(r.random(shape[:2]) < 0.3, 0, positions[..., i - 1] + 1)
    tensors = {"input_ids": tokens, "labels": labels, "position_ids": positions}
    if kinds & ENDS.keys():  # padding behind half of the tokens, or less
        mask = numpy.arange(shape[2]) < r.integers(shape[2] // 2, shape[2] + 1, shape[:2])[..., None]
        labels[~mask] = -100
        tensors["attention_mask"] = mask.astype(numpy.int32)
    if plan.get("tokenTypes", 0) > 0:
        tensors["token_type_ids"] = r.integers(0, plan["tokenTypes"], shape, dtype=numpy.int32)
    if "images" in plan:
        tensors = {"labels": labels} | image_tensors(plan, tokens, r)
    elif plan.get("encoderLength", 0) > 0:  # the decoder's: labels and tokens
        tensors = {"labels": labels, "decoder_input_ids": tokens} | encoder_tensors(plan, r)
    tensor_files.save(path, tensors)


# A mutant: (what, the path to a list or object in the plan, a function that changes what lies there).
def numbered_programs(plan):
    """Programs that run for another instance than the first, whose number is that of none."""
    calls = [call for stage in plan["stages"] for chunk in stage["chunks"] for call in chunk["calls"]]
    return {call["program"] for call in calls if call.get("instance", 0) != 0 or call.get("instanceStride", 0) != 0}


def mutants(plan):
    sizes = {axis["name"]: axis["size"] for axis in plan["mesh"]["axes"]}
    zeros, cleared, numbered = zero_results(plan), unit_gradients(plan), numbered_programs(plan)
    yield "virtualStages + 1", (), lambda p: p.update(virtualStages=p["virtualStages"] + 1)
    other = "loop" if plan.get("placement", "loop") == "v" else "v"
    yield "other placement", (), lambda p: p.update(placement=other)
    yield "sequenceLength halved", (), lambda p: p.update(sequenceLength=p["sequenceLength"] // 2)
    yield "globalBatchSize halved", (), lambda p: p.update(globalBatchSize=p["globalBatchSize"] // 2)
    yield "one microbatch less", (), lambda p: p.update(microbatches=p["microbatches"] - 1)
    if plan.get("zigzag", 1) > 1:
        yield "other order of positions", (), lambda p: p.pop("zigzag")
    # More types than the data have are no error; neither are masks, where the plan does not say whether there are any.
    types = plan.get("tokenTypes", 0)
    yield "a type of tokens less" if types else "types of tokens", (), lambda p: p.update(tokenTypes=types - 1 if types else 2)
    if plan.get("encoderLength", 0) > 0:
        yield "encoderLength halved", (), lambda p: p.update(encoderLength=p["encoderLength"] // 2)
    if "images" in plan:
        for name, other in (("token", 98), ("firstFeature", 0), ("classTokens", 0), ("rows", 1), ("columns", 1), ("patchSize", 1),
                            ("channels", 1)):
            yield f"images: {name} {other}", (), lambda p, name=name, other=other: p["images"].update({name: other})
    if any(given["kind"] in ENDS and not given.get("ofEncoder") for stage in plan["stages"] for given in stage["inputs"]):
        yield "predicts the next token", (), lambda p: p.pop("objective")
    if any("shift" in given for stage in plan["stages"] for given in stage["inputs"]):
        yield "predicts masked tokens", (), lambda p: p.update(objective="masked")
    yield "other target", (), lambda p: p.update(target={"cpu": "cuda", "cuda": "cpu"}[p["target"]])
    for name in ("dtype", "gradientType"):
        yield f"other {name}", (), lambda p, name=name: p.update({name: other_type(p[name])})
    for p, program in enumerate(plan["programs"]):
        for i, instruction in enumerate(program["instructions"]):
            if instruction["op"] == "move" and (p, instruction["operands"][0]["segment"]) in zeros:
                continue
            where, path = f"{program['name']}[{i}] {instruction['label']}", ("programs", p, "instructions")
            if not only_shifts(instruction):
                yield f"{where}: {instruction['op']} dropped", ("programs", p), lambda q, i=i: drop_item(q, "instructions", i)
            for what, change in instruction_mutants(instruction, sizes):
                if what == "no instance" and p not in numbered:
                    continue
                if what != "accumulate flipped" or (p, instruction["operands"][2]["segment"]) not in cleared:
                    yield f"{where}: {what}", (*path, i), change
        for what, change in program_mutants(program):
            yield f"{program['name']}: {what}", ("programs", p), change
    for n, parameter in enumerate(plan["parameters"]):
        for what, change in parameter_mutants(parameter, plan["mesh"]):
            yield f"parameter {parameter['name']}: {what}", ("parameters", n), change
    for s, stage in enumerate(plan["stages"]):
        for kind, changes in (("buckets", bucket_mutants), ("inputs", input_mutants), ("chunks", chunk_mutants)):
            for n, one in enumerate(stage[kind]):
                for what, change in changes(plan, stage, one):
                    yield f"stages[{s}].{kind}[{n}] {one.get('name') or one.get('kind') or one.get('task')}: {what}", ("stages", s, kind, n), change
        for n, ring in enumerate(stage["rings"]):
            for what, change in ring_mutants(plan, stage, s, ring):
                yield f"stages[{s}].rings[{n}] {ring['name']}: {what}", ("stages", s, "rings", n), change
        for what, change in schedule_mutants(plan, stage):
            yield f"stages[{s}]: {what}", ("stages", s), change


# --- Lists with repeats

def drop_item(owner, name, i):
    """The repeats have the same items as before, less the one."""
    owner[name].pop(i)
    resize(owner, i, -1)


def resize(owner, i, by):
    for repeat in owner.get("repeats", []):
        for end in ("begin", "end"):
            repeat[end] += by * (repeat[end] > i)
    owner["repeats"] = [repeat for repeat in owner.get("repeats", []) if repeat["begin"] < repeat["end"]]


def repeat_mutants(owner, is_idle=lambda item: False):
    """is_idle: whether an item that runs once more changes nothing."""
    for n, repeat in enumerate(owner.get("repeats", [])):
        what = f"repeat {n} [{repeat['begin']}, {repeat['end']})"
        for name in ("count", "begin", "end"):
            for more in (-1, 1):
                if (name, more) in (("begin", -1), ("end", 1)) and is_idle(repeat["end"] if name == "end" else repeat["begin"] - 1):
                    continue
                yield f"{what} {name} {more:+}", lambda o, n=n, name=name, more=more: o["repeats"][n].update({name: o["repeats"][n][name] + more})
        yield f"{what} dropped", lambda o, n=n: o["repeats"].pop(n)


def is_repeated(owner, i):
    return any(repeat["begin"] <= i < repeat["end"] for repeat in owner.get("repeats", []))


def program_mutants(program):
    yield from repeat_mutants(program)
    for i, instruction in enumerate(program["instructions"]):
        for n in range(len(instruction["operands"]) if is_repeated(program, i) and not only_shifts(instruction) else 0):
            for more in (-64, 64):
                yield (f"[{i}] {instruction['label']}: stride of operand {n} {more:+}",
                       lambda q, i=i, n=n, more=more: add(q["instructions"][i]["operands"][n], "stride", more))


def add(owner, name, more):
    owner[name] = owner.get(name, 0) + more


def unproved_mutants(plan):
    """Facts that nothing reads but proofs: of the numbers of values and of frames."""
    for p, program in enumerate(plan["programs"]):
        for i, instruction in enumerate(program["instructions"]):
            for n, operand in enumerate(instruction["operands"]):
                if operand.get("value", -1) >= 0:
                    yield (f"{program['name']}[{i}] {instruction['label']}: value of operand {n} + 1", ("programs", p, "instructions", i, "operands", n),
                           lambda o: o.update(value=o["value"] + 1))
        if program.get("frame", -1) >= 0:
            yield f"{program['name']}: frame - 1", ("programs", p), lambda q: q.update(frame=q["frame"] - 1)
            yield f"{program['name']}: no frame", ("programs", p), lambda q: q.pop("frame")


def other_type(name):
    return "f32" if name == "bf16" else "bf16"


def zero_results(plan):
    """(program, segment) that are the loss and the tokens of stages without labels, or terms of those that have none: zeros,
    wherever they are moved."""
    found = set()
    for stage in plan["stages"]:
        kinds = {given["kind"] for given in stage["inputs"]}
        zeros = ([] if "labels" in kinds else [0, 4]) + ([] if "stepTokens" in kinds else [12, 16, 20])
        zeros += [] if "lossShares" in kinds else [24]
        results = {stage["resultsOffset"] + offset for offset in zeros}
        found |= {(call["program"], n) for chunk in stage["chunks"] for call in chunk["calls"]
                  for n, bound in enumerate(call["segments"]) if bound["slot"] < 0 and bound["offset"] in results}
    return found


def unit_gradients(plan):
    """(program, segment) of gradients that are zero before the call: what stores does what adds does."""
    found = set()
    for stage in plan["stages"]:
        units = [(region["offset"], region["offset"] + region["bytes"]) for region in stage["regions"] if region["kind"] == "units"]
        found |= {(call["program"], n) for chunk in stage["chunks"] for call in chunk["calls"] for n, bound in enumerate(call["segments"])
                  if bound["slot"] < 0 and any(begin <= bound["offset"] < end for begin, end in units)}
    return found


def only_shifts(instruction):
    """The maximum of the logits: any number in its place that is the same on all ranks gives the same, to rounding."""
    return instruction["op"] == "rowKernel" and instruction["label"].endswith("/max")


def instruction_mutants(instruction, sizes):
    kind = instruction["op"]
    if kind == "collective":
        yield from collective_mutants(instruction, sizes)
    if kind == "hostCopy":
        yield "other direction", lambda i: i.update(direction={"in": "out", "out": "in"}[i["direction"]])
        yield "less is copied", lambda i: add(i, "bytes", -64)
    if kind == "move" and "axes" in instruction:
        yield from axes_mutants(instruction, sizes)
    if kind == "gemm":
        yield "no such path", lambda i: i.update(path="diagonals")  # the others give the same, to rounding
        for name in ("inputType", "outputType"):
            yield f"other {name}", lambda i, name=name: i.update({name: other_type(i.get(name))})
        yield "accumulate flipped", lambda i: i.update(accumulate=not i.get("accumulate", False))
        # A vector is its own transpose.
        for name, matrix in (("transposeA", ("m", "k")), ("transposeB", ("k", "n"))):
            if min(instruction[size] for size in matrix) > 1:
                yield f"{name} flipped", lambda i, name=name: i.update({name: not i.get(name, False)})
    if kind == "attention":
        yield from attention_mutants(instruction)
    if kind == "rowKernel":
        yield "one row less", lambda i: i.update(range=i["range"] - 1)
        yield from use_mutants(instruction["uses"])
        for n, scalar in enumerate([] if only_shifts(instruction) else instruction.get("scalars", [])):
            yield from scalar_mutants(f"scalar {n}", lambda i, n=n: i["scalars"][n], scalar, sizes)


def use_mutants(uses):
    """Mutants of a row kernel's operand uses, as it was compiled."""
    yield "one use less", lambda i: i["uses"].pop()
    for n, one in enumerate(uses):
        other = {"read": "written", "written": "updated", "updated": "read"}[one["use"]]
        yield f"operand {n} is {other}", lambda i, n=n, other=other: i["uses"][n].update(use=other)
        yield f"operand {n} has other bytes", lambda i, n=n: add(i["uses"][n], "bytes", -(i["uses"][n].get("rowBytes") or 4))
        yield f"operand {n} is counted or not", lambda i, n=n: i["uses"][n].update(counted=not i["uses"][n].get("counted"))
        if "rowStride" in one:
            yield f"rows of operand {n} further apart", lambda i, n=n: add(i["uses"][n], "rowStride", 4)


def collective_mutants(collective, sizes):
    operands = collective["operands"]
    # Again has an effect where the result is the source, except for a maximum: that of equal numbers is the number.
    if operands[0] == operands[1] and collective.get("reduce") != "max":
        yield "doubled", lambda i: i.update(chunk=i["chunk"], operands=i["operands"], again=True)
    # The sum of what just shifts (only_shifts) does so as well.
    if collective["kind"] in ("all_reduce", "reduce_scatter") and collective.get("reduce") != "max":
        yield "reduces with max", lambda i: i.update(reduce="max")
    if collective["type"] != "i32":
        yield "other type", lambda i: i.update(type=other_type(i["type"]))
    if "axes" in collective:
        yield from axes_mutants(collective, sizes)
    # The reverse is the same where there is one chunk or one block.
    if collective["kind"] == "all_to_all" and collective.get("middle", 1) > 1:
        yield "splits the other dimension", lambda i: i.update(splitsInner=not i.get("splitsInner", False))
    if "stages" in collective:
        yield "one stage less", lambda i: i["stages"].pop()


def axes_mutants(instruction, sizes):
    for axis in sizes:
        if [axis] != instruction["axes"]:
            yield f"over {axis}", lambda i, axis=axis: i.update(axes=[axis])
    if len(instruction["axes"]) > 1:
        for n, axis in enumerate(instruction["axes"]):
            yield f"without {axis}", lambda i, n=n: i["axes"].pop(n)


def attention_mutants(attention):
    yield "scale doubled", lambda i: i.update(scale=2 * i["scale"])
    yield "other type", lambda i: i.update(type=other_type(i.get("type")))
    # The library may use nothing of 64 bytes, which an operand always has; beyond 1 MiB it is a bound of what it may take. Parts are
    # padded to 256 bytes.
    if 64 < attention["workspaceBytes"] < 1 << 20:
        yield "less workspace", lambda i: i.update(workspaceBytes=max(i["workspaceBytes"] - 256, 0))
    yield "window of 2", lambda i: i.update(window=2)
    if attention.get("resultsInF32"):
        yield "results of the type", lambda i: i.pop("resultsInF32")
    yield "other causality", lambda i: i.update(causal=not i.get("causal", True))
    yield "softcap of 1", lambda i: i.update(softcap=1)
    if attention.get("softcap"):
        yield "no softcap", lambda i: i.pop("softcap")
    for head in range(len(attention.get("slopes", []))):
        yield f"slope {head} doubled", lambda i, head=head: i["slopes"].__setitem__(head, 2 * i["slopes"][head])
    if attention.get("slopes"):
        yield "no slopes", lambda i: i.pop("slopes")
        yield "a slope less", lambda i: i["slopes"].pop()
    if attention.get("biasBuckets"):
        yield "another distance of the bias", lambda i: i.update(biasMaxDistance=i["biasMaxDistance"] + 1)
        yield "no bias", lambda i: (i.pop("biasBuckets"), i.pop("biasMaxDistance"))
    if attention.get("documents"):
        yield "one document", lambda i: i.pop("documents")
    if attention.get("ends"):
        yield "no ends", lambda i: i.pop("ends")
    # With one row the stride does not matter.
    for name in ("qStride", "kStride", "vStride", "dqStride", "dkStride", "dvStride"):
        positions = attention["s" if "q" in name else "t"]
        if name in attention and positions * attention["b"] * attention["g"] > 1:
            yield f"no {name}", lambda i, name=name: i.pop(name)
            yield f"{name} less", lambda i, name=name: i.update({name: i[name] - 1})
            yield f"{name} more", lambda i, name=name: i.update({name: i[name] + 1})
    if attention.get("dropout"):
        yield "dropout doubled", lambda i: i.update(dropout=2 * i["dropout"])
        yield "another site", lambda i: i.update(site=i.get("site", 0) + 1)
        yield "no instance", lambda i: i.update(instance={"kind": "linear"})
        yield "no seed", lambda i: i.update(seed={"kind": "linear"})
    if attention.get("dropout") or attention.get("slopes"):
        if attention.get("headOffset", {}).get("terms"):
            yield "no head offset", lambda i: i.pop("headOffset")
        if attention["g"] > 1:
            yield "group stride doubled", lambda i: i.update(groupStride=2 * i["groupStride"])


def scalar_mutants(name, of, scalar, sizes):
    if scalar["kind"] != "linear":
        yield f"{name} is 5", lambda i: (of(i).clear(), of(i).update(kind="linear", value=5))
    for t, term in enumerate(scalar.get("terms", [])):
        yield f"{name} doubled", lambda i, t=t: of(i)["terms"][t].update(scale=2 * of(i)["terms"][t]["scale"])
        for axis in sizes:
            if [axis] != term["axes"]:
                yield f"{name} of {axis}", lambda i, t=t, axis=axis: of(i)["terms"][t].update(axes=[axis])


def rows_mutants(parameter, mesh):
    """Mutants of a part of a matrix: another row of it, another width, rows over other dimensions."""
    yield "by itself", lambda p: p.pop("rows")
    for name in ("offset", "extent"):
        for more in (-1, 1):
            yield f"rows.{name} {more:+}", lambda p, name=name, more=more: p["rows"].update({name: p["rows"][name] + more})
    sizes = {axis["name"]: axis["size"] for axis in mesh["axes"]}
    local = [dim["size"] // math.prod(sizes[a] for axis in dim.get("axes", []) for a in mesh["named"].get(axis, [axis]))
             for dim in parameter["dims"]]
    dims = parameter["rows"]["dims"]
    for other in range(len(local) + 1):  # over dimensions of one index more or less the rows are the same
        if math.prod(local[min(dims, other):max(dims, other)]) > 1:
            yield f"rows over {other} dimensions", lambda p, other=other: p["rows"].update(dims=other)


def parameter_mutants(parameter, mesh):
    other = {"normal": "zeros", "zeros": "ones", "ones": "zeros"}[parameter["init"]]
    yield f"starts with {other}", lambda p: p.update(init=other)
    if parameter["init"] == "normal":
        yield "starts larger", lambda p: p.update(initStd=2 * p.get("initStd", 0.02))
    for j, offset in enumerate(parameter["offset"]):
        if offset:
            yield "another part of the file's tensor", lambda p, j=j: p["offset"].__setitem__(j, 0)
    for d, dim in enumerate(parameter["dims"]):
        if "axes" in dim:
            yield f"{dim['name']} is not split", lambda p, d=d: p["dims"][d].pop("axes")
        if dim["valid"] < dim["size"]:
            yield f"{dim['name']} has no padding", lambda p, d=d: p["dims"][d].update(valid=p["dims"][d]["size"])
    for n in range(len(parameter["places"])):
        yield f"place {n} elsewhere", lambda p, n=n: p["places"][n].update(elementOffset=p["places"][n]["elementOffset"] + 16)
    for n, place in enumerate(parameter["places"]):
        if "{}" in parameter["name"]:
            for name, least in (("first", 0), ("count", 1)):
                for more in (-1, 1):
                    yield f"place {n} {name} {more:+}", lambda p, n=n, name=name, least=least, more=more: p["places"][n].update({name: p["places"][n].get(name, least) + more})
        if place.get("count", 1) > 1:
            for more in (-16, 16):
                yield f"place {n} stride {more:+}", lambda p, n=n, more=more: add(p["places"][n], "stride", more)
    for n in range(len(parameter["places"])):
        for more in (-1, 1):
            yield f"place {n} uses {more:+}", lambda p, n=n, more=more: p["places"][n].update(uses=p["places"][n].get("uses", 1) + more)
    if "rows" in parameter:
        yield from rows_mutants(parameter, mesh)
    if len(parameter["places"]) > 1:
        yield "not tied" if "{}" not in parameter["name"] else "a place less", lambda p: p["places"].pop()


STATE_ROLES = {"value", "gradient", "gradientSlice", "master", "optimizer", "unitGradient", "unitValue", "gatheredValue"}
BUCKET_USES = {"trained", "routerBias", "loadCounter", "frozen"}


def bucket_mutants(plan, stage, bucket):
    if bucket.get("shardAxes"):
        yield "not sharded", lambda b: b.pop("shardAxes")
        for more in (-1, 1):
            yield f"units {more:+}", lambda b, more=more: b.update(units=b.get("units", 1) + more)
    for name in ("splitAxes", "dataAxes", "tiedStages"):
        if name in bucket:
            yield f"no {name}", lambda b, name=name: b.pop(name)
    for n, state in enumerate(bucket["states"]):
        name = state["name"]
        yield f"other {name}", lambda b, n=n: add(b["states"][n], "offset", 64)
        if "hostElements" in state:
            yield f"{name} elsewhere on the host", lambda b, n=n: add(b["states"][n], "hostOffset", 64)
            yield f"fewer of {name} on the host", lambda b, n=n: add(b["states"][n], "hostElements", -16)
            yield f"{name} on the device", lambda b, n=n: [b["states"][n].pop(key) for key in ("hostElements", "hostOffset")]
        yield f"no {name}", lambda b, n=n: b["states"].pop(n)
        yield f"{name} of another type", lambda b, n=n: b["states"][n].update(
            type={"f32": "bf16", "bf16": "f32"}[b["states"][n].get("type", "f32")])
        yield f"{name} in slices, or whole", lambda b, n=n: b["states"][n].update(sliced=not b["states"][n].get("sliced", False))
        for role in STATE_ROLES - {state.get("role", "value")}:
            yield f"{name} as {role}", lambda b, n=n, role=role: b["states"][n].update(role=role)
    yield "another state", lambda b: b["states"].append(dict(b["states"][-1], name="momentum_buffer", role="optimizer"))
    for use in BUCKET_USES - {bucket.get("use", "trained")}:
        yield f"use {use}", lambda b, use=use: b.update(use=use)
    if "meanLoad" in bucket:
        yield "no meanLoad", lambda b: b.pop("meanLoad")


def input_mutants(plan, stage, given):
    other = {"tokens": "labels", "labels": "tokens", "positions": "tokens", "keyPositions": "tokens",
             "tokenTypes": "tokens", **DOCUMENTS, **ENDS, **ENCODER_ENDS, **IMAGES}.get(given["kind"])
    if other:
        yield f"are {other}", lambda i: i.update(kind=other)
    if given.get("ofEncoder"):
        yield "are of the decoder", lambda i: i.pop("ofEncoder")
    for ring in range(len(stage["rings"])):
        if ring != given["ring"]:
            yield f"in ring {ring}", lambda i, ring=ring: i.update(ring=ring)
    for d, dim in enumerate(given["dims"]):
        if "axes" in dim:
            yield f"{dim['name']} is not split", lambda i, d=d: i["dims"][d].pop("axes")


def flat_calls(chunk):
    """The chunk's calls one by one, without repeats."""
    calls = []
    for call, iteration in plan_lists.runs(chunk["calls"], chunk.pop("repeats", [])):
        call = copy.deepcopy(call)
        add(call, "instance", iteration * call.pop("instanceStride", 0))
        for segment in call["segments"]:
            segment["offset"] += iteration * segment.pop("stride", 0)
        calls.append(call)
    chunk["calls"] = calls
    return calls


def reads_instance(plan, call):
    return any(i.get("dropout") or any(scalar["kind"] == "instance" for scalar in i.get("scalars", []))
               for i in plan["programs"][call["program"]]["instructions"])


def adds_to_gradients(stage, chunk, call):
    gradients = [region for region in stage["regions"] if region["kind"] == "gradients"]
    return chunk["task"] in ("backward", "input", "weight") and any(
        segment["slot"] < 0 and region["offset"] <= segment["offset"] < region["offset"] + region["bytes"]
        for segment in call["segments"] for region in gradients)


def call_again(calls, c):
    calls.insert(c + 1, copy.deepcopy(calls[c]))
    add(calls[c + 1], "instance", 1)


def chunk_mutants(plan, stage, chunk):
    other = {"begin": "update", "forward": "backward", "backward": "forward", "input": "weight", "weight": "input",
             "reduce": "begin", "update": "reduce", "gradients": "reduce"}[chunk["task"]]
    yield f"is {other}", lambda k: k.update(task=other)
    yield "of the next virtual stage", lambda k: k.update(virtualStage=k.get("virtualStage", 0) + 1)
    calls = flat_calls(copy.deepcopy(chunk))
    for c in range(len(calls)):
        yield f"call {c} dropped", lambda k, c=c: flat_calls(k).pop(c)
        if adds_to_gradients(stage, chunk, calls[c]):
            yield f"call {c} again, for the next instance", lambda k, c=c: call_again(flat_calls(k), c)
    # The weight halves of blocks need nothing of one another; a call that does nothing may come when it likes.
    if sum(bool(plan["programs"][call["program"]]["instructions"]) for call in calls) > 1 and chunk["task"] != "weight":
        yield "calls reversed", lambda k: flat_calls(k).reverse()
    # Values of a unit that are gathered again are overwritten by the next, or are the same.
    is_gather = lambda c: 0 <= c < len(chunk["calls"]) and ".gather." in plan["programs"][chunk["calls"][c]["program"]]["name"]
    yield from repeat_mutants(chunk, is_gather)
    for c, call in enumerate(chunk["calls"]):
        yield from call_mutants(plan, chunk, c, call)
    # Positions may lie before those of the keys, which have the same numbers when neither is split.
    positions = {given["ring"] for given in stage["inputs"] if given["kind"] in ("positions", "keyPositions")}
    bound = {segment["slot"] for call in calls for segment in call["segments"]}
    for n, slot in enumerate(chunk.get("slots", [])):
        ring = (slot + 1) % len(stage["rings"])
        if n in bound and not {slot, ring} <= positions:
            yield f"slot {n} is ring {ring}", lambda k, n=n, ring=ring: k["slots"].__setitem__(n, ring)


def call_mutants(plan, chunk, c, call):
    if reads_instance(plan, call):
        yield f"call {c} instance + 1", lambda k: add(k["calls"][c], "instance", 1)
    if not is_repeated(chunk, c):
        return
    if reads_instance(plan, call):
        for more in (-1, 1):
            yield f"call {c} instanceStride {more:+}", lambda k, more=more: add(k["calls"][c], "instanceStride", more)
    for n, segment in enumerate(call["segments"]):
        if "stride" in segment:
            for more in (-64, 64):
                yield f"call {c} stride of segment {n} {more:+}", lambda k, n=n, more=more: add(k["calls"][c]["segments"][n], "stride", more)


def ring_mutants(plan, stage, index, ring):
    slots = max(turn["first"] + turn["slots"] for turn in ring.get("turns", [{"first": 0, "slots": 1}]))
    yield "over the parameters", lambda r: r.update(offset=0)
    if slots > 1:
        yield "slots overlap", lambda r: r.update(stride=r["stride"] - 64)
        yield "one slot", lambda r: r.update(turns=[{"first": 0, "slots": 1, "phase": 0}])
    for n, turn in enumerate(ring.get("turns", [])):
        yield f"turn {n} far away", lambda r, n=n: add(r["turns"][n], "first", 1 << 20)
        if turn["slots"] > 1:
            yield f"turn {n} one slot less", lambda r, n=n: r["turns"][n].update(slots=r["turns"][n]["slots"] - 1, phase=0)
            if shares_slots(stage, ring):
                yield f"turn {n} phase + 1", lambda r, n=n: r["turns"][n].update(phase=(r["turns"][n]["phase"] + 1) % r["turns"][n]["slots"])
    if ring.get("peer", -1) >= 0:
        for name in ("peer", "value"):
            for more in (-1, 1):
                yield f"{name} {more:+}", lambda r, name=name, more=more: add(r, name, more)
        yield "other bytes", lambda r: add(r, "bytes", -4)


def shares_slots(stage, ring):
    """With another ring: else the slots of all its microbatches may be one further."""
    return sum(other["offset"] == ring["offset"] for other in stage["rings"]) > 1


# --- Steps

def flat_steps(stage):
    """The steps that run, one by one; waits are the steps themselves."""
    steps = []
    for step, iteration in plan_lists.runs(stage["schedule"], stage.pop("repeats", [])):
        step = dict(step)
        if "microbatch" in step:
            step["microbatch"] += iteration * step.pop("stride", 0)
        step["waits"] = [steps[len(steps) - distance] for distance in step.get("waits", [])]
        steps.append(step)
    return steps


def with_steps(change):
    """A change of the flat list; waits for steps that are gone go too."""
    def changed(stage):
        steps = flat_steps(stage)
        change(steps)
        number = {id(step): i for i, step in enumerate(steps)}
        stage["schedule"] = [step | {"waits": [i - number[id(wait)] for wait in step["waits"] if id(wait) in number]}
                             for i, step in enumerate(steps)]
    return changed


def swap(steps, i):
    steps[i], steps[i + 1] = steps[i + 1], steps[i]


def described(i, step):
    return f"{i} {step['kind']} microbatch {step.get('microbatch', -1)}"


def schedule_mutants(plan, stage):
    yield from repeat_mutants(stage)
    for i, step in enumerate(stage["schedule"]):
        for what, change in step_mutants(plan, stage, i):
            yield f"schedule[{described(i, step)}]: {what}", change
    steps = flat_steps(copy.deepcopy(stage))
    for i, step in enumerate(steps):
        yield f"step {described(i, step)}: dropped", with_steps(lambda l, i=i: l.pop(i))
        if "microbatch" in step:
            yield f"step {described(i, step)}: other microbatch", with_steps(lambda l, i=i: l[i].update(microbatch=l[i]["microbatch"] ^ 1))
        if i + 1 < len(steps) and order_matters(stage, steps, i):
            yield f"step {described(i, step)}: swapped with the next", with_steps(lambda l, i=i: swap(l, i))


def step_mutants(plan, stage, i):
    """Mutants of a step of the list, in all iterations of its repeat."""
    step = stage["schedule"][i]
    if "callCount" in step:  # a part of a chunk's calls
        for name in ("firstCall", "callCount"):
            for more in (-1, 1):
                yield f"{name} {more:+}", lambda s, name=name, more=more: add(s["schedule"][i], name, more)
    for n, wait in enumerate(step.get("waits", []) if does_something(plan, stage, step) else []):
        yield f"wait {wait} dropped", lambda s, n=n: s["schedule"][i]["waits"].pop(n)
        if not stage["schedule"][i - wait].get("paired"):  # the first of a pair is done when both are
            yield f"wait {wait} + 1", lambda s, n=n: s["schedule"][i]["waits"].__setitem__(n, s["schedule"][i]["waits"][n] + 1)
        if wait == 1:  # a later step than the one may imply it
            yield f"wait {wait} - 1", lambda s, n=n: s["schedule"][i]["waits"].__setitem__(n, 0)
    if step["kind"] != "run":
        for ring in range(len(stage["rings"])):
            if ring != step["ring"]:
                yield f"ring {ring}", lambda s, ring=ring: s["schedule"][i].update(ring=ring)
    if is_repeated(stage, i):
        for more in (-1, 1):
            yield f"stride {more:+}", lambda s, more=more: add(s["schedule"][i], "stride", more)


def calls_of(stage, step):
    """The calls of a run: a part of a chunk's calls."""
    calls, first = flat_calls(copy.deepcopy(stage["chunks"][step["chunk"]])), step.get("firstCall", 0)
    return calls[first : first + step.get("callCount", len(calls))]


def does_something(plan, stage, step):
    return step["kind"] != "run" or any(plan["programs"][call["program"]]["instructions"] for call in calls_of(stage, step))


def places_of(stage, step):
    """Where in the allocation itself the step's calls bind their segments."""
    bound = (segment for call in calls_of(stage, step) for segment in call["segments"])
    return {segment["offset"] for segment in bound if segment["slot"] < 0}


def order_matters(stage, steps, i):
    """Whether a step and the next must keep their order. Runs of two microbatches may be legal either way; so may `weight` and a
    run of another chunk, `begin` and a forward that makes no loss, and one of `gradients`, which only waits order, and another."""
    step, following = steps[i : i + 2]
    if step["kind"] != following["kind"]:
        return False
    if step["kind"] != "run":
        return stage["rings"][step["ring"]]["peer"] == stage["rings"][following["ring"]]["peer"]
    tasks = [stage["chunks"][one["chunk"]]["task"] for one in (step, following)]
    if tasks.count("gradients") == 1:
        return any(wait is step for wait in following["waits"])
    if tasks[0] == "begin":
        return bool(places_of(stage, step) & places_of(stage, following))
    if "weight" in tasks and len({stage["chunks"][one["chunk"]].get("virtualStage", 0) for one in (step, following)}) == 2:
        return False
    microbatches = {one.get("microbatch", -1) for one in (step, following)}
    return len(microbatches) == 1 or -1 in microbatches


def mutate(document, path, change):
    mutant = copy.deepcopy(document)
    target = mutant["plan"]
    for key in path:
        target = target[key]
    change(target)
    for program in mutant["plan"]["programs"]:  # "again" is not of the format
        for i, instruction in reversed(list(enumerate(program["instructions"]))):
            if instruction.pop("again", False):
                program["instructions"].insert(i, copy.deepcopy(instruction))
                resize(program, i, 1)
    return mutant


class Judge:
    def __init__(self, options, folder):
        self.bin, self.plan, self.data = options.bin.resolve(), options.plan.resolve(), folder / "data.safetensors"
        plan = read(self.plan)["plan"]
        write_batches(self.data, plan)
        has_load = any("meanLoad" in bucket for stage in plan["stages"] for bucket in stage["buckets"])
        self.flags = ["--moe-per-layer-logging"] if has_load else []
        self.baseline = self.outcome(self.plan)
        if isinstance(self.baseline, str):
            raise SystemExit(f"the plan itself fails: {self.baseline}")
        if (again := self.verdict(read(self.plan))) != ("survives", "nothing differs"):
            raise SystemExit(f"the plan itself, read and written again, {' '.join(again)}")

    def outcome(self, plan):
        """The result of a run, or how it was refused."""
        with tempfile.TemporaryDirectory(prefix="mgc-mutant-") as folder:
            where = pathlib.Path(folder)
            for command in ([self.bin / "mgc", "explain", plan, "--json"],
                            [self.bin / "mgrun", plan, "--data", self.data, "--train-iters", str(STEPS), "--seed", "3", "--lr", "1e-2",
                             "--lr-decay-style", "constant", "--clip-grad", "0.1", "--log", where / "log", "--save",
                             where / "weights", "--save-gradients", where / "gradients", "--timeout", WAIT, *self.flags]):
                try:
                    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
                except subprocess.TimeoutExpired:
                    return "hangs"
                if done.returncode not in (0, 1):
                    return f"crashes with {done.returncode}: {' '.join(map(str, command))}"
                if done.returncode:
                    return f"refused: {done.stderr.strip()[:300]}"
            steps = [json.loads(line) for line in open(where / "log")]
            return ([(r["loss"], r["grad_norm"], r["tokens"], r.get("tokens_per_expert")) for r in steps],
                    {n: t.tobytes() for n, t in tensor_files.load(where / "gradients").items()},
                    {n: t.tobytes() for n, t in tensor_files.load(where / "weights" / "model.safetensors").items()})

    def verdict(self, mutant):
        with tempfile.TemporaryDirectory(prefix="mgc-mutant-") as folder:
            plan = pathlib.Path(folder) / "plan"
            shutil.copytree(self.plan, plan)
            write(mutant, plan)
            found = self.outcome(plan)
        if isinstance(found, str):
            return ("bad" if found.startswith(("hangs", "crashes")) else "refused"), found
        return ("survives", "nothing differs") if found == self.baseline else ("differs", "")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default="build/release/bin")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--plan", type=pathlib.Path)
    what.add_argument("--model", choices=sorted(MODELS), help="a small model of this name, compiled here")
    add_choice(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mgc-mutant-") as folder:
        if options.model:
            options.plan = compiled(options.bin.resolve(), options.model, pathlib.Path(folder))
        sys.exit(judge_all(options, pathlib.Path(folder)))


def add_choice(parser):
    """Flags that say which mutants are tried, and how."""
    parser.add_argument("--sample", type=int, default=0, help="0: all")
    parser.add_argument("--seed", type=int, default=samples.seed(), help="of the sample")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--unproved", action="store_true", help="facts that a run does not read: they are for proofs")
    parser.add_argument("--only", default="", help="mutants that have this in their name")
    parser.add_argument("--verbose", action="store_true", help="list every mutant")


def compiled(binaries, name, folder, more=()):
    config, flags = MODELS[name]
    (folder / "config.json").write_text(json.dumps(config))
    subprocess.run([binaries / "mgc", "compile", "config.json", "-o", "plan", *flags.split(), *more], cwd=folder, check=True,
                   capture_output=True)
    return folder / "plan"


def judge_all(options, folder):
    judge, document = Judge(options, folder), read(options.plan)
    facts = unproved_mutants if options.unproved else mutants
    everything = [m for m in facts(document["plan"]) if options.only in m[0]]
    if options.sample and options.sample < len(everything):
        everything = random.Random(options.seed).sample(everything, options.sample)
    counts = {"refused": 0, "differs": 0, "survives": 0, "bad": 0}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        judged = pool.map(lambda m: judge.verdict(mutate(document, m[1], m[2])), everything)
        for (what, *_), (verdict, why) in zip(everything, judged):
            counts[verdict] += 1
            if options.verbose or verdict in ("survives", "bad"):
                print(f"{what}: {verdict}: {why}", flush=True)
    print(f"{len(everything)} mutants: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items()))
    return 1 if counts["survives"] or counts["bad"] or not everything else 0


if __name__ == "__main__":
    main()
