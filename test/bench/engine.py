#!/usr/bin/env python3
# Steps of mgrun on CPU ranks compared with those of another build of it, on the same plans.
#
#   test/bench/engine.py --bin build/release/bin --peer MGRUN [--rounds 5] [--steps 8] [--only CASE,...] [--peer-plans MGC]
#
# Each round runs every plan with both, one after the other, the second round in the other order. Prints, per case, the
# peer's seconds over the own ones, for the median step and for the best one: above 1 is faster than the peer. The first
# two steps of a run warm up. Losses must be equal to the bit. --peer-plans: the peer runs plans that this mgc has
# compiled.
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

from contest import WARMUP, steps_in

TINY = {"model_type": "gpt2", "n_layer": 4, "n_embd": 128, "n_head": 4, "n_positions": 128, "vocab_size": 512}
SMALL = {"model_type": "gpt2", "n_layer": 6, "n_embd": 512, "n_head": 8, "n_positions": 256, "vocab_size": 8192}
CASES = {  # model, steps per measured one, flags
    "one": (SMALL, 1, "--seq 256 --mbs 2 --gbs 4"),
    "dp2": (SMALL, 1, "--dp 2 --seq 256 --mbs 2 --gbs 4"),
    "dp2-overlap": (SMALL, 1, "--dp 2 --zero 1 --overlap-grad-reduce --ddp-bucket-size 1000000 --seq 256 --mbs 2 --gbs 4"),
    "tp2": (SMALL, 1, "--tp 2 --seq 256 --mbs 2 --gbs 4"),
    "pp2": (SMALL, 1, "--pp 2 --schedule zb-h1 --seq 256 --mbs 1 --gbs 4"),
    "eight": (SMALL, 1, "--tp 2 --pp 2 --dp 2 --seq 256 --mbs 1 --gbs 8"),
    "tiny-tp2": (TINY, 10, "--tp 2 --seq 64 --mbs 1 --gbs 4"),
    "tiny-pp4": (TINY, 10, "--pp 4 --seq 64 --mbs 1 --gbs 16"),
}


def compiled(mgc, model, flags, folder):
    config = folder.with_suffix(".json")
    config.write_text(json.dumps(model | {"attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}))
    subprocess.run([mgc, "compile", config, *flags.split(), "-o", folder], check=True, capture_output=True)
    return folder


def run(mgrun, plan, steps, log):
    log.unlink(missing_ok=True)
    subprocess.run([mgrun, plan, "--train-iters", str(steps), "--mock-data", "--log", log], check=True, capture_output=True)
    return steps_in(log)


def seconds(steps, often):
    return sorted(step["seconds"] for step in steps[WARMUP * often:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--peer", type=pathlib.Path, required=True)
    parser.add_argument("--peer-plans", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    chosen = [name for name in options.only.split(",") if name] or list(CASES)
    with tempfile.TemporaryDirectory() as scratch:
        where = pathlib.Path(scratch)
        for name in chosen:
            model, often, flags = CASES[name]
            own = compiled(options.bin / "mgc", model, flags, where / name)
            peers = compiled(options.peer_plans, model, flags, where / f"{name}-peer") if options.peer_plans else own
            sides = [(options.peer, peers), (options.bin / "mgrun", own)]
            taken = [[], []]
            for number in range(options.rounds):
                losses = [None, None]
                for side in ((0, 1), (1, 0))[number % 2]:
                    steps = run(*sides[side], options.steps * often, where / "log.jsonl")
                    taken[side].append(seconds(steps, often))
                    losses[side] = [step["loss"] for step in steps]
                if losses[0] != losses[1]:
                    raise SystemExit(f"{name}: the losses differ: {losses}")
            medians = [statistics.median(statistics.median(one) for one in side) for side in taken]
            ratios = [statistics.median(one) / statistics.median(other) for one, other in zip(*taken)]
            best = min(one[0] for one in taken[0]) / min(one[0] for one in taken[1])
            print(f"{name:12} peer / own x{statistics.median(ratios):.3f}, best steps x{best:.3f}"
                  f"   ({medians[0] * 1e3:.1f} / {medians[1] * 1e3:.1f} ms)", flush=True)


if __name__ == "__main__":
    main()
