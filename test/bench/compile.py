#!/usr/bin/env python3
# Compile time and peak memory of `mgc compile` for models and clusters nobody has at hand.
#
#   test/bench/compile.py --bin build/release/bin [--runs 5]
#
# Prints, per case, the median wall time of the whole process, its median processor time (user and system: what it
# takes however busy the machine is) and its largest resident set, beside the goal; then how the processor time changes
# with depth (24 to 96 layers) and with ranks (64 to 1,024), measured alternately in the same run.
import argparse
import collections
import json
import os
import pathlib
import statistics
import tempfile
import time

Run = collections.namedtuple("Run", "seconds cpu megabytes")


def gpt(layers, hidden, heads, sequence=2048, vocabulary=51200):
    return {"model_type": "gpt2", "n_layer": layers, "n_embd": hidden, "n_head": heads, "n_positions": sequence,
            "vocab_size": vocabulary, "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}


GPT3, TRILLION = gpt(96, 12288, 96), gpt(128, 25600, 160)
CASES = [  # name, model, tp, pp, dp, goal in seconds, goal in MB
    ("GPT-3 175B, 1,024 ranks", GPT3, 8, 16, 8, 1.0, 200),
    ("1T, 16,384 ranks", TRILLION, 8, 64, 32, 2.0, None),
]
FLAT = [  # name, less, more
    ("depth: 24 to 96 layers, tp 8 pp 8 dp 8", (gpt(24, 12288, 96), 8, 8, 8), (GPT3, 8, 8, 8)),
    ("ranks: 64 to 1,024 (dp 1 to 16), tp 8 pp 8", (GPT3, 8, 8, 1), (GPT3, 8, 8, 16)),
]


def measure(mgc, where, model, tp, pp, dp, microbatches=None):
    """One compile, as a Run."""
    config = where / "config.json"
    config.write_text(json.dumps(model))
    flags = [f"--tp={tp}", f"--pp={pp}", f"--dp={dp}", "--seq=2048", "--mbs=1", f"--gbs={(microbatches or pp) * dp}"]
    begin = time.perf_counter()
    child = os.posix_spawn(mgc, [str(mgc), "compile", str(config), "-o", str(where / "plan"), *flags], os.environ,
                           file_actions=[(os.POSIX_SPAWN_OPEN, 2, str(where / "log"), os.O_WRONLY | os.O_CREAT, 0o600)])
    _, status, usage = os.wait4(child, 0)
    seconds = time.perf_counter() - begin
    if status:
        raise SystemExit((where / "log").read_text())
    return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def middle(runs, field):
    return statistics.median(getattr(run, field) for run in runs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default="build/release/bin")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    mgc = options.bin.resolve() / "mgc"
    with tempfile.TemporaryDirectory() as folder:
        where = pathlib.Path(folder)
        for name, model, tp, pp, dp, seconds, megabytes in CASES:
            runs = [measure(mgc, where, model, tp, pp, dp) for _ in range(options.runs + 1)][1:]
            memory = f" (goal {megabytes})" if megabytes else ""
            print(f"{name}: {middle(runs, 'seconds'):.2f} s (goal {seconds}), {middle(runs, 'cpu'):.2f} s of processor "
                  f"time, {max(run.megabytes for run in runs):.0f} MB{memory}", flush=True)
        for name, less, more in FLAT:
            # Equal numbers of microbatches: only the fact under test changes. The first pair warms up.
            pairs = [(measure(mgc, where, *less, 16).cpu, measure(mgc, where, *more, 16).cpu)
                     for _ in range(options.runs + 1)][1:]
            change = statistics.median(more / less for less, more in pairs)
            print(f"{name}: x {change:.2f} (goal 0.8 to 1.2)", flush=True)
    print(f"medians of {options.runs} runs, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
