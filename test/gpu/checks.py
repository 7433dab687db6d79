# Whether what is built is right: the checks of the table but for speed. Each gives its rows.
import importlib.util
import json
import re
import shutil
import sys
import tarfile
import time

import cases
from machine import ROOT, failed, find_tool, last_lines, passed, skipped

LEAST_CMAKE = (3, 25)
TARGETS = ("mgrun", "mgc_cuda", "gpu_tests")


def check_device(machine):
    code, text = machine.execute("device", "nvidia-smi", "--query-gpu=name,memory.total,compute_cap,driver_version",
                                 "--format=csv,noheader,nounits", timeout=30)
    if code:
        return [skipped("device", f"no GPU that nvidia-smi knows: {last_lines(text)}")]
    name, megabytes, capability, driver = (part.strip() for part in text.splitlines()[0].split(","))
    machine.gpu = (name, int(megabytes) * 2**20, float(capability))
    return [passed("device", f"{name}, {megabytes} MiB, compute capability {capability}, driver {driver}")]


# --- Building

def missing_tools(machine):
    """Tools that the build lacks; nothing if it lacks none."""
    missing = [name for name in ("cmake", "ninja", "c++", "nvcc") if not find_tool(name)]
    if missing:
        return f"not found in PATH or with the CUDA toolkit: {', '.join(missing)}"
    _, text = machine.execute("cmake", "cmake", "--version", timeout=30)
    found = tuple(map(int, re.search(r"(\d+)\.(\d+)", text).groups()))
    if found < LEAST_CMAKE:
        return f"cmake is {found[0]}.{found[1]}; expected {LEAST_CMAKE[0]}.{LEAST_CMAKE[1]} or later (pip install cmake)"
    return ""


def unpack(machine):
    shutil.rmtree(machine.prefix.parent, ignore_errors=True)
    with tarfile.open(machine.pack / "packages.tar.gz") as archive:
        archive.extractall(machine.prefix.parent)


def configure_command(machine):
    """The preset without LLVM. Only the packed libraries are looked for in addition to the system's."""
    prefix = machine.prefix
    return ["cmake", "--preset", "cuda", "-S", ROOT, "-B", machine.build, f"-DCMAKE_PREFIX_PATH={prefix}",
            f"-DCMAKE_INCLUDE_PATH={prefix}/include", f"-DCMAKE_LIBRARY_PATH={prefix}/lib/x86_64-linux-gnu",
            f"-DMGC_CUDA_WHEELS={machine.wheels or ''}"]


def check_build(machine):
    if why := missing_tools(machine):
        return [failed("build", why)]
    begin = time.monotonic()
    unpack(machine)
    code, text = machine.execute("configure", *configure_command(machine), timeout=90)
    if code:
        return [failed("build", f"configuring: {last_lines(text, 6)}")]
    lacks = re.findall(r"^-- CUDA: (.*)$", text, re.MULTILINE)
    code, text = machine.execute("build", "cmake", "--build", machine.build, "--target", *TARGETS,
                                 timeout=0.6 * machine.options.budget)
    if code:
        errors = re.findall(r"^.*(?:error:|FAILED:|fatal:).*$", text, re.MULTILINE)
        return [failed("build", last_lines("\n".join(errors[:3]) if errors else text, 3))]
    compiler = last_lines(machine.execute("nvcc", find_tool("nvcc"), "--version", timeout=30)[1], 2)
    return [passed("build", "; ".join([f"{time.monotonic() - begin:.0f} s", compiler, *lacks]))]


# --- Being right

def check_conformance(machine):
    """The tests of the tree with the label gpu; ctest counts what was skipped."""
    code, text = machine.execute("conformance", "ctest", "--test-dir", machine.build, "-L", "^gpu$", "-V", timeout=240)
    summary = re.search(r"(\d+)% tests passed, (\d+) tests failed out of (\d+)", text)
    if not summary:
        return [failed("conformance", last_lines(text))]
    names = re.findall(r"^\s+\d+ - (\S+) \((\w[\w ]*)\)", text, re.MULTILINE)
    rows = [(skipped if "kipped" in why else failed)("conformance", f"{test}: {why}") for test, why in names]
    count = int(summary[3]) - len(names)
    found = sum(map(int, re.findall(r"\[  PASSED  \] (\d+) test", text)))
    detail = f"{count} of {summary[3]} test programs, {found} tests in them"
    return rows + ([passed("conformance", detail)] if count and not code else [])


def packed_of(machine, goldens):
    """Models of the table's row that the pack has."""
    return [model for model in goldens.models if model in machine.packed["models"]]


def check_goldens(machine):
    if not importlib.util.find_spec("numpy"):
        return [skipped("goldens", f"no numpy for {sys.executable}")]
    rows = []
    packed = [(goldens, models, dtype) for goldens in cases.GOLDENS if (models := packed_of(machine, goldens))
              for dtype in goldens.dtypes]
    for goldens, models, dtype in packed:
        name = f"{goldens.name}-{dtype}"
        if row := machine.spent(name):
            rows.append(row)
            continue
        code, text = machine.execute(name, sys.executable, ROOT / "test/e2e/golden.py", "--bin", machine.mgrun.parent, "--dtype",
                                     dtype, "--target", cases.TARGET, "--plans", machine.pack / "golden" / dtype,
                                     *(f"--model={model}" for model in models), "--layouts",
                                     ",".join(goldens.layouts), "--jobs", machine.options.jobs, timeout=240)
        rows.append((failed if code else passed)(name, last_lines(text, 4 if code else 1)))
    return rows


def train(machine, name, plan, *flags, timeout, wrapper=()):
    """Exit code, output, and the log's records."""
    log = machine.out / f"{name}.jsonl"
    log.unlink(missing_ok=True)
    code, text = machine.execute(name, *wrapper, machine.mgrun, plan, "--mock-data", "--log", log, *flags, timeout=timeout)
    steps = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return code, text, steps


def golden_plan(machine, layout, goldens=cases.DENSE):
    return machine.pack / "golden" / goldens.dtypes[-1] / packed_of(machine, goldens)[-1] / layout


def check_repeat(machine):
    """The same plan twice, to the bit."""
    results = []
    for number in (1, 2):
        out = machine.out / f"weights-{number}"
        code, text, steps = train(machine, f"repeat-{number}", golden_plan(machine, cases.DENSE.layouts[-1]), "--train-iters", 5,
                                  "--save", out, "--no-save-optim", timeout=60)
        if code:
            return [failed("repeat", last_lines(text))]
        results.append(([(step["loss"], step["grad_norm"]) for step in steps], (out / "model.safetensors").read_bytes()))
    return [(passed if results[0] == results[1] else failed)("repeat", "losses, norms and weights of two runs")]


# Tool, plan and steps. All ranks of the last dense layout share the device: side streams, collectives and transfers are in it; of
# the second with experts: exchanges of rows.
SANITIZERS = (("memcheck", cases.DENSE, cases.DENSE.layouts[-1], 3), ("racecheck", cases.DENSE, cases.DENSE.layouts[0], 1),
              ("initcheck", cases.DENSE, cases.DENSE.layouts[0], 1), ("memcheck", cases.EXPERTS, cases.EXPERTS.layouts[1], 1),
              ("racecheck", cases.EXPERTS, cases.EXPERTS.layouts[0], 1))
# racecheck knows nothing of the barriers by which cuDNN's kernels for 9.0 order their copies and products: it reports hazards
# between them, and shows the first hundred alone.
TOOL_FLAGS = {"racecheck": ("--kernel-name-exclude", "kernel_substring=cudnn")}


def why_unusable(text):
    """The sanitizer's message if it cannot work here: then it counts no errors. The program's own words are no reason."""
    own = [line for line in text.splitlines() if line.startswith("=========")]
    counted = any("SUMMARY:" in line for line in own)
    return "" if counted else next((line.strip("= ") for line in own if "not supported" in line), "")


def check_sanitizer(machine):
    tool = find_tool("compute-sanitizer")
    if not tool:
        return [skipped("sanitizer", "no compute-sanitizer in PATH or with the CUDA toolkit")]
    rows = []
    for kind, goldens, layout, steps in SANITIZERS:
        if not packed_of(machine, goldens):
            continue
        name = f"sanitizer {kind}" + (" experts" if goldens is cases.EXPERTS else "")
        if row := machine.spent(name):
            rows.append(row)
            continue
        code, text, _ = train(machine, name.replace(" ", "-"), golden_plan(machine, layout, goldens), "--train-iters", steps,
                              wrapper=(tool, "--tool", kind, *TOOL_FLAGS.get(kind, ()), "--error-exitcode", "9",
                                       "--target-processes", "all"), timeout=120)
        if code and (why := why_unusable(text)):
            rows.append(skipped(name, why))
        else:
            rows.append((failed if code else passed)(name, f"{layout}, {steps} steps: {last_lines(text, 1)}"))
    return rows


def check_refusals(machine):
    rows = []
    for name, words in cases.REFUSALS.items():
        if row := machine.spent(f"refusal {name}"):
            rows.append(row)
            continue
        if name == "too-new" and machine.gpu[2] >= cases.TOO_NEW_CAPABILITY:
            rows.append(skipped(f"refusal {name}", f"this GPU has compute capability {machine.gpu[2]}"))
            continue
        code, text, _ = train(machine, name, machine.pack / "refused" / name, "--train-iters", 1, timeout=30)
        good = code == 1 and all(word in text for word in words)
        rows.append((passed if good else failed)(f"refusal {name}", last_lines(text, 1)))
    return rows
