#!/usr/bin/env python3
"""Builds the runtime on a machine with an NVIDIA GPU, runs all that needs one, and prints one table.

    check.py --pack build/gpu-check                   what pack.py made; needs nvcc, CMake, Ninja, a C++ compiler, Python, numpy
    check.py --pack build/gpu-check --only build,goldens

A check whose tool is missing is reported as skipped, never as passed; what takes longer than it may is killed and reported as
failed. Nothing is fetched, nothing installed; all files go to --build and --out. table.md in --out is written after each check:
a run that is cut off leaves what it has. Ends with 0 when nothing failed and at least one check passed or measured something.
"""
import argparse
import json
import os
import pathlib
import signal
import sys
import time

import cases
from checks import (check_build, check_conformance, check_device, check_goldens, check_refusals, check_repeat,
                    check_sanitizer)
from machine import ROOT, Machine, failed, skipped
from speed import check_peers, check_speed

CHECKS = {"device": check_device, "build": check_build, "conformance": check_conformance, "goldens": check_goldens,
          "repeat": check_repeat, "refusals": check_refusals, "speed": check_speed, "sanitizer": check_sanitizer,
          "peers": check_peers}  # the most important first: time may run out
OF_PLANS = ("goldens", "repeat", "refusals", "sanitizer", "speed")  # they run packed plans


def write_table(machine, rows, seconds):
    lines = [f"{time.strftime('%Y-%m-%d')}, commit {machine.packed['commit'][:12]}, "
             f"{machine.gpu[0] if machine.gpu else 'no GPU'}, {seconds:.0f} s", "", "| check | outcome | |", "|---|---|---|"]
    text = "\n".join(lines + [f"| {row.check} | {row.outcome} | {row.detail.replace('|', '/')} |" for row in rows]) + "\n"
    (machine.out / "table.md").write_text(text, encoding="utf-8")
    return text


def run_check(machine, name):
    """Its rows: also of one that cannot be run."""
    if name != "device" and not machine.gpu:
        return [skipped(name, "no GPU")]
    if name not in ("device", "build") and not machine.mgrun.exists():
        return [failed(name, f"no {machine.mgrun}: it is made by the check `build`")]
    if name in OF_PLANS and machine.gpu[2] < cases.TARGET_CAPABILITY:
        return [skipped(name, f"the packed plans are for {cases.TARGET}; this GPU has compute capability {machine.gpu[2]}")]
    if row := machine.spent(name):
        return [row]
    try:
        return CHECKS[name](machine)
    except Exception as error:  # a file that is missing or not understood: the other checks go on
        return [failed(name, f"{type(error).__name__}: {error}")]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", type=pathlib.Path, default=ROOT / "build/gpu-check", help="folder that pack.py made")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/cuda", help="where mgrun is built")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/gpu-check-out", help="logs and table.md")
    parser.add_argument("--only", default=",".join(CHECKS), help="some of %(default)s")
    parser.add_argument("--budget", type=float, default=480, help="seconds for all (%(default)s)")
    parser.add_argument("--jobs", type=int, default=min(6, os.cpu_count() or 1), help="golden runs at one time (%(default)s)")
    parser.add_argument("--torch", default=sys.executable, help="Python with PyTorch, for the peer")
    options = parser.parse_args()
    options.only = options.only.split(",")
    if unknown := set(options.only) - set(CHECKS):
        parser.error(f"--only: no check is named {', '.join(sorted(unknown))}; there are {', '.join(CHECKS)}")
    if not (options.pack / "packed.json").exists():
        parser.error(f"--pack {options.pack}: nothing packed there; run scripts/gpu-check pack where LLVM is, and bring its folder")
    options.pack, options.out, options.build = (path.resolve() for path in (options.pack, options.out, options.build))
    options.environment = dict(os.environ)
    return options


def main():
    options = parse_arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("gpu-check: ended by a signal"))
    machine = Machine(options, json.loads((options.pack / "packed.json").read_text()))
    rows, begin = [], time.monotonic()
    for name in CHECKS:
        if name not in options.only and name != "device":
            continue
        start = time.monotonic()
        found = run_check(machine, name)
        rows += found
        for row in found:
            print(f"{row.outcome:8} {row.check}: {row.detail}", flush=True)
        print(f"         {name}: {time.monotonic() - start:.0f} s", flush=True)
        text = write_table(machine, rows, time.monotonic() - begin)
    print(f"\n{text}\ntable in {options.out / 'table.md'}")
    outcomes = {row.outcome for row in rows}
    return 1 if "failed" in outcomes or not outcomes & {"passed", "measured"} else 0


if __name__ == "__main__":
    sys.exit(main())
