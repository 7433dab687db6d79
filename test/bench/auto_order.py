#!/usr/bin/env python3
# The layouts that mgc compile --auto finds for 2 CPU ranks, in the order in which it predicts them and in the order of their steps.
#
#   test/bench/auto_order.py --bin build/release/bin [--rounds 5] [--steps 25] [--only MODEL,..]
#
# A rank has a core of its own: on a machine with more cores, --devices 4, 8. First profiles of the first model make the machine file
# (machine_file.py). Then, of each model, the first three layouts of the search and the best of each axis of more than one rank are
# trained in turn, so many rounds of so many steps, of which the first two warm up. A layout's step is the least of all rounds, which
# other programs on the machine disturb least. Two layouts are in the right order where the one predicted slower is no more than 5 %
# faster in fact. Ends with 1 where of some model the first three are not.
import argparse
import itertools
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

import machine_file
from contest import WARMUP, steps_in

TIE = 0.05
GPT = {"model_type": "gpt2", "n_layer": 4, "n_embd": 256, "n_head": 4, "n_positions": 256, "vocab_size": 2048, "attn_pdrop": 0.0,
       "embd_pdrop": 0.0, "resid_pdrop": 0.0}
LLAMA = {"model_type": "llama", "hidden_size": 256, "intermediate_size": 704, "num_attention_heads": 4, "num_key_value_heads": 2,
         "num_hidden_layers": 4, "vocab_size": 2048, "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "tie_word_embeddings": False}
EXPERTS = {"model_type": "qwen3_moe", "hidden_size": 192, "intermediate_size": 384, "moe_intermediate_size": 192, "num_experts": 8,
           "num_experts_per_tok": 2, "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [], "head_dim": 64,
           "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 4, "vocab_size": 2048,
           "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "hidden_act": "silu"}
ENCODER = {"model_type": "t5", "d_model": 256, "d_ff": 768, "d_kv": 64, "num_heads": 4, "num_layers": 3, "num_decoder_layers": 3,
           "vocab_size": 2048, "dropout_rate": 0.0, "feed_forward_proj": "relu", "tie_word_embeddings": True}
MODELS = {  # configuration, flags
    "gpt": (GPT, "--seq 128 --gbs 8"),
    "llama-long": (LLAMA, "--seq 1024 --gbs 2"),
    "experts": (EXPERTS, "--seq 128 --gbs 8"),
    "encoder": (ENCODER, "--seq 64 --encoder-seq-length 128 --gbs 8"),
}
AXES = ("--tp", "--cp", "--pp", "--dp")


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder, self.machine = options, folder, folder / "machine.json"

    def run(self, program, *words):
        done = subprocess.run([self.options.bin / program, *map(str, words)], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{program} {' '.join(map(str, words))}: {done.stderr}")
        return done.stdout

    def config(self, name):
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(MODELS[name][0]))
        return path

    def describe(self, name):
        """The machine by profiles of the model on ranks of dp: of the one with the best rate of products, as others were disturbed."""
        plan, profile = self.folder / "profiled", self.folder / "profile.json"
        self.run("mgc", "compile", self.config(name), *MODELS[name][1].split(), "--dp", self.options.devices, "-o", plan)
        profiles = []
        for _ in range(self.options.rounds):
            self.run("mgrun", plan, "--mock-data", "--threads", 1, "--train-iters", 3, "--profile-json", profile)
            profiles.append(json.loads(profile.read_text()))
        self.machine.write_text(json.dumps(machine_file.machine_of(max(profiles, key=lambda one: one["gemm_flops_per_second"]))))

    def search(self, name, more):
        """Layouts of the search, the fastest first; none where the axis is not for this model."""
        done = subprocess.run([self.options.bin / "mgc", "compile", self.config(name), *MODELS[name][1].split(), "--auto", "--devices",
                               str(self.options.devices), "--machine", self.machine, "--json", *more.split()], capture_output=True, text=True)
        return json.loads(done.stdout)["sizes"][0]["layouts"] if done.returncode == 0 else []

    def layouts(self, name):
        """The first three, then the best of each axis, each once."""
        first = self.search(name, "--top 3")
        others = [layout for axis in AXES for layout in self.search(name, f"{axis} {self.options.devices} --top 1")]
        found = {layout["command"]: layout for layout in first + sorted(others, key=lambda layout: layout["seconds"])}
        distinct = {}
        for layout in found.values():
            distinct.setdefault(self.searched(layout), layout)
        return [layout["command"] for layout in first], list(distinct.values())

    @staticmethod
    def searched(layout):
        words = shlex.split(layout["command"])
        return " ".join(f"{flag} {words[words.index(flag) + 1]}" for flag in (*AXES, "--ep", "--vpp", "--mbs", "--zero", "--schedule")
                        if flag in words and words[words.index(flag) + 1] != "1").replace("--", "")

    def plan(self, number, layout):
        words = shlex.split(layout["command"])[2:]
        words[words.index("-o") + 1] = str(self.folder / str(number))
        self.run("mgc", "compile", *words)
        return self.folder / str(number)

    def seconds(self, plan):
        log = self.folder / "log.jsonl"
        log.unlink(missing_ok=True)
        self.run("mgrun", plan, "--mock-data", "--threads", 1, "--train-iters", WARMUP + self.options.steps, "--log", log)
        return min(step["seconds"] for step in steps_in(log)[WARMUP:])


def in_order(pairs):
    """How many couples of (predicted, measured) layouts are in the right order, and how many there are."""
    couples = list(itertools.combinations(sorted(pairs), 2))
    return sum(slower[1] >= (1 - TIE) * faster[1] for faster, slower in couples), len(couples)


def measure(bench, name):
    first, layouts = bench.layouts(name)
    plans = [bench.plan(f"{name}-{number}", layout) for number, layout in enumerate(layouts)]
    best = [float("inf")] * len(plans)
    for _ in range(bench.options.rounds):
        best = [min(least, bench.seconds(plan)) for least, plan in zip(best, plans)]
    print(f"{name}: {MODELS[name][1]}")
    for layout, seconds in zip(layouts, best):
        print(f"  {'first three' if layout['command'] in first else '':12}{1e3 * layout['seconds']:8.1f} ms predicted {1e3 * seconds:8.1f} ms "
              f"measured {layout['seconds'] / seconds:5.2f}  {bench.searched(layout)}")
    pairs = [(layout["seconds"], seconds) for layout, seconds in zip(layouts, best)]
    right, couples = in_order(pairs[:3])
    print(f"  of the first three {right} of {couples} couples in order, of all {' of '.join(map(str, in_order(pairs)))}", flush=True)
    return right == couples


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default="build/release/bin")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    names = [name for name in options.only.split(",") if name] or list(MODELS)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, pathlib.Path(folder))
        bench.describe(names[0])
        missed = [name for name in names if not measure(bench, name)]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    sys.exit(f"not in order: {', '.join(missed)}" if missed else 0)


if __name__ == "__main__":
    main()
