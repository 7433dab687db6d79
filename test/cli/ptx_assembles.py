#!/usr/bin/env python3
"""ptxas takes all PTX of this project, for every level of GPUs.

    ptx_assembles.py BIN ROOT [MODEL..]       row kernels of golden models (default: all), or `examples`: of all of those
    ptx_assembles.py BIN ROOT --sample N      one of N of their variants, different ones of each model
    ptx_assembles.py --own FILE.ptx..         kernels of the CUDA plugin

For models: compiles each golden model for one rank and in a layout with tensor, pipeline and data ranks, in f32 and bf16, and each
example in bf16; assembles the PTX of each bundle. Prints the kernels, the most registers, and the spills of each. Fails
where ptxas does, as it does for a symbol that nobody defines, or a kernel spills for want of registers, or more than MOST_CHOSEN_SPILL.
Without ptxas, or without a variant in the sample: exit code 77, skipped.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))
import samples  # noqa: E402

SKIPPED = 77
LEVELS = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"]
MOST_CHOSEN_SPILL = 96  # bytes of a thread, stored and loaded: ptxas 13.0 spills some values though registers are left
REGISTERS = 65536  # per multiprocessor
MOST_REGISTERS = 255  # per thread
SPLIT, ONE_STAGE = "--tp 2 --pp 2 --dp 2 --zero 1", "--tp 2 --dp 4 --zero 1"


def find_ptxas():
    return shutil.which("ptxas") or next(
        (path for path in ["/usr/local/cuda/bin/ptxas"] if os.access(path, os.X_OK)), None)


def knows(ptxas, level):
    options = subprocess.run([ptxas, "--help"], capture_output=True, text=True, check=True).stdout
    return f"'{level}'" in options


def models(root):
    golden, examples = (sorted(path.parent for path in (root / folder).glob("*/config.json"))
                        for folder in ("test/golden", "examples"))
    return golden, examples


def layouts_of(model):
    """A loss that pools all tokens of a step has one stage."""
    pools = json.loads((model / "config.json").read_text(encoding="utf-8")).get("output_router_logits")
    return ["", ONE_STAGE if pools else SPLIT]


def compile_plan(mgc, model, layout, level, dtype, folder):
    command = [mgc, "compile", model, "--target", f"cuda:{level}", "--dtype", dtype, *layout.split(), "-o", folder]
    if "golden" in model.parts:
        command += ["--seq", "32"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return folder / "kernels" / f"{level}.ptx"


def assemble(ptxas, level, text):
    """(kernels, most registers, spilled bytes by kernel, and how many of the kernels spill too much)"""
    done = subprocess.run([ptxas, f"-arch={level}", "--warn-on-spills", "-v", text, "-o", "/dev/null"],
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{text}: ptxas failed:\n{done.stderr or done.stdout}")
    output = done.stdout + done.stderr
    registers = {name: int(used) for name, used in
                 re.findall(r"Compiling entry function '(\w+)'.*?Used (\d+) registers", output, re.DOTALL)}
    found = re.findall(r"spilled to local memory in function '(\w+)', (\d+) bytes spill stores, (\d+)", output)
    spills = {name: int(stores) + int(loads) for name, stores, loads in found}
    threads = dict(re.findall(r"\.entry (\w+)\(.*?\.maxntid (\d+)", Path(text).read_text(encoding="utf-8"), re.DOTALL))
    most = {name: min(REGISTERS // int(count) // 8 * 8, MOST_REGISTERS) for name, count in threads.items()}
    wants = lambda name: name not in registers or registers[name] >= most.get(name, MOST_REGISTERS)
    bad = sum(wants(name) or count > MOST_CHOSEN_SPILL for name, count in spills.items())
    return len(registers), max(registers.values(), default=0), spills, bad


def cases(root):
    """(model, layout, level, dtype): golden models in all variants, examples in the one they are meant for"""
    golden, examples = models(root)
    for model in golden:
        for layout in layouts_of(model):
            for level in LEVELS:
                for dtype in ["f32", "bf16"]:
                    yield model, layout, level, dtype
    for model in examples:
        yield model, "", "sm_90", "bf16"


def notes(spills):
    return "".join(f", {name} spills {count} bytes" for name, count in spills.items())


def check(ptxas, mgc, case):
    """One line of the table, and the number of kernels that spill."""
    model, layout, level, dtype = case
    with tempfile.TemporaryDirectory() as folder:
        kernels, registers, spills, bad = assemble(ptxas, level, compile_plan(mgc, *case, Path(folder) / "plan"))
    return (f"{model.name:18} {layout or 'one rank':30} {level:6} {dtype:4}: {kernels:3} kernels, "
            f"{registers:3} registers at most{notes(spills)}"), bad


def check_own(ptxas, level, text):
    kernels, registers, spills, bad = assemble(ptxas, level, text)
    return f"{text.name:18} {level:6}: {kernels:3} kernels, {registers:3} registers at most{notes(spills)}", bad


def chosen_checks(ptxas, words):
    """Functions that give a line and the number of kernels that spill too much."""
    levels = [level for level in LEVELS if knows(ptxas, level)]
    for level in set(LEVELS) - set(levels):
        print(f"{level} is unknown to {ptxas}: left out")
    step = 1
    if "--sample" in words:
        at = words.index("--sample")
        step, words = int(words[at + 1]), words[:at] + words[at + 2:]
    if words[0] == "--own":
        own = [partial(check_own, ptxas, level, Path(text)) for text in words[1:] for level in levels]
        return samples.sample(own, step)
    mgc, root, names = Path(words[0]) / "mgc", Path(words[1]), words[2:]
    known = [path.name for path in models(root)[0]] + ["examples"]
    if unknown := set(names) - set(known):
        sys.exit(f"no model is named {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    name = lambda model: model.name if "golden" in model.parts else "examples"
    possible = [case for case in cases(root) if case[2] in levels]
    return [partial(check, ptxas, mgc, case) for case in samples.sample(possible, step) if not names or name(case[0]) in names]


def main():
    ptxas = find_ptxas()
    if not ptxas:
        print("skipped: no ptxas in PATH or /usr/local/cuda/bin")
        return SKIPPED
    checks, spilling = chosen_checks(ptxas, sys.argv[1:]), 0
    if not checks:
        print(f"skipped: none of them is in the sample of seed {samples.seed()}")
        return SKIPPED
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for line, spills in pool.map(lambda run: run(), checks):
            print(line, flush=True)
            spilling += spills
    return f"{spilling} kernels spill for want of registers, or more than {MOST_CHOSEN_SPILL} bytes; expected none" if spilling else 0


if __name__ == "__main__":
    sys.exit(main())
