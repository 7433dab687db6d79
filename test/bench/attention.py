#!/usr/bin/env python3
# Attention alone compared with PyTorch's scaled_dot_product_attention: causal, fp32, forward and backward.
#
#   test/bench/setup-peers                                                   once: PyTorch into build/peers
#   test/bench/attention.py [--bin build/release/bin] [--peers build/peers] [--rounds 5] [--threads N] [--case NAME ..]
#
# Both sides live as long as the run and alternate case by case; a measurement is the median of some calls, a round has
# one of each. Printed, per case: mgc's median milliseconds and GFLOP/s (of the visible pairs: 4 d forward, 10 d
# backward), and PyTorch's time over mgc's, the median over the rounds.
import argparse
import os
import pathlib
import statistics

from contest import PEERS, ROOT, Side

CASES = {  # s, b, g, r, d, window
    "seq256": (256, 4, 12, 1, 64, 0),
    "seq1024": (1024, 1, 12, 1, 64, 0),
    "seq8192": (8192, 1, 12, 1, 64, 0),
    "gqa": (1024, 1, 8, 4, 128, 0),
    "window": (4096, 1, 12, 1, 64, 512),
}
GOAL = 1.5


def visible_pairs(s, window):
    return sum(min(i + 1, window or s) for i in range(s))


def flops(case):
    """Flops of forward and of backward."""
    s, b, g, r, d, window = case
    pairs = visible_pairs(s, window) * b * g * r
    return [4 * d * pairs, 10 * d * pairs]


def rounds_of(case, ours, theirs, options):
    repeats = max(1, min(20, int(4e9 // flops(case)[0])))
    for _ in range(options.rounds):
        yield [ours.measure(*case, options.threads, repeats), theirs.measure(*case, options.threads, repeats)]


def columns(rounds, work, of):
    """Milliseconds, GFLOP/s and ratio of one column, `of` of the times."""
    seconds = statistics.median(of(ours) for ours, _ in rounds)
    ratio = statistics.median(of(theirs) / of(ours) for ours, theirs in rounds)
    return f"{seconds * 1e3:9.2f}{work / seconds / 1e9:8.0f}{ratio:8.2f}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--peers", type=pathlib.Path, default=ROOT / "build/peers")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="default: all cores")
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES))
    options = parser.parse_args()
    ours = Side(options.bin / "mgc_attention_bench")
    theirs = Side(options.peers / "bin" / "python", PEERS / "attention.py")
    print(f"{'':10}" + "".join(f"{name + ' ms':>9}{'GF/s':>8}{'ratio':>8}" for name in ("fwd", "bwd", "both")))
    for name in options.case:
        case, work = CASES[name], flops(CASES[name])
        rounds = list(rounds_of(case, ours, theirs, options))
        print(f"{name:10}" + columns(rounds, work[0], lambda t: t[0]) + columns(rounds, work[1], lambda t: t[1]) +
              columns(rounds, sum(work), sum), flush=True)
    print(f"ratio: PyTorch's time over mgc's (goal {GOAL}); {options.rounds} rounds, {options.threads} threads, load "
          f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
