#!/usr/bin/env python3
"""collectives_overlap.py BIN ROOT: how many collectives of a step of Llama overlap matrix products, as mgrun says it.

Run on the stand-ins of CUDA's libraries. With tp 2 a backward pass of a layer reduces the input gradients of two
matrix products, in parallel with those of their weights. With sequence parallelism it also gathers the two inputs
that the latter need, in parallel with the former; the head reduces one too. With a2a it exchanges the cotangents of
queries, keys and values in parallel with the product for the weight of attention's projection. Streams that pause at
random give the bits of those that do not.
"""

import json
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))
from tool_runs import CLEAN, GOLDEN, compile_plan, records, run  # noqa: E402

OVERLAP = re.compile(r"(\d+) of (\d+) collectives of a step overlap products")
RANKS, MICROBATCHES = 2, 2
MODEL = GOLDEN / "llama/config.json"


def train(folder, name, emulation):
    said = run("mgrun", folder / "plan", "--mock-data", "--train-iters", 3, "--log", folder / name,
               env=CLEAN | {"MGC_EMULATE_CUDA": emulation}).stderr
    found = OVERLAP.search(said)
    assert found, said
    return [int(number) for number in found.groups()], [(step["loss"], step["grad_norm"]) for step in records(folder / name)]


def check(layers, flags, overlapped_of_layer, overlapped_of_head, folder):
    compile_plan(folder / "plan", MODEL, "--target cuda:sm_90 --dtype bf16 --seq 16 --mbs 1 --gbs", MICROBATCHES, flags)
    (overlapped, total), calm = train(folder, "calm.jsonl", "devices=1")
    expected = RANKS * MICROBATCHES * (overlapped_of_layer * layers + overlapped_of_head)
    print(f"{flags}: {overlapped} of {total} collectives overlap products, expected {expected}")
    assert overlapped == expected
    for seed in range(1, 4):
        count, delayed = train(folder, f"delayed{seed}.jsonl", f"devices=1,delay=300,seed={seed}")
        assert count == [overlapped, total]
        assert delayed == calm, f"{flags}, seed {seed}: {delayed}, without delays {calm}"


def main():
    layers = json.loads(MODEL.read_text())["num_hidden_layers"]
    for flags, of_layer, of_head in [("--tp 2 --no-sp", 2, 1), ("--tp 2 --sp", 4, 1), ("--cp 2 --cp-comm-type a2a", 1, 0)]:
        with tempfile.TemporaryDirectory() as folder:
            check(layers, flags, of_layer, of_head, Path(folder))


main()
