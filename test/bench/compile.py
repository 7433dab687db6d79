#!/usr/bin/env python3
# Compile time and peak memory of `mgc compile` for models and clusters nobody has at hand.
#
#   test/bench/compile.py --bin build/release/bin [--runs 5]
#
# Prints, per case, the median wall time of the whole process, its median processor time (user and system: what it takes
# however busy the machine is), its largest resident set and the bytes of plan.json, next to the goal; then how the
# processor time changes with microbatches (16 to 3,072), with depth (24 to 96 layers) and with ranks (64 to 1,024),
# measured alternately in the same run. --peer MGC: another build of mgc, whose processor time for GPT-3 175B and 16
# microbatches the cases are divided by.
import argparse
import collections
import json
import os
import pathlib
import statistics
import tempfile
import time

Run = collections.namedtuple("Run", "seconds cpu megabytes bytes")


def gpt(layers, hidden, heads, sequence=2048, vocabulary=51200):
    return {"model_type": "gpt2", "n_layer": layers, "n_embd": hidden, "n_head": heads, "n_positions": sequence,
            "vocab_size": vocabulary, "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}


GPT3, TRILLION = gpt(96, 12288, 96), gpt(128, 25600, 160)
CASES = [  # name, (model, tp, pp, dp, microbatches), goals: seconds, MB, bytes of plan.json
    ("GPT-3 175B, 1,024 ranks, 192 microbatches", (GPT3, 8, 16, 8, 192), 1.0, 135, 200_000),
    ("GPT-3 175B, 1,024 ranks, 3,072 microbatches", (GPT3, 8, 16, 8, 3072), 1.0, 135, 200_000),
    ("1T, 16,384 ranks, 96 microbatches", (TRILLION, 8, 64, 32, 96), 2.0, None, None),
]
FLAT = [  # name, less, more, goal
    ("microbatches: 16 to 3,072, tp 8 pp 16 dp 8", (GPT3, 8, 16, 8, 16), (GPT3, 8, 16, 8, 3072), 1.10),
    ("depth: 24 to 96 layers, tp 8 pp 8 dp 8", (gpt(24, 12288, 96), 8, 8, 8, 16), (GPT3, 8, 8, 8, 16), 1.10),
    ("ranks: 64 to 1,024 (dp 1 to 16), tp 8 pp 8", (GPT3, 8, 8, 1, 16), (GPT3, 8, 8, 16, 16), 1.05),
]
PEER = (GPT3, 8, 16, 8, 16)


def measure(mgc, where, model, tp, pp, dp, microbatches):
    """One compile, as a Run."""
    config = where / "config.json"
    config.write_text(json.dumps(model))
    flags = [f"--tp={tp}", f"--pp={pp}", f"--dp={dp}", "--seq=2048", "--mbs=1", f"--gbs={microbatches * dp}"]
    begin = time.perf_counter()
    child = os.posix_spawn(mgc, [str(mgc), "compile", str(config), "-o", str(where / "plan"), *flags], os.environ,
                           file_actions=[(os.POSIX_SPAWN_OPEN, 2, str(where / "log"), os.O_WRONLY | os.O_CREAT, 0o600)])
    _, status, usage = os.wait4(child, 0)
    seconds = time.perf_counter() - begin
    if status:
        raise SystemExit((where / "log").read_text())
    return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024,
               (where / "plan" / "plan.json").stat().st_size)


def middle(runs, field):
    return statistics.median(getattr(run, field) for run in runs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default="build/release/bin")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peer", type=pathlib.Path)
    options = parser.parse_args()
    mgc = options.bin.resolve() / "mgc"
    with tempfile.TemporaryDirectory() as folder:
        where = pathlib.Path(folder)
        for name, case, seconds, megabytes, size in CASES:
            runs, ratios = [], []
            for _ in range(options.runs + 1):  # the first warms up
                runs.append(measure(mgc, where, *case))
                if options.peer:
                    ratios.append(runs[-1].cpu / measure(options.peer.resolve(), where, *PEER).cpu)
            runs, ratios = runs[1:], ratios[1:]
            memory = f" (goal {megabytes})" if megabytes else ""
            goal = f" (goal {size:,})" if size else ""
            peer = f", x {statistics.median(ratios):.2f} of the peer's with 16 microbatches" if ratios else ""
            print(f"{name}: {middle(runs, 'seconds'):.2f} s (goal {seconds}), {middle(runs, 'cpu'):.2f} s of processor "
                  f"time{peer}, {max(run.megabytes for run in runs):.0f} MB{memory}, plan.json {runs[0].bytes:,} bytes{goal}",
                  flush=True)
        for name, less, more, goal in FLAT:
            # Only the fact under test changes. The first pair warms up.
            pairs = [(measure(mgc, where, *less).cpu, measure(mgc, where, *more).cpu)
                     for _ in range(options.runs + 1)][1:]
            change = statistics.median(more / less for less, more in pairs)
            print(f"{name}: x {change:.2f} (goal at most {goal})", flush=True)
    print(f"medians of {options.runs} runs, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
