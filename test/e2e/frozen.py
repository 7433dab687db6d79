#!/usr/bin/python3
"""Trains golden models of which parts are frozen (mgc compile --freeze), in layouts of golden.py, and compares with the reference of the
whole model: the loss of the first step and the gradients of what is trained, the norm of these alone, and after all steps the bits of
what is frozen. Memory must not grow, and gradients of frozen tensors must not be written.

    frozen.py --bin build/release/bin
    frozen.py --bin build/release/bin --model gpt2 --layouts sample:20
    frozen.py --bin build/release/bin --dtype bf16       the bits alone: values of a checkpoint of bf16
"""
import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile

import numpy

import compare
import golden
import layouts
import tensor_files

# By model: words of --freeze, and patterns of the tensors that these freeze.
CASES = {
    "gpt2": (  # wte is the head's matrix too
        ("head", ("transformer.wte.*",)),
        ("embeddings,layers:0-2", ("transformer.wte.*", "transformer.wpe.*", "transformer.h.[012].*")),
        ("layers", ("transformer.h.*",)),
        ("embeddings,layers,transformer.ln_f.weight", ("transformer.w*", "transformer.h.*", "transformer.ln_f.weight")),
        ("*.bias", ("*.bias",)),
        ("transformer.h.2.attn.c_attn.weight,layers:0", ("transformer.h.2.attn.c_attn.weight", "transformer.h.0.*"))),
    "llama": (
        ("embeddings,layers:0-1", ("model.embed_tokens.*", "model.layers.[01].*")),
        ("embeddings,layers,norm", ("model.*",)),
        ("head", ("lm_head.*",)),
        ("*.q_proj.*,layers:1-2", ("*.q_proj.*", "model.layers.[12].*")),
        ("embeddings,model.layers.0.self_attn.k_proj.*", ("model.embed_tokens.*", "model.layers.0.self_attn.k_proj.*"))),
    "llama_tied_rope3": (
        ("embeddings", ("model.embed_tokens.*",)),
        ("layers:1-3,norm", ("model.layers.[123].*", "model.norm.*"))),
    "bert": (
        ("embeddings,layers:0-1", ("bert.embeddings.*", "bert.encoder.layer.[01].*", "cls.predictions.decoder.weight")),
        ("layers:2", ("bert.encoder.layer.2.*",))),
    "mixtral": (
        ("embeddings,layers:0", ("model.embed_tokens.*", "model.layers.0.*")),
        ("*.experts.*", ("*.experts.*",)),
        ("*.gate.weight,layers:3", ("*.gate.weight", "model.layers.3.*"))),
    "mixtral_balance": (("embeddings,layers:0-1", ("model.embed_tokens.*", "model.layers.[01].*")),),
    "mixtral_aux": (("embeddings,layers:0-1", ("model.embed_tokens.*", "model.layers.[01].*")),),
    "deepseek_v3_mtp2": (
        ("mtp", ("model.layers.[45].*",)),
        ("embeddings,layers,norm,head", ("model.embed_tokens.*", "model.layers.[0123].*", "model.norm.*", "lm_head.*"))),
}


def frozen_names(start, patterns):
    return {name for name in start if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)}


def memory_of(options, plan):
    done = subprocess.run([os.path.join(options.bin, "mgc"), "explain", plan, "--json"], capture_output=True, text=True, check=True)
    explained = json.loads(done.stdout)
    return sum(stage["bytes"] for stage in explained["stages"]), explained


def bf16(tensor):
    """Rounded to nearest, ties to even."""
    bits = tensor.astype(numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(numpy.uint32).view(numpy.float32)


def compare_first_step(expect, found, log):
    """The first step, with gradients of trained tensors only."""
    norm = numpy.sqrt(sum(float(numpy.square(g, dtype=numpy.float64).sum()) for g in found["wanted"].values()))
    comparisons = [("loss of step 0", abs(log[0]["loss"] - expect["loss_f64"][0]), 4 * expect["loss_spread"][0] + 1e-6),
                   ("grad_norm of step 0", abs(log[0]["grad_norm"] - norm), compare.NORM_TOLERANCE * norm)]
    return comparisons + compare.compare_gradients(expect, found["wanted"], found["gradients"])


def check(options, model, layout, words, patterns, folder):
    """The comparisons of one run, as compare.py's."""
    frozen = frozen_names(model.start, patterns)
    made = {}
    for name, flags in (("whole", []), ("part", ["--freeze", words])):
        os.makedirs(os.path.join(folder, name))
        made[name], error = golden.compile_plan(options, model, layout, os.path.join(folder, name), *flags)
        if error:
            return [(error, 1, 0)]
    (before, _), (after, explained) = memory_of(options, made["whole"]), memory_of(options, made["part"])
    comparisons = [("bytes of a rank", after, before)] if layout.pp == 1 else []  # else stages have other layers
    if explained["trained_parameters"] >= explained["parameters"]:
        comparisons.append(("parameters that are trained", explained["trained_parameters"], explained["parameters"] - 1))
    error = golden.run_training(options, model, made["part"], folder, [*golden.one_thread(options), "--poison"])
    if error:
        return [(error, 1, 0)]
    gradients, weights = (tensor_files.load(os.path.join(folder, name)) for name in golden.RESULTS)
    # Biases of routers are f32 in plans of bf16.
    rounded = lambda name: bf16(model.start[name]) if options.dtype == "bf16" and name not in model.expect["untrained"] else model.start[name]
    comparisons += compare.compare_bits("frozen weight", {name: rounded(name) for name in frozen},
                                        {name: weights[name] for name in frozen if name in weights})
    moved = [name for name in weights if name in model.gradients and name not in frozen
             and model.gradients[name].any() and (weights[name] == rounded(name)).all()]
    comparisons += [(f"weight {name} is trained, but has not moved", 1, 0) for name in moved]
    comparisons += [(f"gradient {name} of a frozen tensor", 1, 0) for name in frozen if name in gradients]
    if options.dtype == "f32":
        untrained = model.expect["untrained"]
        found = {"wanted": {n: g for n, g in model.gradients.items() if n not in frozen},
                 "gradients": {n: g for n, g in gradients.items() if n not in untrained}}
        comparisons += compare_first_step(model.expect, found, golden.read_lines(os.path.join(folder, "log.jsonl")))
    return comparisons


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     parents=[golden.options_of_runs()])
    parser.add_argument("--model", action="append", choices=CASES, help="default: all; may be repeated")
    parser.add_argument("--layouts", default="sample:2", help=layouts.select.__doc__)
    options = parser.parse_args()
    options.bin = os.path.abspath(options.bin)
    failed = count = 0
    for model in map(golden.Golden, options.model or CASES):
        for number, (words, patterns) in enumerate(CASES[model.model]):
            text = options.layouts + (f":{number}" if options.layouts.count(":") == 1 else "")
            for layout in golden.layouts_of(model, text):
                with tempfile.TemporaryDirectory(prefix="mgc-frozen-") as folder:
                    failures = compare.beyond(check(options, model, layout, words, patterns, folder))
                count += 1
                if failures:
                    failed += 1
                    golden.report(f"{model.model} --freeze {words}", layout, failures)
    print(f"{count - failed} of {count} runs agree with the reference")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
