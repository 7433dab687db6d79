#!/usr/bin/env python3
# Memory that others measured or published (test/tables), beside plans of the same models: docs/published-memory.md.
#
#   test/bench/published_memory.py --bin build/release/bin measured     each run beside a plan of its model and layout
#   test/bench/published_memory.py --bin build/release/bin terms RUN    all terms of one, by stage
#   test/bench/published_memory.py --bin build/release/bin levels       stage 0 of GPT-3's sizes, by level of ZeRO and policy
#   test/bench/published_memory.py tensors                              what a layer keeps of a token
#   test/bench/published_memory.py figure1                              figure 1 of arXiv 2205.05198 by its formulas
#
# Megatron-LM's side is megatron_memory.py. A plan's bytes are those that `mgc explain --json` says are proved. `measured`
# ends with 1 if a plan's parameters or saved tensors are not, to the byte, what the same formulas say of it.
import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile

import megatron_memory
from megatron_memory import GIB, Rank
from published.configurations import DEEPSEEK_V2_4 as DEEPSEEK
from published.configurations import LLAMA_70B_12 as LLAMA
from published.row import lines

# The model of pull request 482's tool: Llama-2 7B's sizes, f by its rule int(8 h / 3 / 64) 64, GPT-2's vocabulary padded to
# 128 tp.
GPT_F, GPT_TOKENS = 10880, 2048


def legacy_config(tensor_ranks):
    unit = 128 * tensor_ranks
    norm = {"kind": "layer", "bias": True}
    return {"model_type": "mgc", "mgc": {"model": {
        "vocabulary": -(-50257 // unit) * unit, "hidden": 4096, "positions": GPT_TOKENS, "layer_count": 32,
        "embedding": {"learned_positions": True, "dropout": 0.1},
        "layer": {"attention_branch": {"before": norm, "dropout": 0.1}, "mlp_branch": {"before": norm, "dropout": 0.1},
                  "attention": {"heads": 32, "groups": 32, "head_dim": 128, "qkv_bias": True, "out_bias": True, "dropout": 0.1},
                  "mlp": {"ffn": GPT_F, "gated": True, "activation": "silu", "bias": True}},
        "final_norm": norm, "head": {"tied": True}}}}


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    layout: dict
    sequence: int
    microbatch: int = 1
    stages: tuple = ((0, 12),)  # Megatron-LM's layers of each
    flags: tuple = ()
    family: str = "llama"
    note: str = ""

    def label(self):
        return self.name.removesuffix("_mbc4_cef") + self.note

    def extent(self, axis):
        return self.layout.get(axis, 1)

    def config(self):
        return legacy_config(self.extent("tp")) if self.family == "gpt" else {"llama": LLAMA, "deepseek": DEEPSEEK}[self.family]

    def tokens(self):
        return self.sequence * self.microbatch // self.extent("cp")

    def model(self):
        if self.family == "gpt":
            sizes = self.config()["mgc"]["model"]
            return megatron_memory.legacy_gpt(sizes["hidden"], GPT_F, 32, sizes["vocabulary"], GPT_TOKENS, 32)
        if self.family == "deepseek":
            return megatron_memory.deepseek(DEEPSEEK, self.tokens())
        return megatron_memory.llama(LLAMA, 12, self.extent("cp") > 1)

    def rank(self, stage, begin, end):
        data, stages = self.extent("dp") * self.extent("cp"), len(self.stages)
        return Rank(self.model(), begin, end, stage == stages - 1, self.tokens(), self.extent("tp"), data, stages - stage,
                    self.extent("ep"), data // self.extent("ep"), is_legacy=self.family == "gpt")


B200, H800 = ("--target", "cuda:sm_100"), ("--target", "cuda:sm_90", "--no-sp")
CONTEXT, RING = (*B200, "--cp-comm-type", "a2a"), (*B200, "--cp-comm-type", "p2p")
EXPERTS = (*B200, "--moe-token-dispatcher-type", "alltoall", "--moe-expert-capacity-factor", "1")
HALVES = ((0, 6), (6, 12))
CASES = (
    Case("llama3_70b_l12_tp1_pp2_dp4_mbc4_cef", {"pp": 2, "dp": 4}, 4096, stages=HALVES, flags=B200),
    Case("llama3_70b_tp2_pp1_dp4_l12_mbc4_cef", {"tp": 2, "dp": 4}, 4096, flags=B200),
    Case("llama3_70b_l12_tp4_pp1_dp2_mbc4_cef", {"tp": 4, "dp": 2}, 4096, flags=B200),
    Case("llama3_70b_l12_tp8_pp1_dp1_mbc4_cef", {"tp": 8}, 4096, flags=B200),
    Case("llama3_70b_l12_tp2_cp4_pp1_dp1_seq32768_mbc4_cef", {"tp": 2, "cp": 4}, 32768, flags=CONTEXT),
    Case("llama3_70b_l12_tp1_cp8_pp1_dp1_seq32768_mbc4_cef", {"cp": 8}, 32768, flags=CONTEXT),
    Case("llama3_70b_l12_tp2_cp4_pp1_dp1_seq131072_mbc4_cef", {"tp": 2, "cp": 4}, 131072, flags=CONTEXT),
    Case("llama3_70b_l12_tp1_cp8_pp1_dp1_seq131072_mbc4_cef", {"cp": 8}, 131072, flags=CONTEXT),
    Case("llama3_70b_l12_tp2_cp4_pp1_dp1_seq32768_mbc4_cef", {"tp": 2, "cp": 4}, 32768, flags=RING, note=", plan p2p"),
    Case("llama3_70b_l12_tp1_cp8_pp1_dp1_seq32768_mbc4_cef", {"cp": 8}, 32768, flags=RING, note=", plan p2p"),
    Case("llama3_70b_l12_tp2_cp4_pp1_dp1_seq131072_mbc4_cef", {"tp": 2, "cp": 4}, 131072, flags=RING, note=", plan p2p"),
    Case("llama3_70b_l12_tp1_cp8_pp1_dp1_seq131072_mbc4_cef", {"cp": 8}, 131072, flags=RING, note=", plan p2p"),
    Case("deepseekv2_tp1_ep8_pp1_dp8_l4_mbc4_cef", {"dp": 8, "ep": 8}, 4096, stages=((0, 4),), flags=EXPERTS, family="deepseek"),
    Case("deepseekv2_tp1_ep4_pp2_dp4_l4_mbc4_cef", {"pp": 2, "dp": 4, "ep": 4}, 4096, stages=((0, 2), (2, 4)), flags=EXPERTS,
         family="deepseek"),
    Case("pr482_dp8", {"dp": 8}, GPT_TOKENS, 2, ((0, 32),), H800, "gpt"),
    Case("pr482_dp4_tp2", {"dp": 4, "tp": 2}, GPT_TOKENS, 4, ((0, 32),), H800, "gpt"),
    Case("pr482_dp4_pp2", {"dp": 4, "pp": 2}, GPT_TOKENS, 2, ((0, 16), (16, 32)), H800, "gpt"),
    Case("pr482_tp8", {"tp": 8}, GPT_TOKENS, 4, ((0, 32),), H800, "gpt"))


def rows_of(table):
    return [cells for _, cells in lines(table)]


def measured(case):
    """GiB of each stage's largest rank, as far as the source says."""
    if case.family == "gpt":
        layout = [case.extent(axis) for axis in ("dp", "pp", "tp")]
        return [float(row["peak_gb_measured"]) for row in rows_of("megatron_pr482_memory")
                if [int(row[axis]) for axis in ("dp", "pp", "tp")] == layout]
    ranks = [float(row["max_allocated_mib"]) / 1024 for row in rows_of("simumax_b200_memory_by_rank") if row["case"] == case.name]
    part = len(ranks) // len(case.stages)
    return [max(ranks[stage * part:(stage + 1) * part]) for stage in range(len(case.stages))]


def run(options, *arguments):
    done = subprocess.run([options.bin / "mgc", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"mgc {' '.join(map(str, arguments))}\n{done.stderr}")
    return done.stdout


def stages_of(config, layout, flags, options):
    """Facts of the stages of a plan in bf16, by mgc explain."""
    (options.folder / "config.json").write_text(json.dumps(config))
    axes = [f"--{axis}={extent}" for axis, extent in layout.items()]
    run(options, "compile", options.folder / "config.json", "-o", options.folder / "plan", "--dtype=bf16", *axes, *flags)
    return json.loads(run(options, "explain", options.folder / "plan", "--json"))["stages"]


class Plan:
    def __init__(self, case, options):
        self.case = case
        batch = 4 * case.microbatch * case.extent("dp")  # four microbatches
        flags = (f"--seq={case.sequence}", f"--mbs={case.microbatch}", f"--gbs={batch}", "--zero=1", *case.flags)
        self.stages = stages_of(case.config(), case.layout, flags, options)

    def rank(self, stage):
        """The rank of a plan's stage, whose layers the compiler chose."""
        [(begin, end)] = self.stages[stage]["layers"]
        return self.case.rank(stage, begin, end)

    def activations(self, stage):
        """Saved tensors by the plan's column, and messages: of the first stage two slots of what is sent and of the gradient that
        comes; of the last a second slot of what comes, and the gradient that is sent."""
        rank, count = self.rank(stage), len(self.stages)
        hidden = 2 * rank.model.hidden * rank.tokens // (1 if "--no-sp" in self.case.flags else rank.tensor_ranks)
        messages = 0 if count == 1 else 4 if stage == 0 else 2
        return rank.saved("plan") * rank.in_flight + hidden * (rank.is_last + messages)

    def differences(self):
        """Sizes that are not those of the formulas, as text."""
        for stage, found in enumerate(self.stages):
            for what, formula, bytes_of_plan in (("parameters", self.rank(stage).parameters(), found["parameters"]),
                                                 ("activations", self.activations(stage), found["memory"]["activations"])):
                if formula != bytes_of_plan:
                    yield f"{self.case.name}, stage {stage}: {what}: {bytes_of_plan} in the plan, {formula} by the formulas"


# Layouts of arXiv 2205.05198, table 3, and one of 1,024 GPUs: hidden, heads, layers, layout, sequences a step of a replica.
LARGE = (("175B", 12288, 96, 96, {"tp": 8, "pp": 8, "vpp": 3}, 64),
         ("530B", 20480, 128, 105, {"tp": 8, "pp": 35, "vpp": 3}, 280), ("1T", 25600, 160, 128, {"tp": 8, "pp": 64}, 512),
         ("175B", 12288, 96, 96, {"tp": 8, "pp": 16}, 192))
POLICIES = {"`--no-recompute`": ["--no-recompute"], "none": [],
            "selective, core_attn": ["--recompute-granularity=selective", "--recompute-modules=core_attn"],
            "full, uniform, 1": ["--recompute-granularity=full", "--recompute-method=uniform", "--recompute-num-layers=1"]}

STATE = ("parameters", "gradients", "optimizer")  # regions of a plan
REGIONS = {"values": "parameters", "gradients": "gradients", "update": "optimizer", "saved by layers": "activations"}


def layers_text(begin, end):
    return f"{begin} to {end - 1}"


def print_row(*cells):
    print(f"| {' | '.join(str(cell) for cell in cells)} |")


def print_measured(options):
    """Rows of the table; the number of differences between plans and formulas."""
    print_row("run", "stage", "measured", "its tensors", "difference", "state, saved, other", "plan, its layers", "state, saved, other")
    print("|---|---|---|---|---|---|---|---|")
    wrong = []
    for case in CASES:
        plan = Plan(case, options)
        wrong += plan.differences()
        for stage, value in enumerate(measured(case)):
            rank, found = case.rank(stage, *case.stages[stage]), plan.stages[stage]
            total, state, saved = sum(rank.terms().values()), sum(rank.state().values()), rank.saved_in_flight()
            own = [sum(found["memory"][region] for region in STATE), found["memory"]["activations"]]
            print_row(case.label(), stage, f"{value:.2f}", f"{total / GIB:.2f}", f"{total / GIB / value - 1:+.2%}",
                      ", ".join(f"{part / GIB:.2f}" for part in (state, saved, total - state - saved)),
                      f"{found['bytes'] / GIB:.2f}, {layers_text(*found['layers'][0])}",
                      ", ".join(f"{part / GIB:.2f}" for part in (*own, found["bytes"] - sum(own))))
    for line in wrong:
        print(line)
    return len(wrong)


def print_terms(options):
    case = next((case for case in CASES if case.label() == options.case), None)
    if not case:
        raise SystemExit(f"{options.case}: no such run; expected one of {', '.join(case.label() for case in CASES)}")
    plan = Plan(case, options)
    for stage, value in enumerate(measured(case)):
        terms, regions = case.rank(stage, *case.stages[stage]).terms(), dict(plan.stages[stage]["memory"])
        print_row(f"stage {stage}, GiB", "Megatron-LM", "plan")
        print("|---|---|---|")
        for name, count in terms.items():
            print_row(name, f"{count / GIB:.3f}", f"{regions.pop(REGIONS[name]) / GIB:.3f}" if name in REGIONS else "")
        for name, count in regions.items():
            if count >= GIB / 1000:
                print_row(name, "", f"{count / GIB:.3f}")
        print_row("together", f"{sum(terms.values()) / GIB:.3f}, measured {value:.3f}", f"{plan.stages[stage]['bytes'] / GIB:.3f}")
        print()


def print_levels(options):
    """GiB of stage 0 with 8 data ranks."""
    print_row("model, layout", "recomputation", *(f"zero {level}" for level in range(4)))
    print("|---|---|---|---|---|---|")
    for name, hidden, heads, layers, layout, sequences in LARGE:
        config = {"model_type": "gpt2", "n_embd": hidden, "n_head": heads, "n_layer": layers, "n_positions": 2048,
                  "vocab_size": 51200, "bos_token_id": 0, "eos_token_id": 0}
        axes = " ".join(f"--{axis} {extent}" for axis, extent in layout.items())
        for policy, flags in POLICIES.items():
            shared = ("--seq=2048", "--mbs=1", f"--gbs={8 * sequences}", "--target=cuda:sm_90", *flags)
            plans = [stages_of(config, layout | {"dp": 8}, (*shared, f"--zero={level}"), options) for level in range(4)]
            print_row(f"{name}, `{axes}`", policy, *(f"{plan[0]['bytes'] / GIB:.1f}" for plan in plans))


def print_tensors(_):
    deepseek = megatron_memory.deepseek(DEEPSEEK, 4096)
    models = (("Llama-3 70B", megatron_memory.llama(LLAMA, 12, True), 0), ("DeepSeek-V2, dense", deepseek, 0),
              ("DeepSeek-V2, experts", deepseek, 1), ("GPT of 2023", CASES[-1].model(), 0))
    for name, model, kind in models:
        print_row(name, "Megatron-LM", "plan")
        print("|---|---|---|")
        for one in model.kinds[kind]:
            print_row(one.name + (" (whole)" if one.whole else ""), f"{one.megatron:,.0f}", f"{one.plan:,.0f}")
        print_row("together", *(f"{sum(getattr(one, side) for one in model.kinds[kind]):,.0f}" for side in ("megatron", "plan")))
        print()


def print_figure(_):
    print_row("model", "parameters and states", "no recomputation", "sequence parallelism, selective")
    print("|---|---|---|---|")
    for name, values in megatron_memory.figure1():
        figure = [float(row["value"]) for row in rows_of("korthikanti_fig1_fig7_memory")
                  if row["figure"] == "fig1" and row["model"] == name]
        print_row(name, *(f"{float(value)}{'' if value == wanted else f' (figure: {wanted})'}"
                          for value, wanted in zip(values, figure, strict=True)))


TABLES = {"measured": print_measured, "terms": print_terms, "levels": print_levels, "tensors": print_tensors,
          "figure1": print_figure}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default="build/release/bin")
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("case", nargs="?")
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    with tempfile.TemporaryDirectory() as folder:
        options.folder = pathlib.Path(folder)
        sys.exit(1 if TABLES[options.table](options) else 0)


if __name__ == "__main__":
    main()
