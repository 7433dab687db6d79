#!/usr/bin/env python3
"""Builds the runtime on a machine with an NVIDIA GPU, runs all that needs one, and prints one table.

    check.py --pack build/gpu-check                   what pack.py made; needs nvcc, CMake, Ninja, a C++ compiler, Python, numpy
    check.py --pack build/gpu-check --only build,goldens

A check whose tool is missing is reported as skipped, never as passed. Nothing is fetched, nothing installed; all files go to
build/cuda and to --out. Ends with 0 when nothing failed and at least one check passed.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

import cases

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build/cuda"
WARMUP = 3  # steps
BF16_PEAK = {"H100": 989e12, "H200": 989e12, "B200": 2250e12, "A100": 312e12}  # dense, FLOP/s, NVIDIA's data sheets


@dataclass
class Row:
    check: str
    outcome: str  # passed, failed, skipped
    detail: str


def passed(check, detail):
    return Row(check, "passed", detail)


def failed(check, detail):
    return Row(check, "failed", detail)


def skipped(check, detail):
    return Row(check, "skipped", detail)


class Run:
    """What the checks share."""

    def __init__(self, options):
        self.options, self.pack, self.out = options, options.pack, options.out
        self.bin = BUILD / "bin"
        packages = self.pack / "packages/usr"
        libraries = f"{packages}/lib/x86_64-linux-gnu"
        self.environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(filter(None, (os.environ.get("LD_LIBRARY_PATH"),
                                                                                 *options.libraries, libraries)))}
        self.prefix = packages
        self.gpu = None  # name, memory in bytes

    def execute(self, name, *command, timeout=240):
        """Exit code and output, which stays in out/name.txt too."""
        path = self.out / f"{name}.txt"
        with open(path, "w", encoding="utf-8") as file:
            try:
                code = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=file,
                                      stderr=subprocess.STDOUT, env=self.environment, timeout=timeout, check=False).returncode
            except subprocess.TimeoutExpired:
                code = 124
            except OSError as error:
                file.write(str(error))
                code = 127
        return code, path.read_text(encoding="utf-8", errors="replace")


def last_lines(text, count=3):
    return " / ".join(line.strip() for line in text.strip().splitlines()[-count:])[-400:]


# --- The checks, in order

def check_device(run):
    code, text = run.execute("device", "nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits")
    if code:
        return [skipped("device", f"no GPU that nvidia-smi knows: {last_lines(text)}")]
    name, megabytes, driver = (part.strip() for part in text.splitlines()[0].split(","))
    run.gpu = (name, int(megabytes) * 2**20)
    return [passed("device", f"{name}, {megabytes} MiB, driver {driver}")]


def check_build(run):
    begin = time.monotonic()
    steps = (("configure", "cmake", "--preset", "cuda", "-S", ROOT, f"-DCMAKE_PREFIX_PATH={run.prefix}",
              f"-DCMAKE_INCLUDE_PATH={run.prefix}/include", f"-DCMAKE_LIBRARY_PATH={run.prefix}/lib/x86_64-linux-gnu",
              f"-DMGC_CUDA_WHEELS={';'.join(map(str, run.options.wheels))}"),
             ("build", "cmake", "--build", BUILD))
    for name, *command in steps:
        code, text = run.execute(name, *command, timeout=400)
        if code:
            return [failed(name, last_lines(text, 6))]
    return [passed("build", f"{time.monotonic() - begin:.0f} s")]


def check_conformance(run):
    """The tests of the tree with the label gpu; ctest counts what was skipped."""
    code, text = run.execute("conformance", "ctest", "--test-dir", BUILD, "-L", "gpu", "--output-on-failure", "-j", "4", timeout=240)
    summary = re.search(r"(\d+)% tests passed, (\d+) tests failed out of (\d+)", text)
    if not summary:
        return [failed("conformance", last_lines(text))]
    names = re.findall(r"^\s+\d+ - (\S+) \((\w[\w ]*)\)", text, re.MULTILINE)
    rows = [(skipped if "kipped" in why else failed)("conformance", f"{test}: {why}") for test, why in names]
    count = int(summary[3]) - len(names)
    return rows + ([passed("conformance", f"{count} of {summary[3]} test programs")] if count and not code else [])


def check_goldens(run):
    rows = []
    for dtype in cases.GOLDEN_DTYPES:
        name = f"goldens-{dtype}"
        code, text = run.execute(name, sys.executable, ROOT / "test/e2e/golden.py", "--bin", run.bin, "--dtype", dtype, "--target", cases.TARGET, "--plans",
                                 run.pack / "golden" / dtype, *(f"--model={model}" for model in cases.GOLDEN_MODELS), "--layouts",
                                 ",".join(cases.GOLDEN_LAYOUTS), "--jobs", 4, timeout=240)
        rows.append((failed if code else passed)(name, last_lines(text, 1 if not code else 4)))
    return rows


def train(run, name, plan, *flags, wrapper=(), timeout=200):
    log = run.out / f"{name}.jsonl"
    code, text = run.execute(name, *wrapper, run.bin / "mgrun", plan, "--mock-data", "--log", log, *flags, timeout=timeout)
    steps = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return code, text, steps


def check_repeat(run):
    """The same plan twice, to the bit."""
    plan = run.pack / "golden/bf16/llama" / cases.GOLDEN_LAYOUTS[-1]
    texts = []
    for number in (1, 2):
        out = run.out / f"weights-{number}"
        code, text, steps = train(run, f"repeat-{number}", plan, "--train-iters", 5, "--save", out)
        if code:
            return [failed("repeat", last_lines(text))]
        texts.append(([(step["loss"], step["grad_norm"]) for step in steps], (out / "model.safetensors").read_bytes()))
    return [(passed if texts[0] == texts[1] else failed)("repeat", "losses, norms and weights of two runs")]


def check_sanitizer(run):
    tool = shutil.which("compute-sanitizer")
    if not tool:
        return [skipped("sanitizer", "compute-sanitizer is not on the PATH")]
    rows = []
    for kind in ("memcheck", "racecheck", "initcheck"):
        plan = run.pack / "golden/bf16/llama" / cases.GOLDEN_LAYOUTS[0]
        code, text, _ = train(run, f"sanitizer-{kind}", plan, "--train-iters", 1,
                              wrapper=(tool, "--tool", kind, "--error-exitcode", "9", "--target-processes", "all"), timeout=100)
        if "not supported" in text and code:
            rows.append(skipped(f"sanitizer {kind}", last_lines(text)))
        else:
            rows.append((failed if code else passed)(f"sanitizer {kind}", last_lines(text, 1)))
    return rows


def check_refusals(run):
    rows = []
    for name, words in (("too-large", ("free", "needed")), ("too-new", ("sm_100",))):
        code, text, _ = train(run, name, run.pack / "refused" / name, "--train-iters", 1, timeout=60)
        good = code not in (0, 124) and code < 128 and all(word in text for word in words)
        rows.append((passed if good else failed)(f"refusal {name}", last_lines(text, 2)))
    return rows


# --- Speed

def matrix_flops(case, config):
    """Floating-point operations of a step's products and causal attention, forward and backward: what MFU counts."""
    hidden, inner, layers = config["hidden_size"], config["intermediate_size"], case["layers"]
    width = hidden // config["num_attention_heads"]
    heads = config["num_attention_heads"] + 2 * config["num_key_value_heads"]
    weights = layers * (hidden * heads * width + hidden * hidden + 3 * hidden * inner) + config["vocab_size"] * hidden
    tokens = case["batch"] * case["sequence"]
    attention = layers * tokens * 4 * hidden * (case["sequence"] + 1) / 2  # q k and p v over the keys that are visible
    return 3 * (2 * weights * tokens + attention)


def peak_of(gpu):
    return next((rate for name, rate in BF16_PEAK.items() if name in gpu), None)


def median_seconds(steps):
    return statistics.median(step["seconds"] for step in steps[WARMUP:])


def tuning(run):
    """Products by measured algorithms, the same in all runs of the benchmarks."""
    return "--tune-products", "--tune-cache", run.out / "device-products.json"


def best_peer(run, bench, case, config):
    """PyTorch with the same layers and tokens at its best settings; seconds of a step, or why there is none."""
    best, why = None, "no PyTorch with CUDA"
    for attention in ("cudnn", "flash"):
        code, text = run.execute(f"peer-{bench.name}-{attention}", run.options.torch, ROOT / "test/bench/peers/llama_gpu.py",
                                 "--config", config, "--layers", case["layers"], "--batch", case["batch"], "--sequence",
                                 case["sequence"], "--attention", attention, timeout=150)
        steps = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        if code or len(steps) <= WARMUP:
            why = last_lines(text, 1)
            continue
        best = min(filter(None, (best, median_seconds(steps))))
    return best, why


class Parts:
    """A profiled run: the bound of its step, whose products take what they take and all else what its bytes take at the rate
    of a copy; and its row kernels."""

    def __init__(self, profile):
        self.copy = profile["memory_bytes_per_second"]
        self.bound = sum(row["seconds"] if row["kind"] == "product" else row["bytes"] / self.copy for row in profile["rows"])
        self.kernels = [row for row in profile["rows"] if row["kind"] == "row kernel"]
        self.shares = {name: seconds / profile["mean_step_seconds"] for name, seconds in profile["parts"].items()}


def profile(run, bench, plan):
    """Its parts, or why there are none."""
    path = run.out / f"profile-{bench.name}.json"
    code, text, _ = train(run, f"profile-{bench.name}", plan, "--train-iters", 5, "--profile-json", path, *tuning(run))
    return (None, last_lines(text)) if code else (Parts(json.loads(path.read_text())), "")


def kernel_row(parts, row):
    rate = row["bytes"] / row["seconds"]
    return passed("row kernel", f"{rate / parts.copy:.2f} of copy, {row['seconds'] / row['calls'] * 1e3:.3f} ms x "
                                f"{row['calls']:.0f}: {row['kernel']}")


def bench_rows(run, bench, folder):
    case = json.loads((folder / "case.json").read_text())
    config = json.loads((folder / "config.json").read_text())
    code, text, steps = train(run, bench.name, folder / "plan", "--train-iters", 10, *tuning(run))
    if code:
        return [failed(bench.name, last_lines(text))]
    seconds = median_seconds(steps)
    tokens = case["batch"] * case["sequence"]
    detail = f"{case['layers']} layers: {seconds * 1e3:.1f} ms, {tokens / seconds:.0f} tokens/s"
    if peak := peak_of(run.gpu[0]):
        detail += f", MFU {matrix_flops(case, config) / seconds / peak * 100:.1f} %"
    host = [step["host_seconds"] / step["seconds"] for step in steps[WARMUP:] if "host_seconds" in step]
    if host:
        detail += f", host {statistics.median(host) * 100:.2f} %"
    peer, why = best_peer(run, bench, case, folder / "config.json")
    detail += f", {peer / seconds:.2f} x PyTorch" if peer else f", PyTorch: {why}"
    rows = [passed(bench.name, detail)]
    parts, why = profile(run, bench, folder / "plan")
    if not parts:
        return rows + [failed(f"bound of {bench.name}", why)]
    shares = ", ".join(f"{name} {share * 100:.1f} %" for name, share in parts.shares.items() if share >= 0.005)
    rows.append(passed(f"bound of {bench.name}", f"{parts.bound * 1e3:.1f} ms, step {seconds / parts.bound:.2f} of it; copy "
                                                 f"{parts.copy / 1e9:.0f} GB/s; {shares}"))
    if bench.sequence == 4096 and bench.batch == 1:
        rows += [kernel_row(parts, row) for row in parts.kernels]
    return rows


def check_speed(run):
    fitting = [bench for bench in cases.BENCHES if bench.gigabytes * 1e9 < run.gpu[1]]
    if not fitting:
        return [skipped("speed", f"no packed plan fits into {run.gpu[1] / 1e9:.0f} GB")]
    most = max(bench.gigabytes for bench in fitting)
    return [row for bench in fitting if bench.gigabytes == most
            for row in bench_rows(run, bench, run.pack / "bench" / bench.name)]


CHECKS = {"device": check_device, "build": check_build, "conformance": check_conformance, "goldens": check_goldens,
          "repeat": check_repeat, "sanitizer": check_sanitizer, "refusals": check_refusals, "speed": check_speed}


def table(run, rows, seconds):
    commit = json.loads((run.pack / "packed.json").read_text())["commit"]
    lines = [f"{time.strftime('%Y-%m-%d')}, commit {commit[:12]}, {run.gpu[0] if run.gpu else 'no GPU'}, {seconds:.0f} s", "",
             "| check | outcome | |", "|---|---|---|"]
    return "\n".join(lines + [f"| {row.check} | {row.outcome} | {row.detail.replace('|', '/')} |" for row in rows]) + "\n"


def wheel_folders():
    """Folders nvidia/* of this Python's packages: where cuDNN and NCCL lie on machines that have them from wheels."""
    return [path for base in sys.path if (pathlib.Path(base) / "nvidia").is_dir()
            for path in sorted((pathlib.Path(base) / "nvidia").iterdir()) if (path / "lib").is_dir()]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", type=pathlib.Path, default=ROOT / "build/gpu-check", help="folder that pack.py made")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/gpu-check-out", help="logs and table.md")
    parser.add_argument("--only", help=f"some of {','.join(CHECKS)}")
    parser.add_argument("--torch", default=sys.executable, help="Python with PyTorch, for the peer")
    options = parser.parse_args()
    unknown = set((options.only or "").split(",")) - set(CHECKS) - {""}
    if unknown:
        parser.error(f"--only: no check is named {', '.join(sorted(unknown))}; there are {', '.join(CHECKS)}")
    if not (options.pack / "packed.json").exists():
        parser.error(f"--pack {options.pack}: nothing packed there; run scripts/gpu-check pack where LLVM is, and bring its folder")
    options.wheels = wheel_folders()
    options.libraries = [str(folder / "lib") for folder in options.wheels]
    return options


def main():
    options = parse_arguments()
    options.pack, options.out = options.pack.resolve(), options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    run, rows, begin = Run(options), [], time.monotonic()
    chosen = options.only.split(",") if options.only else list(CHECKS)
    for name, check in CHECKS.items():
        if name not in chosen and name != "device":
            continue
        start = time.monotonic()
        found = check(run) if run.gpu or name == "device" else [skipped(name, "no GPU")]
        rows += found
        for row in found:
            print(f"{row.outcome:8}{row.check}: {row.detail}  [{time.monotonic() - start:.0f} s]", flush=True)
        if name == "build" and found[-1].outcome == "failed":
            break
    text = table(run, rows, time.monotonic() - begin)
    (options.out / "table.md").write_text(text, encoding="utf-8")
    print(f"\n{text}\ntable in {options.out / 'table.md'}")
    outcomes = [row.outcome for row in rows]
    return 1 if "failed" in outcomes or "passed" not in outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
