"""PyTorch's matrix products (MKL), timed for test/bench/products.py: lines of m n k transposeA transposeB accumulate
threads repeats, answered by the best seconds."""
import sys
import time

import torch


def product(m, n, k, transpose_a, transpose_b, accumulate):
    a = torch.randn(k, m).T if transpose_a else torch.randn(m, k)
    b = torch.randn(n, k).T if transpose_b else torch.randn(k, n)
    c = torch.zeros(m, n)
    return (lambda: c.addmm_(a, b)) if accumulate else (lambda: torch.mm(a, b, out=c))


def seconds(body):
    begin = time.perf_counter()
    body()
    return time.perf_counter() - begin


for line in sys.stdin:
    *shape, threads, repeats = map(int, line.split())
    torch.set_num_threads(threads)
    body = product(*shape)
    body()
    print(min(seconds(body) for _ in range(repeats)), flush=True)
