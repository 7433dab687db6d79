#!/usr/bin/env python3
# Training and its parts on CPU ranks, compared with PyTorch: every row is a fact and its goal.
#
#   test/bench/setup-peers                                   once: PyTorch and the allocators
#   test/bench/cpu.py --bin build/release/bin [--peers build/peers] [--rounds 3] [--steps 6] [--only ROW,...] [--json F]
#   test/bench/cpu.py --list                                 the rows
#   test/bench/cpu.py --quick                                a tiny model, one round: does every row still run?
#
# Training runs of one work (model, batch, sequence) start from the same weights and tokens; each round measures each of
# them once. The first two steps of a run warm up. A value is the median over the rounds of the ratio to what the same
# round measured. Losses that differ by more than 0.2 % end the run: only equal work compares.
import argparse
import dataclasses
import fnmatch
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time
import typing

import products
from contest import ALLOCATORS, PEERS, ROOT, WARMUP, Mgc, Mpi, Peer, Work, check_losses

GPT2 = json.loads((ROOT / "examples/gpt2/config.json").read_text()) | {
    "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}
LLAMA = {"model_type": "llama", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
         "num_key_value_heads": 4, "head_dim": 64, "intermediate_size": 2048, "vocab_size": 32000, "hidden_act": "silu",
         "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "attention_bias": False,
         "mlp_bias": False, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
# 140 million parameters, of which a token meets 64.
MIXTRAL = {"model_type": "mixtral", "hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8,
           "num_key_value_heads": 4, "intermediate_size": 1024, "num_local_experts": 8, "num_experts_per_tok": 2,
           "vocab_size": 32000, "hidden_act": "silu", "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
           "tie_word_embeddings": False, "sliding_window": None, "output_router_logits": False,
           "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}}
TINY_LLAMA = json.loads((ROOT / "examples/tiny-llama/config.json").read_text())
FULL = ("--recompute-granularity=full", "--recompute-method=uniform", "--recompute-num-layers=1")
TINY = {"gpt2": {"n_layer": 3, "n_embd": 64, "n_head": 4, "n_positions": 128, "vocab_size": 501, "bos_token_id": 0,
                 "eos_token_id": 0},
        "llama": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                  "head_dim": 16, "intermediate_size": 128, "vocab_size": 501},
        "mixtral": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                    "intermediate_size": 64, "vocab_size": 501}}


@dataclasses.dataclass
class Fact:
    what: str
    value: float  # nan: not measured, `detail` says why
    detail: str = ""


@dataclasses.dataclass
class Row:
    name: str
    goal: float | None  # none: a figure to know
    measure: typing.Callable  # options -> [Fact]; training runs are done by then
    needs: tuple = ()  # the training runs
    at_most: bool = False
    unit: str = "x"

    def missed_by(self, value):
        """As a fraction of the goal."""
        return value / self.goal - 1 if self.at_most else 1 - value / self.goal

    def verdict(self, value):
        if math.isnan(value):
            return "not measured"
        if self.goal is None:
            return ""
        missed = self.missed_by(value)
        return "met" if missed <= 0 else f"missed by {missed:.1%}"

    def stated(self):
        return "none" if self.goal is None else f"{'at most' if self.at_most else 'at least'} {self.goal:g}"


def quotient(a, b):
    return a / b if b else float("nan")


def ratio(name, goal, above, below, field="seconds", at_most=False):
    """A row: `above` over `below` in a field of their runs."""
    def measure(_):
        value = statistics.median(a / b for a, b in zip(above.each(field), below.each(field), strict=True))
        detail = f"{above.median(field):.0f} / {below.median(field):.0f} MB"
        # The figures that a busy machine disturbs least: the best steps, and the processor time.
        if field == "seconds":
            best = [min(second for run in one.runs for second in run.seconds) for one in (above, below)]
            detail = (f"{above.median(field):.3f} / {below.median(field):.3f} s; best steps x {best[0] / best[1]:.2f}, "
                      f"processor time x {quotient(above.median('cpu'), below.median('cpu')):.2f}")
        return [Fact(f"{above.name} / {below.name}, {above.work.name}", value, detail)]
    return Row(name, goal, measure, (above, below), at_most)


def against_peers(work):
    """One rank on all cores, compared with a lean model (eager, compiled, with tuned allocators too) and Hugging Face's."""
    mine = work.enter(Mgc(work))
    peers = ((1.3, Peer(work, "lean"), "eager"), (1.2, Peer(work, "lean", compiled=True), "compiled"),
             *((1.15, Peer(work, "lean", compiled=True, allocator=name), name) for name in ALLOCATORS),
             (1.45, Peer(work, "transformers"), "transformers"))
    for goal, peer, name in peers:
        yield ratio(f"{name}-{work.name}", goal, work.enter(peer), mine)
    yield bound(work)


def bound(work):
    """The bound: every product and attention at the best sgemm rate, every other byte once at memory bandwidth. Rates and
    steps of one run of mgrun --profile-json; the median of such runs, a round each."""
    profiled = Mgc(work, flags=("--profile-json", "{contestant.work.folder}/profile.json"))

    def measure(options):
        profiled.prepare(options)
        runs = []
        for _ in range(options.rounds):
            profiled.measure(options)
            profile = json.loads((work.folder / "profile.json").read_text())
            runs.append((profile["bound_seconds"] / profile["step_seconds"], profile))
        fraction, profile = sorted(runs, key=lambda run: run[0])[len(runs) // 2]
        return [Fact(f"bound / mgc 1 rank, {work.name}", fraction,
                     f"{profile['bound_seconds']:.3f} / {profile['step_seconds']:.3f} s")]
    return Row(f"bound-{work.name}", 0.90, measure, ())


def parallel(work):
    """Two ranks of one core each: against PyTorch's, and against one rank with both cores. Pipelines of 4 microbatches:
    PyTorch's with 1F1B, mgc's with the schedule that waits least."""
    one = work.enter(Mgc(work))
    for axis, goal, microbatch, layout in (("dp", 1.35, None, {}), ("tp", 1.4, None, {}),
                                           ("pp", 1.5, 1, {"schedule": "zb-h1"})):
        mine = work.enter(Mgc(work, {axis: 2, **layout}, microbatch))
        yield ratio(f"{axis}2", goal, work.enter(Peer(work, axis, compiled=True)), mine)
        if axis != "pp":
            yield ratio(f"own-{axis}2", 1.08, mine, one, at_most=True)
            processes = work.enter(Mpi(work, {axis: 2}))
            yield ratio(f"mpi-{axis}2", 1.05, processes, mine, at_most=True)
            for peer, name in (Peer(work, axis), ""), (Peer(work, axis, compiled=True), "-compiled"):
                yield ratio(f"mpi-{axis}2-gloo{name}", 1.3, work.enter(peer), processes)
    eight = work.enter(Mgc(work, {"tp": 2, "pp": 2, "dp": 2}, 1))
    yield ratio("own-8", 1.25, eight, one, at_most=True)


def context(work):
    """Two ranks of context parallelism, one core each: against one rank with both cores, and PyTorch's against the same. Keys
    that travel, against keys that are gathered."""
    one, mine = work.enter(Mgc(work)), work.enter(Mgc(work, {"cp": 2}))
    yield ratio("ring-cp2", 1.02, work.enter(Mgc(work, {"cp": 2, "cp-comm-type": "p2p"})), mine, at_most=True)
    yield ratio("own-cp2", 1.10, mine, one, at_most=True)
    yield ratio("cp2", 1.0, work.enter(Peer(work, "cp")), mine)
    yield ratio("cp2-one", 1.0, work.enter(Peer(work, "lean")), one)


def zero(level, work, microbatch=None):
    layout = {"dp": 2} | ({"zero": level} if level else {})
    return work.enter(Mgc(work, layout, microbatch))


def levels(work):
    """Levels of ZeRO on two data ranks, one core each, compared with what shares out as much in PyTorch: 0 and 1 with
    DistributedDataParallel, 2 with fully_shard that keeps values from forward to backward, 3 with one that does not."""
    for level, peer in enumerate(("dp", "dp", "fsdp-no-reshard", "fsdp")):
        mine, other = zero(level, work), work.enter(Peer(work, peer, compiled=True))
        yield ratio(f"zero{level}-{work.name}", 1.3, other, mine)
        yield ratio(f"zero{level}-memory-{work.name}", 1.0, mine, other, "megabytes", at_most=True)
    for level, goal in (1, 1.02), (2, None), (3, None):
        yield ratio(f"own-zero{level}-{work.name}", goal, zero(level, work), zero(0, work), at_most=True)


def microbatched(work):
    """Levels 2 and 3 compared with 1, with 8 microbatches of a sequence, and what a rank sends."""
    for level in (2, 3):
        above, below = zero(level, work, 1), zero(1, work, 1)
        row = ratio(f"zero{level}-m8-{work.name}", None, above, below, at_most=True)

        def measure(options, above=above, below=below, row=row):
            sent = [one.sent(options) / 1e9 for one in (above, below)]
            traffic = f"a rank sends {sent[0]:.2f} / {sent[1]:.2f} GB a step"
            return [dataclasses.replace(fact, detail=f"{fact.detail}; {traffic}") for fact in row.measure(options)]
        yield dataclasses.replace(row, measure=measure)


def recomputation(work, lean):
    """Policies on one rank with all cores, and on two of one core each that share out all state, compared with PyTorch that
    keeps what autograd does, and with its checkpoints of each layer."""
    for ranks, layout, peer, compiled in ((1, {}, lean, False), (2, {"dp": 2, "zero": 3}, "fsdp", True)):
        kept, again = (work.enter(Peer(work, peer, compiled, checkpoint=checkpoint)) for checkpoint in (False, True))
        none, standard, full = (work.enter(Mgc(work, layout, policy=policy)) for policy in (
            ("no recompute", ("--no-recompute",)), ("", ()), ("full recompute", FULL)))
        for policy, mine, other in ("none", none, kept), ("standard", standard, kept), ("full", full, again):
            name = f"recompute-{policy}-{ranks}"
            yield ratio(f"{name}-{work.name}", 1.3, other, mine)
            yield ratio(f"{name}-memory-{work.name}", 1.0, mine, other, "megabytes", at_most=True)
        yield ratio(f"own-recompute-{ranks}-{work.name}", 1.25, full, none, at_most=True)


class Budgeted(Mgc):
    """A plan with --memory: a share of what the standard policy takes, or the least there is."""

    def __init__(self, work, percent):
        super().__init__(work, policy=(f"memory {percent} %", ()))
        self.percent = percent

    def prepare(self, options):
        standard = self.work.enter(Mgc(self.work))
        standard.prepare(options)
        command = [str(part) for part in (*self.compile_command(options), "--memory=1")]
        refused = subprocess.run(command, capture_output=True, text=True)
        least = int(re.search(r"possible: --memory (\d+)", refused.stderr)[1])
        share = standard.explained(options)["stages"][0]["bytes"] * self.percent // 100
        self.compile_flags = (f"--memory={max(share, least)}",)
        super().prepare(options)


def budgets(work):
    """Plans within less memory on one rank: measured times beside predicted ones, which should have the same order."""
    standard = work.enter(Mgc(work))
    plans = [work.enter(Budgeted(work, percent)) for percent in (90, 80, 70, 60)]

    def measure(options):
        predicted = [one.explained(options)["prediction"]["seconds"] for one in (standard, *plans)]
        measured = [1.0] + [statistics.median(a / b for a, b in zip(one.each("seconds"), standard.each("seconds"),
                                                                    strict=True)) for one in plans]
        for one, seconds, found in zip(plans, predicted[1:], measured[1:], strict=True):
            used = quotient(one.median("cpu"), standard.median("cpu"))
            yield Fact(f"{one.name} / without, {work.name}", found,
                       f"predicted {seconds / predicted[0]:.3f}, processor time x {used:.2f}")
        pairs = [(a, b) for a in range(len(predicted)) for b in range(a) if predicted[a] != predicted[b]]
        wrong = sum((predicted[a] < predicted[b]) != (measured[a] < measured[b]) for a, b in pairs)
        yield Fact(f"pairs in another order than predicted, {work.name}", wrong, f"of {len(pairs)}")
    return Row(f"recompute-budgets-{work.name}", None, measure, (standard, *plans))


def experts(work):
    """One rank on all cores, and two of one core each that share the experts out, compared with Hugging Face's model."""
    eager, compiled = (work.enter(Peer(work, "transformers", compiled)) for compiled in (False, True))
    sharing = {"dp": 2, "ep": 2, "zero": 1, "moe-token-dispatcher-type": "alltoall"}
    one, shared = work.enter(Mgc(work)), work.enter(Mgc(work, sharing))
    for mine, name in ((one, "experts"), (shared, "experts-ep2")):
        yield ratio(f"{name}-eager", 1.5, eager, mine)
        yield ratio(f"{name}-compiled", 1.3, compiled, mine)


def memory(work):
    mine = work.enter(Mgc(work))
    for name, compiled in (("memory", False), ("memory-compiled", True)):
        yield ratio(name, 0.75, mine, work.enter(Peer(work, "lean", compiled)), "megabytes", at_most=True)


def start(work):
    """From exec to the first step's begin: when the first step's line was written, less the seconds it says."""
    mine, peer = work.enter(Mgc(work)), work.enter(Peer(work, "lean"))

    def measure(_):
        return [Fact(f"{mine.name}, start to first step begun", mine.median("start"),
                     f"{peer.name} {peer.median('start'):.2f} s")]
    return Row("start", 1.0, measure, (mine, peer), at_most=True, unit="s")


def compile_time(work):
    def measure(options):
        seconds = []
        for _ in range(3 * options.rounds):
            begin = time.perf_counter()
            Mgc(work).prepare(options)
            seconds.append(time.perf_counter() - begin)
        return [Fact(f"mgc compile, {work.name}, with kernels", statistics.median(seconds))]
    return Row("compile", 0.5, measure, (), at_most=True, unit="s")


def plan_of(work, options):
    contestant = Mgc(work)
    contestant.prepare(options)
    return contestant.file("plan")


def all_products(work):
    def measure(options):
        for one in products.measure(plan_of(work, options), options):
            rates = ", ".join(f"{name} {rate:.0f}" for name, rate in zip(products.COLUMNS, one.gflops, strict=True))
            yield Fact(f"{one.name}, {one.calls} a step", one.fraction, f"{rates} GFLOP/s")
    return Row(f"products-{work.name}", products.GOAL, measure)


def attention():
    def measure(options):
        if not (ROOT / "test/bench/attention.py").exists():
            return [Fact("attention", float("nan"), "there is no test/bench/attention.py")]
        import attention as bench
        ours = bench.Side(options.bin / "mgc_attention_bench")
        theirs = bench.Side(options.peers / "bin/python", PEERS / "attention.py")
        facts = []
        for name in ("seq256",) if options.quick else ("seq256", "seq1024", "seq8192"):
            rounds = list(bench.rounds_of(bench.CASES[name], ours, theirs, options))
            for part, direction in enumerate(("forward", "backward")):
                mine, other = ([round[side][part] for round in rounds] for side in (0, 1))
                facts.append(Fact(f"{name} {direction}", statistics.median(b / a for a, b in zip(mine, other)),
                                  f"{statistics.median(other) * 1e3:.1f} / {statistics.median(mine) * 1e3:.1f} ms"))
        return facts
    return Row("attention", 1.5, measure)


def row_kernels(work):
    """Out of cache, against the bandwidth of a STREAM loop in the same program."""
    def measure(options):
        program = options.bin / "row_kernels"
        if not program.exists():
            return [Fact("row kernels", float("nan"), f"there is no {program}")]
        command = [program, "--threads", str(options.threads), plan_of(work, options)]
        runs = [[line.split(None, 5) for line in subprocess.run(command, capture_output=True, text=True, check=True)
                 .stdout.splitlines() if re.match(r"( *[\d.]+){5}  ", line)] for _ in range(options.rounds)]
        return [Fact(lines[0][5], statistics.median(float(line[4]) for line in lines),
                     f"{lines[0][0]} MB, {statistics.median(float(line[2]) for line in lines)} GB/s")
                for lines in zip(*runs, strict=True)]
    return Row(f"row-kernels-{work.name}", 0.85, measure)


def rows(quick):
    def work(name, config, batch, sequence):
        tiny = TINY[config["model_type"]] if quick else {}
        return Work(name, config | tiny, batch, min(sequence, 128) if quick else sequence)
    short, long = work("4x256", GPT2, 4, 256), work("1x1024", GPT2, 1, 1024)
    llama = work("llama", LLAMA, 4, 256)
    yield from against_peers(short)
    yield from against_peers(long)
    yield ratio("llama", 1.3, llama.enter(Peer(llama, "transformers", compiled=True)), llama.enter(Mgc(llama)))
    yield from parallel(short)
    yield from context(work("1x8192", GPT2 | {"n_positions": 8192}, 1, 8192))
    for one in (short, llama):
        yield from levels(one)
    large = work("gpt2-16x256", GPT2, 16, 256), work("llama-16x256", LLAMA, 16, 256)  # 4,096 tokens
    for one in large:
        yield from microbatched(one)
    yield from experts(work("mixtral", MIXTRAL, 4, 256))
    tiny = work("tiny-llama", TINY_LLAMA, 16, 256)
    yield from recomputation(work("gpt2-4x512", GPT2, 4, 512), "lean")
    yield from recomputation(tiny, "transformers")
    for one in work("gpt2-12x512", GPT2, 12, 512), tiny:  # activations are most of their memory
        yield budgets(one)
    yield from memory(short)
    yield start(short)
    for one in large:
        yield row_kernels(one)
        yield all_products(one)
    yield attention()
    yield compile_time(short)


def chosen(options):
    patterns = options.only.split(",")
    every = list(rows(options.quick))
    for pattern in patterns:
        if not any(fnmatch.fnmatch(row.name, pattern) for row in every):
            raise SystemExit(f"--only {pattern}: no such row; expected some of {', '.join(row.name for row in every)}")
    return [row for row in every if any(fnmatch.fnmatch(row.name, pattern) for pattern in patterns)]


def train(contestants, options):
    """All runs of one work, in turn."""
    for one in contestants:
        one.prepare(options)
    for number in range(options.rounds):
        for one in contestants:
            one.measure(options)
            last = one.runs[-1]
            print(f"  {one.work.name}, round {number + 1}: {one.name:36}{statistics.median(last.seconds):8.3f} s/step"
                  f"{last.cpu:8.2f} s processor{last.start:7.2f} s to start{last.megabytes:7.0f} MB", flush=True)
        check_losses(contestants)


def report(row, options):
    facts = list(row.measure(options))
    for fact in facts:
        print(f"{row.name:40}{fact.what:60}{fact.value:8.2f} {row.unit:2} (goal {row.stated():13}) "
              f"{row.verdict(fact.value):17}{fact.detail}", flush=True)
    return {"row": row.name, "goal": row.stated(), "unit": row.unit, "facts": [
        {"what": fact.what, "value": None if math.isnan(fact.value) else fact.value, "detail": fact.detail,
         "verdict": row.verdict(fact.value)} for fact in facts]}


def write_json(file, results, picked, options):
    runs = {one: one.runs for row in picked for one in row.needs}
    content = {"rounds": options.rounds, "steps": options.steps, "load": os.getloadavg()[0], "rows": results,
               "runs": [{"work": one.work.name, "name": one.name, "rounds": [run._asdict() for run in runs[one]]}
                        for one in runs]}
    file.write_text(json.dumps(content, indent=1) + "\n")


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--peers", type=pathlib.Path, default=ROOT / "build/peers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of a peer; default: cores")
    parser.add_argument("--only", default="*", metavar="ROW,...", help="rows; * and ? stand for any letters")
    parser.add_argument("--json", type=pathlib.Path, help="file for the results")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.steps = 1, WARMUP + 1
    options.compile = "aot_eager" if options.quick else "inductor"
    options.bin, options.peers = options.bin.resolve(), options.peers.absolute()
    for program, maker in ((options.bin / "mgrun", "scripts/build"),
                           (options.peers / "bin/python", "test/bench/setup-peers")):
        if not options.list and not program.exists():
            raise SystemExit(f"{program}: no such program; {maker} makes it, --bin and --peers say where it is")
    if options.steps <= WARMUP:
        raise SystemExit(f"--steps {options.steps}: the first {WARMUP} warm up; expected more")
    return options


def main():
    options = parse()
    picked = chosen(options)
    if options.list:
        for row in picked:
            print(f"{row.name:40}{row.stated()} {row.unit}")
        return
    with tempfile.TemporaryDirectory() as folder:
        options.where = pathlib.Path(folder)
        results = []
        for row in picked:
            if row.needs and not row.needs[0].runs:  # with all that other rows need of the same work
                work = row.needs[0].work
                needs = [one for other in picked for one in other.needs if one.work is work]
                train(list(dict.fromkeys(needs)), options)
            results.append(report(row, options))
    print(f"{options.rounds} rounds of {options.steps - WARMUP} steps, {options.threads} threads, load "
          f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    if options.json:
        write_json(options.json, results, picked, options)


if __name__ == "__main__":
    main()
