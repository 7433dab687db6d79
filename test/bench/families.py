#!/usr/bin/env python3
# Compile time of each family of models relative to Llama's.
#
#   test/bench/families.py --bin build/release/bin [--runs 5] [--model gemma2 ..]
#
# Every model of test/e2e/zoo at the sizes of an 8B Llama (32 layers, hidden 4096, 32 heads of 128, feed-forward 14336,
# vocabulary 128256) is compiled for tp 8, pp 4 and dp 8, each time right before Llama: the figure is the median of the
# rounds' ratios of processor time, goal at most 1.2. Models with experts have 8 on each layer that has any.
import argparse
import os
import pathlib
import re
import statistics
import sys
import tempfile

import compile as bench

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import zoo  # noqa: E402

GOAL = 1.2
LAYERS, HIDDEN, HEADS, GROUPS, FFN, VOCABULARY, POSITIONS = 32, 4096, 32, 8, 14336, 128256, 8192
# Names of each size over the classes.
OF_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers")
SIZES = [(LAYERS, OF_LAYERS),
         (HIDDEN, ("hidden_size", "n_embd", "d_model", "word_embed_proj_dim", "embedding_size")),
         (HEADS, ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads",
                  "decoder_attention_heads")),
         (FFN, ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim")),
         (VOCABULARY, ("vocab_size",)), (POSITIONS, ("max_position_embeddings", "n_positions", "max_seq_len")),
         (128, ("head_dim", "d_kv", "qk_nope_head_dim", "v_head_dim")), (64, ("qk_rope_head_dim", "rotary_dim")),
         (1536, ("q_lora_rank",)), (512, ("kv_lora_rank",)),
         (2048, ("moe_intermediate_size", "shared_expert_intermediate_size", "sliding_window", "local_attention"))]
SIZE_OF = {name: size for size, names in SIZES for name in names}


def enlarged(tiny):
    """The model's config.json at full size."""
    fields = dict(tiny.config)
    layers = next(fields[name] for name in OF_LAYERS if name in fields)
    for name, value in fields.items():
        if name in SIZE_OF and value is not None:
            fields[name] = SIZE_OF[name]
        elif name in ("num_key_value_heads", "num_kv_heads") and value is not None:
            fields[name] = {1: 1, 4: HEADS}.get(value, GROUPS)
        elif isinstance(value, list) and len(value) == layers:
            fields[name] = value * (LAYERS // layers)
        elif isinstance(value, dict):
            fields[name] = {key: one * (64 // len(one)) if isinstance(one, list) else one for key, one in value.items()}
    return fields


def measure(mgc, where, fields):
    return bench.measure(mgc, where, fields, 8, 4, 8, 16).cpu


def ratio(mgc, where, llama, fields, runs):
    """The median of the rounds; the first warms up."""
    return statistics.median([measure(mgc, where, fields) / measure(mgc, where, llama) for _ in range(runs + 1)][1:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default="build/release/bin")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--model", action="append", default=[], help="a tiny model or a family; default: every family's first")
    options = parser.parse_args()
    mgc, found = options.bin.resolve() / "mgc", {}
    llama = enlarged(zoo.select(["llama"])[0])
    with tempfile.TemporaryDirectory() as folder:
        for tiny in zoo.select(options.model):
            if tiny.variant and not options.model:
                continue
            try:
                found[tiny.name] = ratio(mgc, pathlib.Path(folder), llama, enlarged(tiny), options.runs)
            except SystemExit as refused:
                said = re.findall(r"^mgc: (.*)", str(refused), re.M)  # notes, and at last what is wrong
                print(f"{tiny.name}: {said[-1] if said else refused}", flush=True)
                continue
            more = "" if found[tiny.name] <= GOAL else f", more than {GOAL}"
            print(f"{tiny.name}: x {found[tiny.name]:.2f} of Llama's processor time{more}", flush=True)
    above = [name for name, value in found.items() if value > GOAL]
    load = os.getloadavg()[0]
    print(f"{len(found) - len(above)} of {len(found)} at most {GOAL} (medians of {options.runs} rounds, load {load:.1f})")
    sys.exit(1 if above else 0)


if __name__ == "__main__":
    main()
