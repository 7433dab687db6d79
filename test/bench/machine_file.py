#!/usr/bin/env python3
# A machine file for `mgc explain --machine`, from what mgrun measured here (docs/cost.md).
#
#   mgrun PLAN --mock-data --train-iters 10 --profile-json profile.json
#   test/bench/machine_file.py --bin build/release/bin profile.json machine.json
#   test/bench/machine_file.py --bin build/release/bin profile.json machine.json --compare PLAN
#
# A device is what one rank of that run had: rates of all ranks together, over the ranks. Values that a profile lacks
# (fractions of attention and row kernels, links, memory) are those of the machine cpu. --compare prints each part of
# the predicted step next to the part that the profile measured.
import argparse
import json
import pathlib
import subprocess

CPU = pathlib.Path(__file__).parents[2] / "compiler/cost/machines/cpu.json"
PARTS = [  # names in the profile, names in the prediction
    (("products",), ("products",)),
    (("attention",), ("attention",)),
    (("row kernels",), ("row_kernels",)),
    (("update", "moves"), ("optimizer", "moves")),
    (("collectives", "transfers"), ("tensor", "context", "gradients", "messages")),
    (("waiting", "idle", "between instructions"), ("bubble",)),
]


def machine_of(profile):
    machine, ranks = json.loads(CPU.read_text()), profile["ranks"]
    measured = f"measured by mgrun --profile-json, {ranks} ranks with {profile['threads_per_rank']} threads each"
    machine["name"] = "measured"
    machine["device"] = f"a rank's share of this machine: {profile['threads_per_rank']} threads"
    f32, bf16 = profile["gemm_flops_per_second"], profile["bf16_gemm_flops_per_second"]
    machine["flops"] = {"f32": f32 / ranks, "bf16": (bf16 or f32) / ranks}
    machine["memory"]["bandwidth"] = profile["memory_bytes_per_second"] / ranks
    machine["sources"] |= {"flops": measured, "memory": f"bandwidth: {measured}; others as the machine cpu"}
    return machine


def compare(mgc, plan, path, profile):
    explained = subprocess.run([mgc, "explain", plan, "--machine", path, "--json"], capture_output=True, text=True, check=True)
    prediction = json.loads(explained.stdout)["prediction"]
    print(f"{'part':<36} {'predicted':>12} {'measured':>12} {'ratio':>6}")
    rows = [(" + ".join(names), sum(prediction["parts"][key] for key in keys), sum(profile["parts"].get(n, 0) for n in names))
            for names, keys in PARTS]
    rows.append(("step (measured: median)", prediction["seconds"], profile["step_seconds"]))
    for name, predicted, measured in rows:
        ratio = f"{predicted / measured:6.2f}" if measured > 0 else ""
        print(f"{name:<36} {1e3 * predicted:>9.2f} ms {1e3 * measured:>9.2f} ms {ratio}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default="build/release/bin")
    parser.add_argument("profile", type=pathlib.Path)
    parser.add_argument("machine", type=pathlib.Path)
    parser.add_argument("--compare", metavar="PLAN")
    options = parser.parse_args()
    profile = json.loads(options.profile.read_text())
    options.machine.write_text(json.dumps(machine_of(profile), indent=1) + "\n")
    if options.compare:
        compare(options.bin.resolve() / "mgc", options.compare, options.machine, profile)


if __name__ == "__main__":
    main()
