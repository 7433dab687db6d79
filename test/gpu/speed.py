# The speed of the build, compared with what the hardware allows, and with PyTorch.
import json
import statistics

import cases
from checks import train
from machine import ROOT, failed, last_lines, measured, skipped

WARMUP = 3  # steps
STEPS = 10
# Dense, FLOP/s, NVIDIA's data sheets; the first name that the GPU's contains.
BF16_PEAK = {"H100 PCIe": 756e12, "H100 NVL": 835e12, "H200 NVL": 835e12, "H100": 989e12, "H200": 989e12, "B200": 2250e12,
             "A100": 312e12}


def tokens_of(case):
    return case["batch"] * case["microbatches"] * case["sequence"]


def has_experts(config):
    return "num_experts_per_tok" in config


def matrix_flops(case, config):
    """Floating-point operations of a step's products and causal attention, forward and backward: what MFU counts.
    Only the experts of a token count."""
    hidden, layers, heads = config["hidden_size"], case["layers"], config["num_attention_heads"]
    width = config.get("head_dim") or hidden // heads
    inner, router = config["intermediate_size"], 0
    if has_experts(config):
        inner, router = config["num_experts_per_tok"] * config["moe_intermediate_size"], config["num_experts"]
    projections = (2 * heads + 2 * config["num_key_value_heads"]) * width  # queries and output, keys and values
    weights = layers * hidden * (projections + 3 * inner + router) + config["vocab_size"] * hidden
    tokens = tokens_of(case)
    attention = layers * tokens * 4 * heads * width * (case["sequence"] + 1) / 2  # q k and p v over the keys that are visible
    return 3 * (2 * weights * tokens + attention)


def peak_of(gpu):
    return next((rate for name, rate in BF16_PEAK.items() if name in gpu), None)


def median_seconds(steps):
    return statistics.median(step["seconds"] for step in steps[WARMUP:])


class Case:
    """A packed benchmark."""

    def __init__(self, machine, bench):
        self.name = bench.name
        self.folder = machine.pack / "bench" / bench.name
        self.facts = json.loads((self.folder / "case.json").read_text())
        self.config = json.loads((self.folder / "config.json").read_text())
        self.tokens = tokens_of(self.facts)

    def describe(self, seconds, gpu):
        text = f"{self.facts['layers']} layers: {seconds * 1e3:.1f} ms, {self.tokens / seconds:.0f} tokens/s"
        peak = peak_of(gpu)
        if not peak:
            return text
        share = matrix_flops(self.facts, self.config) / seconds / peak
        goal = "" if has_experts(self.config) else " (goal 60)"
        return text + f", MFU {share * 100:.1f} % of {peak / 1e12:.0f} TFLOP/s{goal}"


def fitting(machine):
    """The packed benchmarks made for the largest memory that this GPU has."""
    packed = [bench for bench in cases.BENCHES if bench.name in machine.packed["benches"]]
    possible = [bench for bench in packed if bench.gigabytes * 1e9 < machine.gpu[1]]
    most = max((bench.gigabytes for bench in possible), default=0)
    return [Case(machine, bench) for bench in possible if bench.gigabytes == most]


def no_case(machine, check):
    return [skipped(check, f"no packed plan fits into {machine.gpu[1] / 1e9:.0f} GB")]


class Parts:
    """A profiled run: the bound of its step, whose products take what they take and all else what its bytes take at the rate
    of a copy; and its row kernels."""

    def __init__(self, profile):
        self.copy = profile["memory_bytes_per_second"]
        self.bound = sum(row["seconds"] if row["kind"] == "product" else row["bytes"] / self.copy for row in profile["rows"])
        self.kernels = [row for row in profile["rows"] if row["kind"] == "row kernel"]
        self.shares = {name: seconds / profile["mean_step_seconds"] for name, seconds in profile["parts"].items()}


def train_case(machine, name, case, *flags):
    """With products by measured algorithms, the same in all runs."""
    return train(machine, name, case.folder / "plan", "--tune-products", "--tune-cache", machine.out / "device-products.json", *flags,
                 timeout=120)


def kernel_row(parts, row):
    rate = row["bytes"] / row["seconds"]
    return measured("row kernel", f"{rate / parts.copy:.2f} of copy (goal 0.85), {row['seconds'] / row['calls'] * 1e3:.3f} ms x "
                                  f"{row['calls']:.0f}: {row['kernel']}")


def bound_rows(machine, case, seconds, with_kernels):
    if row := machine.spent(f"bound of {case.name}"):
        return [row]
    path = machine.out / f"profile-{case.name}.json"
    code, text, _ = train_case(machine, f"profile-{case.name}", case, "--train-iters", 5, "--profile-json", path)
    if code:
        return [failed(f"bound of {case.name}", last_lines(text))]
    parts = Parts(json.loads(path.read_text()))
    shares = ", ".join(f"{name} {share * 100:.1f} %" for name, share in parts.shares.items() if share >= 0.005)
    row = measured(f"bound of {case.name}", f"{parts.bound * 1e3:.1f} ms, step {seconds / parts.bound:.2f} of it (goal 1.15); copy "
                                            f"{parts.copy / 1e9:.0f} GB/s; {shares}")
    return [row] + ([kernel_row(parts, kernel) for kernel in parts.kernels] if with_kernels else [])


def memory_of(text):
    """The device's memory as mgrun reports it."""
    return "".join(", " + line.removeprefix("memory").strip() for line in text.splitlines() if line.startswith("memory "))


def bench_rows(machine, case, with_kernels):
    if row := machine.spent(case.name):
        return [row]
    code, text, steps = train_case(machine, case.name, case, "--train-iters", STEPS)
    if code or len(steps) <= WARMUP:
        return [failed(case.name, last_lines(text))]
    seconds = median_seconds(steps)
    detail = case.describe(seconds, machine.gpu[0]) + memory_of(text)
    host = [step["host_seconds"] / step["seconds"] for step in steps[WARMUP:] if "host_seconds" in step]
    if host:
        detail += f", host {statistics.median(host) * 100:.2f} % (goal 2)"
    return [measured(case.name, detail), *bound_rows(machine, case, seconds, with_kernels)]


def check_speed(machine):
    """Row kernels are listed for the first case alone: the others have the same."""
    return [row for index, case in enumerate(fitting(machine)) for row in bench_rows(machine, case, index == 0)] or \
        no_case(machine, "speed")


# --- PyTorch

# Attention, precision, mode of torch.compile. Settings that compile in half a minute come first: with max-autotune two
# minutes are not enough on an H100.
PEER_SETTINGS = (("cudnn", "master", "default"), ("flash", "master", "default"), ("cudnn", "bf16", "default"),
                 ("cudnn", "master", "max-autotune-no-cudagraphs"))

def best_peer(machine, case):
    """PyTorch with the same layers and tokens at its best settings: seconds of a step and the settings, or why there are none."""
    best, why = None, ""
    for attention, precision, mode in PEER_SETTINGS:
        if machine.left() < (60 if best else 0):
            break
        code, text = machine.execute(f"peer-{case.name}-{attention}-{precision}-{mode}", machine.options.torch,
                                     ROOT / "test/bench/peers/llama_gpu.py", "--config", case.folder / "config.json", "--layers",
                                     case.facts["layers"], "--batch", case.facts["batch"], "--microbatches",
                                     case.facts["microbatches"], "--sequence", case.facts["sequence"],
                                     "--attention", attention, "--precision", precision, "--compile", mode, timeout=300,
                                     environment=machine.options.environment)
        steps = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        if code or len(steps) <= WARMUP:
            why = last_lines(text, 1)
        else:
            best = min(filter(None, (best, (median_seconds(steps), f"{attention}, {precision}, {mode}"))))
    return best, why


def peer_row(machine, case):
    name = f"PyTorch, {case.name}"
    if row := machine.spent(name):
        return row
    log = machine.out / f"{case.name}.jsonl"  # log of the check `speed`, in this call or one before
    steps = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    best, why = best_peer(machine, case)
    if not best:
        return failed(name, why)
    seconds, settings = best
    ratio = f", {seconds / median_seconds(steps):.2f} times ours (goal 1.1)" if len(steps) > WARMUP else ""
    return measured(name, case.describe(seconds, machine.gpu[0]) + f" ({settings}){ratio}")


def check_peers(machine):
    code, text = machine.execute("torch", machine.options.torch, "-c",
                                 "import torch; print(torch.__version__); assert torch.cuda.is_available(), 'it sees no GPU'",
                                 timeout=60, environment=machine.options.environment)
    if code:
        why = "no torch" if "No module named 'torch'" in text or code == 127 else last_lines(text, 1)
        return [skipped("PyTorch", f"{why} ({machine.options.torch})")]
    # Models that peers/llama_gpu.py has.
    dense = [case for case in fitting(machine) if not has_experts(case.config)]
    return [peer_row(machine, case) for case in dense] or no_case(machine, "PyTorch")
