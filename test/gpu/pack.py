#!/usr/bin/python3
"""Compiles all that scripts/gpu-check runs, and gathers the packages that the runtime is built with, into one folder.

    pack.py --bin build/release/bin --out build/gpu-check
    pack.py --bin build/release/bin --out small --models llama --benches none --packages none

The folder and a checkout are all that the machine with the GPU needs besides CUDA, CMake, Ninja and a C++ compiler.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

import cases

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "test/e2e"))
import layouts  # noqa: E402

# Debian packages of scripts/packages that the runtime and its tests are built with, and those that they need at run
# time in addition to what every C++ compiler brings.
PACKAGES = ("libfmt-dev", "libfmt9", "nlohmann-json3-dev", "libcli11-dev", "libgtest-dev", "libdnnl-dev", "libdnnl2",
            "ocl-icd-libopencl1")
MOST_BYTES = 55 << 20   # it travels
MOST_GLIBC = (2, 35)    # Ubuntu 22.04's: the packed libraries must not ask for a newer one


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


def newest_glibc(folder):
    """The newest version of glibc that a library in the folder asks for, and that library."""
    libraries = [path for path in folder.rglob("*.so*") if path.is_file() and not path.is_symlink()]
    found = [(tuple(map(int, version)), path.name) for path in libraries
             for version in re.findall(r"GLIBC_(\d+)\.(\d+)", execute("objdump", "-T", path))]
    return max(found)


def pack_packages(options):
    """One archive: links stay links wherever it is taken."""
    with tempfile.TemporaryDirectory() as text:
        folder = pathlib.Path(text) / "packages"
        for package in PACKAGES:
            copy_package(package, folder)
        version, library = newest_glibc(folder)
        if version > MOST_GLIBC:
            raise SystemExit(f"{library} of this system's packages needs glibc {version[0]}.{version[1]}; expected at most "
                             f"{MOST_GLIBC[0]}.{MOST_GLIBC[1]}, that of the oldest system to run on")
        with tarfile.open(options.out / "packages.tar.gz", "w:gz", compresslevel=6) as archive:
            archive.add(folder / "usr", "usr")


def compile_plan(options, out, config, *flags, target=cases.TARGET):
    execute(options.bin / "mgc", "compile", config, *flags, "--target", target, "-o", out)
    return out


def bytes_of(plan):
    text = (plan / "plan.json").read_text(encoding="utf-8")
    return max(stage["bytes"] for stage in json.loads(text)["plan"]["stages"])


def pack_goldens(options):
    for goldens in cases.GOLDENS:
        for model in filter(options.models.__contains__, goldens.models):
            golden = ROOT / "test/golden" / model
            expect = json.loads((golden / "expect.json").read_text(encoding="utf-8"))
            for dtype in goldens.dtypes:
                for layout in layouts.select(",".join(goldens.layouts), goldens is cases.EXPERTS):
                    compile_plan(options, options.out / "golden" / dtype / model / str(layout), golden / "config.json",
                                 *layout.flags(), "--seq", expect["s"], "--gbs", expect["gbs"], *expect.get("flags", []),
                                 "--dtype", dtype)


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
        plan = compile_plan(options, out / "plan", config, "--seq", bench.sequence, "--mbs", bench.batch, "--gbs",
                            bench.batch * bench.microbatches,
                            *bench.flags)
        return bytes_of(plan)
    most, begin = bench.gigabytes * 10**9, time.monotonic()
    one, two = attempt(1), attempt(2)  # every layer takes as much as the one before it
    layers = 1 + (most - one) // (two - one)
    if layers < 1:
        raise SystemExit(f"{bench.name}: one layer takes {one} bytes")
    while attempt(layers) > most:
        layers -= 1
    (out / "case.json").write_text(json.dumps({"layers": layers, "sequence": bench.sequence, "batch": bench.batch,
                                               "microbatches": bench.microbatches,
                                               "bytes": bytes_of(out / "plan")}), encoding="utf-8")
    print(f"pack: {bench.name}: {layers} layers, {bytes_of(out / 'plan') / 1e9:.1f} GB, {time.monotonic() - begin:.1f} s for "
          "the plans of 1, 2 and so many layers")


def pack_refusals(options):
    config, flags = cases.TOO_LARGE
    compile_plan(options, options.out / "refused" / "too-large", ROOT / config, *flags)
    compile_plan(options, options.out / "refused" / "too-new", ROOT / "examples/tiny-gpt/config.json", "--seq", 64, "--gbs", 2,
                 target=cases.TOO_NEW)


def choice(every):
    """The parser of a flag: names separated by commas, all, or none."""
    def parse(text):
        names = {"all": tuple(every), "none": ()}.get(text, tuple(text.split(",")))
        if unknown := set(names) - set(every):
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: expected some of {', '.join(every)}, or all, or none")
        return names
    return parse


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of mgc")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="replaced")
    parser.add_argument("--models", type=choice(cases.GOLDEN_MODELS), default=cases.GOLDEN_MODELS, help="of the golden runs")
    benches = [bench.name for bench in cases.BENCHES]
    parser.add_argument("--benches", type=choice(benches), default=benches)
    parser.add_argument("--packages", choices=("all", "none"), default="all", help="none: where the runtime is built already")
    options = parser.parse_args()
    if options.out.exists() and not (options.out / "packed.json").exists() and any(options.out.iterdir()):
        parser.error(f"--out {options.out}: not empty, and no folder that this script made: remove it or name another")
    return options


def main():
    options = parse_arguments()
    shutil.rmtree(options.out, ignore_errors=True)
    try:
        options.out.mkdir(parents=True)
    except OSError as error:
        raise SystemExit(f"pack: --out {options.out}: {error.strerror}; expected a folder that can be made") from error
    facts = {"commit": execute("git", "-C", ROOT, "rev-parse", "HEAD").strip(), "models": options.models, "benches": options.benches}
    (options.out / "packed.json").write_text(json.dumps(facts), encoding="utf-8")
    if options.packages == "all":
        pack_packages(options)
    pack_goldens(options)
    for bench in cases.BENCHES:
        if bench.name in options.benches:
            pack_bench(options, bench)
    pack_refusals(options)
    sizes = {part.name: sum(file.stat().st_size for file in [part, *part.rglob("*")] if file.is_file()) for part in
             sorted(options.out.iterdir())}
    size = sum(sizes.values())
    text = f"{options.out}: {size / 2**20:.1f} MiB (" + ", ".join(f"{name} {part / 2**20:.1f}" for name, part in sizes.items()) + ")"
    if size > MOST_BYTES:
        raise SystemExit(f"pack: {text}; expected at most {MOST_BYTES >> 20} MiB: fewer --models or --benches would do")
    print(f"pack: {text}; take it and the checkout to the machine with the GPU, then: scripts/gpu-check")


if __name__ == "__main__":
    main()
