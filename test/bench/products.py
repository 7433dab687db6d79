#!/usr/bin/env python3
# Every matrix product of a plan: mgc's time (by rule, by rows, by columns: docs/plan-format.md) beside oneDNN's (sgemm and
# the matmul primitive) and MKL's (PyTorch).
#
#   test/bench/products.py PLAN [--bin build/release/bin] [--peers build/peers] [--rounds 3] [--threads N]
#
# Both programs live as long as the run and take turns product by product; a measurement is the best of some calls, a
# round has one of each. Printed, per product: how often a step calls it, GFLOP/s of each, and the fraction of the
# fastest library's speed that mgc reaches, the median over the rounds.
import argparse
import collections
import os
import pathlib
import statistics
import subprocess

from contest import PEERS, ROOT, Side

GOAL = 0.95
Timed = collections.namedtuple("Timed", "name calls gflops fraction")  # gflops: as COLUMNS
COLUMNS = ("mgc", "rows", "columns", "sgemm", "matmul", "MKL")
LIBRARIES = COLUMNS.index("sgemm")  # and those after it


def products_of(plan, options):
    """[m, n, k, transposeA, transposeB, accumulate], calls."""
    listed = subprocess.run([options.bin / "mgc_products_bench", plan], check=True, capture_output=True, text=True)
    for line in listed.stdout.splitlines():
        *product, calls = map(int, line.split())
        if product[0] > 1 and product[1] > 1:  # a sum, no product of matrices
            yield product, calls


def name_of(m, n, k, transpose_a, transpose_b, accumulate):
    return f"{m} x {n} x {k} {'NT'[transpose_a]}{'NT'[transpose_b]}{' +=' if accumulate else ''}"


def timed(product, calls, ours, theirs, options):
    m, n, k = product[:3]
    flops = 2 * m * n * k
    case = [*product, options.threads, max(1, min(20, int(3e10 // flops)))]
    rounds = [ours.measure(*case) + theirs.measure(*case) for _ in range(options.rounds)]
    fraction = statistics.median(min(one[LIBRARIES:]) / one[0] for one in rounds)
    rates = [flops / statistics.median(column) / 1e9 for column in zip(*rounds)]
    return Timed(name_of(*product), calls, rates, fraction)


def measure(plan, options):
    ours = Side(options.bin / "mgc_products_bench")
    theirs = Side("env", "THP_MEM_ALLOC_ENABLE=1", options.peers / "bin/python", PEERS / "products.py")
    for product, calls in products_of(plan, options):
        yield timed(product, calls, ours, theirs, options)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("plan", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--peers", type=pathlib.Path, default=ROOT / "build/peers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="default: all cores")
    options = parser.parse_args()
    print(f"{'m x n x k':28}{'calls':>6}" + "".join(f"{name:>8}" for name in COLUMNS) + f"{'fraction':>10}")
    for one in measure(options.plan, options):
        print(f"{one.name:28}{one.calls:6}" + "".join(f"{rate:8.0f}" for rate in one.gflops) + f"{one.fraction:10.2f}",
              flush=True)
    print(f"GFLOP/s, {options.rounds} rounds, goal {GOAL} of the fastest, {options.threads} threads, load "
          f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
