#!/usr/bin/env python3
"""collectives_beside.py BIN ROOT: how many collectives of a step of Llama overlap matrix products, as mgrun says it.

Run on the stand-ins of CUDA's libraries. With tp 2 a backward pass of a layer reduces the input gradients of two
matrix products, in parallel with those of their weights. With sequence parallelism it also gathers the two inputs
that the latter need, in parallel with the former; the head reduces one too. With a2a it exchanges the cotangents of
queries, keys and values in parallel with the product for the weight of attention's projection. Streams that pause at
random give the bits of those that do not.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

BESIDE = re.compile(r"(\d+) of (\d+) collectives of a step beside products")
RANKS, MICROBATCHES = 2, 2


def run(command, **variables):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                          env=os.environ | variables)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stderr


def train(binaries, plan, log, emulation):
    said = run([binaries / "mgrun", plan, "--mock-data", "--train-iters", 3, "--log", log],
               MGC_EMULATE_CUDA=emulation)
    steps = [json.loads(line) for line in log.read_text().splitlines()]
    found = BESIDE.search(said)
    assert found, said
    return [int(number) for number in found.groups()], [(step["loss"], step["grad_norm"]) for step in steps]


def check(binaries, model, layers, flags, beside_of_layer, beside_of_head, folder):
    run([binaries / "mgc", "compile", model, "--target", "cuda:sm_90", "--dtype", "bf16", "--seq", 16,
         "--mbs", 1, "--gbs", MICROBATCHES, *flags, "-o", folder / "plan"])
    (beside, total), calm = train(binaries, folder / "plan", folder / "calm.jsonl", "devices=1")
    expected = RANKS * MICROBATCHES * (beside_of_layer * layers + beside_of_head)
    print(f"{' '.join(flags)}: {beside} of {total} collectives beside products, expected {expected}")
    assert beside == expected
    for seed in range(1, 4):
        count, delayed = train(binaries, folder / "plan", folder / f"delayed{seed}.jsonl",
                               f"devices=1,delay=300,seed={seed}")
        assert count == [beside, total]
        assert delayed == calm, f"{flags}, seed {seed}: {delayed}, without delays {calm}"


def main():
    binaries, root = Path(sys.argv[1]), Path(sys.argv[2])
    model = root / "test/golden/llama/config.json"
    layers = json.loads(model.read_text())["num_hidden_layers"]
    for flags, of_layer, of_head in [("--tp 2 --no-sp", 2, 1), ("--tp 2 --sp", 4, 1), ("--cp 2 --cp-comm-type a2a", 1, 0)]:
        with tempfile.TemporaryDirectory() as folder:
            check(binaries, model, layers, flags.split(), of_layer, of_head, Path(folder))


main()
