"""PyTorch's scaled_dot_product_attention, timed for test/bench/attention.py: one case per line of input,

    s b g r d window threads repeats

answered by the median seconds of forward and of backward. Its best case: contiguous [b, heads, s, d], keys and values of
fewer heads without a copy, masks only where PyTorch has no other word for them (windows).
"""
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


def seconds(body, repeats):
    times = []
    for _ in range(repeats + 1):  # the first warms up
        begin = time.perf_counter()
        body()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])


def measure(s, b, g, r, d, window, threads, repeats):
    torch.set_num_threads(threads)
    q = torch.randn(b, g * r, s, d, requires_grad=True)
    k, v = (torch.randn(b, g, s, d, requires_grad=True) for _ in range(2))
    gradient = torch.randn(b, g * r, s, d)
    masks = {"is_causal": True}
    if window:
        distance = torch.arange(s)[:, None] - torch.arange(s)[None, :]
        masks = {"attn_mask": (distance >= 0) & (distance < window)}

    def forward():
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v, enable_gqa=r > 1, **masks)

    o = forward()
    return seconds(forward, repeats), seconds(
        lambda: torch.autograd.grad(o, (q, k, v), gradient, retain_graph=True), repeats)


def main():
    for line in sys.stdin:
        print(*measure(*map(int, line.split())), flush=True)


if __name__ == "__main__":
    main()
