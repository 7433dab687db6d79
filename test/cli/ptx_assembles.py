#!/usr/bin/env python3
"""ptx_assembles.py BIN ROOT: ptxas takes the row kernels of every model, for every level of GPUs.

Compiles each golden model and example for one rank, and in a layout with tensor, pipeline and data ranks; assembles the PTX
of each bundle. Prints the kernels, the most registers, and the spills of each. Fails where ptxas does, or a kernel spills
more than kSpillBytes. Without ptxas: exit code 77, skipped.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
LEVELS = ["sm_80", "sm_90", "sm_100"]
SPILL_BYTES = 0
LAYOUTS = ["", "--tp 2 --pp 2 --dp 2 --zero 1"]
ODD_HEADS = {"gpt2-xl"}  # 25 heads: no tp but 1 divides them and the vocabulary


def find_ptxas():
    return shutil.which("ptxas") or next(
        (path for path in ["/usr/local/cuda/bin/ptxas"] if os.access(path, os.X_OK)), None)


def knows(ptxas, level):
    options = subprocess.run([ptxas, "--help"], capture_output=True, text=True, check=True).stdout
    return f"'{level}'" in options


def models(root):
    golden = sorted(path.parent for path in (root / "test/golden").glob("*/config.json"))
    return golden + sorted(path for path in (root / "examples").iterdir() if path.is_dir())


def compile_plan(mgc, model, layout, level, dtype, folder):
    if model.name in ODD_HEADS:
        layout = layout.replace("--tp 2", "--tp 1")
    command = [mgc, "compile", model, "--target", f"cuda:{level}", "--dtype", dtype, *layout.split(), "-o", folder]
    if "golden" in model.parts:
        command += ["--seq", "32"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return folder / "kernels" / f"{level}.ptx"


def assemble(ptxas, level, text):
    """(kernels, most registers, spilled bytes by kernel)"""
    done = subprocess.run([ptxas, f"-arch={level}", "--warn-on-spills", "-v", text, "-o", "/dev/null"],
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{text}: ptxas failed:\n{done.stderr or done.stdout}")
    output = done.stdout + done.stderr
    entries = re.findall(r"Compiling entry function '(\w+)'", output)
    spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", output)
    registers = [int(used) for used in re.findall(r"Used (\d+) registers", output)]
    by_kernel = {name: int(stores) + int(loads) for name, (stores, loads) in zip(entries, spills) if stores != "0" or loads != "0"}
    return len(entries), max(registers, default=0), by_kernel


def main():
    binaries, root = Path(sys.argv[1]), Path(sys.argv[2])
    only = sys.argv[3:]  # parts of models' paths
    ptxas = find_ptxas()
    if not ptxas:
        print("skipped: no ptxas in PATH or /usr/local/cuda/bin")
        return SKIPPED
    failures = 0
    with tempfile.TemporaryDirectory() as temporary:
        for model in models(root):
            if only and not any(word in str(model) for word in only):
                continue
            for layout in LAYOUTS:
                for level in LEVELS:
                    if not knows(ptxas, level):
                        print(f"{model.name}: {level} is unknown to {ptxas}")
                        continue
                    for dtype in ["f32", "bf16"]:
                        text = compile_plan(binaries / "mgc", model, layout, level, dtype, Path(temporary) / "plan")
                        kernels, registers, spills = assemble(ptxas, level, text)
                        note = ", ".join(f"{name} spills {count} bytes" for name, count in spills.items())
                        print(f"{model.name:20} {layout or 'one rank':30} {level:6} {dtype:4}: {kernels:3} kernels, "
                              f"{registers:3} registers at most{', ' + note if note else ''}", flush=True)
                        failures += any(count > SPILL_BYTES for count in spills.values())
    if failures:
        sys.exit(f"{failures} bundles have kernels that spill registers; expected none")
    return 0


if __name__ == "__main__":
    sys.exit(main())
