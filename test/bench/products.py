#!/usr/bin/env python3
# Every matrix product of a plan: mgc's time (by rule, by rows, by columns: docs/plan-format.md) compared with oneDNN's
# (sgemm and the matmul primitive) and MKL's (PyTorch).
#
#   test/bench/products.py PLAN [--bin build/release/bin] [--peers build/peers] [--rounds 3] [--threads N]
#   test/bench/products.py --survey COUNT [--bin build/release/bin] [--threads N]
#
# Both programs live as long as the run and alternate product by product; a measurement is the best of some calls, a
# round has one of each. Printed, per product: how often a step calls it, GFLOP/s of each, and the fraction of the
# fastest library's speed that mgc reaches, the median over the rounds. A survey has COUNT products of random sizes of
# each kind that training has, as forward, of gradients of activations and of weights: how long each way takes relative
# to the fastest of them.
import argparse
import collections
import os
import pathlib
import random
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


SIZES = [64, 96, 128, 192, 256, 320, 384, 512, 640, 768, 1024, 1152, 1280, 1536, 2048, 2304, 3072, 4096]
TOKENS = [size for size in SIZES if size <= 1280]
KINDS = {"NN": (0, 0, 0), "NT": (0, 1, 0), "TN +=": (1, 0, 1)}
MOST = 2.5e9  # multiplications of a product


def random_product(kind):
    while True:
        m, n, k = random.choice(TOKENS), random.choice(SIZES), random.choice(SIZES)
        if m * n * k <= MOST:
            return [*((k, n, m) if kind == "TN +=" else (m, n, k)), *KINDS[kind]]


def survey(options):
    random.seed(7)
    ours = Side(options.bin / "mgc_products_bench")
    ways = COLUMNS[:-1]
    print(f"{'':8}{'':9}{'count':>6}" + "".join(f"{way:>16}" for way in ways))
    for kind in KINDS:
        rows = collections.defaultdict(list)
        for _ in range(options.survey):
            m, n, k, *flags = random_product(kind)
            unpacked = kind != "TN +=" and 1 / m + 1 / n > 1 / 510 or kind == "TN +=" and m >= 1024 and m % 256 == 0 and n <= 512
            rows["unpacked" if unpacked else "others"].append(ours.measure(m, n, k, *flags, options.threads, 6))
        for sizes, seconds in sorted(rows.items()):
            best = [min(row) for row in seconds]
            texts = [f"{statistics.geometric_mean(a / b for a, b in zip(column, best)):.2f} ({sum(column) / sum(best):.2f})"
                     for column in zip(*seconds)]
            print(f"{kind:8}{sizes:9}{len(best):6}" + "".join(f"{text:>16}" for text in texts), flush=True)
    print(f"time over that of the fastest way: geometric mean (of the sums), {options.threads} threads, load "
          f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("plan", type=pathlib.Path, nargs="?")
    parser.add_argument("--survey", type=int)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--peers", type=pathlib.Path, default=ROOT / "build/peers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="default: all cores")
    options = parser.parse_args()
    if (options.plan is None) == (options.survey is None) or (options.survey or 1) < 1:
        parser.error("expected PLAN, or --survey COUNT of at least 1")
    if options.survey:
        return survey(options)
    print(f"{'m x n x k':28}{'calls':>6}" + "".join(f"{name:>8}" for name in COLUMNS) + f"{'fraction':>10}")
    for one in measure(options.plan, options):
        print(f"{one.name:28}{one.calls:6}" + "".join(f"{rate:8.0f}" for rate in one.gflops) + f"{one.fraction:10.2f}",
              flush=True)
    print(f"GFLOP/s, {options.rounds} rounds, goal {GOAL} of the fastest, {options.threads} threads, load "
          f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
