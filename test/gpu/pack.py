#!/usr/bin/python3
"""Compiles all that scripts/gpu-check runs, and gathers the packages that the runtime is built with, into one folder.

    pack.py --bin build/release/bin --out build/gpu-check

The folder and a checkout are all that the machine with the GPU needs besides CUDA, CMake, Ninja and a C++ compiler.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys

import cases

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "test/e2e"))
import layouts  # noqa: E402

# Debian packages of scripts/packages that the runtime and its tests are built with, and those that they need at run time.
PACKAGES = ("libfmt-dev", "libfmt9", "nlohmann-json3-dev", "libcli11-dev", "libgtest-dev", "libdnnl-dev", "libdnnl2", "libgomp1",
            "ocl-icd-libopencl1")


def execute(*command):
    """Its output; the whole script ends when it fails."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def copy_package(name, out):
    """The files of an installed package, links as links, under `out`."""
    for line in execute("dpkg", "-L", name).splitlines():
        path = pathlib.Path(line)
        to = out / path.relative_to("/")
        if "/share/doc/" in line or "/share/man/" in line or (path.is_dir() and not path.is_symlink()):
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, to, follow_symlinks=False)


def compile_plan(options, out, config, *flags, target=cases.TARGET):
    execute(options.bin / "mgc", "compile", config, *flags, "--target", target, "-o", out)
    return out


def bytes_of(plan):
    text = (plan / "plan.json").read_text(encoding="utf-8")
    return max(stage["bytes"] for stage in json.loads(text)["plan"]["stages"])


def pack_goldens(options):
    for model in cases.GOLDEN_MODELS:
        golden = ROOT / "test/golden" / model
        expect = json.loads((golden / "expect.json").read_text(encoding="utf-8"))
        for dtype in cases.GOLDEN_DTYPES:
            for layout in layouts.select(",".join(cases.GOLDEN_LAYOUTS)):
                compile_plan(options, options.out / "golden" / dtype / model / str(layout), golden / "config.json", *layout.flags(),
                             "--seq", expect["s"], "--gbs", expect["gbs"], "--dtype", dtype)


def write_config(config, layers, out):
    facts = json.loads((ROOT / config).read_text(encoding="utf-8"))
    out.write_text(json.dumps({**facts, "num_hidden_layers": layers}, indent=1), encoding="utf-8")
    return out


def pack_bench(options, bench):
    """The plan with the most layers that takes no more than bench.gigabytes."""
    out = options.out / "bench" / bench.name
    out.mkdir(parents=True)

    def attempt(layers):
        config = write_config(bench.config, layers, out / "config.json")
        plan = compile_plan(options, out / "plan", config, "--seq", bench.sequence, "--mbs", bench.batch, "--gbs", bench.batch,
                            *bench.flags)
        return bytes_of(plan)
    most = bench.gigabytes * 10**9
    one, two = attempt(1), attempt(2)  # every layer takes as much as the one before it
    layers = 1 + (most - one) // (two - one)
    if layers < 1:
        raise SystemExit(f"{bench.name}: one layer takes {one} bytes")
    while attempt(layers) > most:
        layers -= 1
    (out / "case.json").write_text(json.dumps({"layers": layers, "sequence": bench.sequence, "batch": bench.batch,
                                               "bytes": bytes_of(out / "plan")}), encoding="utf-8")
    print(f"pack: {bench.name}: {layers} layers, {bytes_of(out / 'plan') / 1e9:.1f} GB")


def pack_refusals(options):
    config, flags = cases.TOO_LARGE
    compile_plan(options, options.out / "refused" / "too-large", ROOT / config, *flags)
    compile_plan(options, options.out / "refused" / "too-new", ROOT / "examples/tiny-gpt/config.json", "--seq", 64, "--gbs", 2,
                 target=cases.TOO_NEW)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of mgc")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="replaced")
    options = parser.parse_args()
    if options.out.exists() and not (options.out / "packed.json").exists() and any(options.out.iterdir()):
        raise SystemExit(f"{options.out}: not empty, and no folder that this script made: remove it or name another")
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    commit = execute("git", "-C", ROOT, "rev-parse", "HEAD").strip()
    (options.out / "packed.json").write_text(json.dumps({"commit": commit}), encoding="utf-8")
    for package in PACKAGES:
        copy_package(package, options.out / "packages")
    pack_goldens(options)
    for bench in cases.BENCHES:
        pack_bench(options, bench)
    pack_refusals(options)
    size = sum(file.stat().st_size for file in options.out.rglob("*") if file.is_file() and not file.is_symlink())
    print(f"pack: {options.out}: {size / 1e6:.0f} MB; take it and the checkout to the machine with the GPU, then: scripts/gpu-check")


if __name__ == "__main__":
    main()
