"""Rows of NeMo, Megatron Bridge, Megatron-LM since 2024 and SimuMax: tensor and expert parallelism, ZeRO-1."""
import re

from . import configurations
from .row import Row, lines, number, rounding, run, selective

STACK = "megatron-2024"
EXPERTS = ("--moe-token-dispatcher-type=alltoall", "--moe-rows-factor=1")  # rooms of an even load
RING = ("--cp-comm-type=p2p",)
ENDS = ("--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split")
DGXC = {"DeepSeek-V3 671B": "deepseek-v3", "Grok1 314B": "grok-1", "Llama3.1 8B": "llama-3.1-8b", "Llama3.1 405B": "llama-3.1-405b",
        "Nemotron4 15B": "nemotron-4-15b", "GPT3 175B": "gpt-12288x96"}


def configuration(model, layers, sequence):
    if model == "gpt-12288x96":
        return configurations.gpt(layers, 12288, 96, sequence)
    return configurations.configuration(model, layers)


def chunk_flags(layers, axes):
    """Stages with as many layers, of which the embedding and the head are one each where they alone make them even."""
    chunks = (axes.get("pp") or 1) * (axes.get("vpp") or 1)
    return ENDS if layers % chunks and (layers + 2) % chunks == 0 else ()


def extra_flags(layers, axes, is_expert):
    return (*chunk_flags(layers, axes), *(RING if (axes.get("cp") or 1) > 1 else ()), *(EXPERTS if is_expert else ()))


def dgxc_row(line, cells):
    place = {"table": "dgxc_step_times", "line": line, "model": DGXC.get(cells["model"], cells["model"])}
    if cells["precision"] != "BF16":
        return Row(**place, reason="precision")
    if cells["model"].startswith(("MaxText", "PaxML")):
        return Row(**place, reason="JAX")
    if "inconsistent" in cells["note"]:
        return Row(**place, reason="contradiction")
    if place["model"] not in DGXC.values():
        return Row(**place, reason="model")
    model, layers, sequence = place["model"], int(cells["layers"]), int(cells["seq"])
    axes = {axis: number(cells[axis]) for axis in ("tp", "pp", "cp", "ep", "etp")} | {"vpp": number(cells["vp"])}
    mbs, batch, devices, bound = int(cells["mbs"]), int(cells["gbs"]), int(cells["gpus"]), []
    replicas = devices // (axes["tp"] * axes["pp"])  # times cp
    if not axes["cp"]:
        axes["cp"] = 1
        if number(cells["ga"]) != batch // (mbs * replicas):  # else microbatches say it
            bound.append("cp")
    if axes["pp"] > 1 and not axes["vpp"]:
        bound.append("vpp")
    is_expert = bool(axes["ep"])
    if is_expert and axes["tp"] > 1 and not axes["etp"]:
        bound.append("etp")
    if model == "deepseek-v3":
        bound.append("recomputation")
    axes["dp"] = replicas // axes["cp"]
    return run(**place, bound=tuple(bound), config=configuration(model, layers, sequence), layers=layers, axes=axes, mbs=mbs,
               batch=batch, sequence=sequence, machine=cells["hw"].lower(), stack=STACK, seconds=float(cells["step_time_s"]),
               rounding=rounding(cells["step_time_s"]), extra=extra_flags(layers, axes, is_expert))


def dgxc():
    return [dgxc_row(*line) for line in lines("dgxc_step_times")]


def deepseek(table, line, cells, system, rate, extra=(), bound=()):
    """DeepSeek-V3 by the tokens that a GPU reads in a second."""
    batch, devices, sequence = int(cells["gbs"]), int(cells["gpus"]), int(cells["seq"])
    axes = {axis: int(cells[axis]) for axis in ("tp", "pp", "cp", "ep")} | {"etp": 1, "vpp": int(cells.get("vp") or cells["vpp"])}
    axes["dp"] = devices // (axes["tp"] * axes["pp"] * axes["cp"])
    return run(table=table, line=line, model="deepseek-v3", bound=bound, config=configurations.configuration("deepseek-v3"),
               layers=61, axes=axes, mbs=int(cells["mbs"]), batch=batch, sequence=sequence, machine=system, stack=STACK,
               seconds=batch * sequence / devices / float(rate), rounding=rounding(rate),
               extra=(*extra_flags(61, axes, True), *extra))


def bridge():
    table = "megatron_bridge_perf"
    return [deepseek(table, line, cells, cells["system"].removeprefix("DGX-").lower(), cells["tokens_per_s_per_gpu"],
                     bound=("recomputation",)) if cells["precision"] == "BF16"
            else Row(table=table, line=line, model=cells["model"], reason="precision") for line, cells in lines(table)]


def mcore_moe():
    table = "mcore_moe_table11_20"
    return [deepseek(table, line, cells, cells["system"].lower(), cells["tokens_per_s_per_gpu"], selective(cells["recompute"]))
            if cells["dtype"] == "BF16" else Row(table=table, line=line, model=cells["model"], reason="precision")
            for line, cells in lines(table)]


def recomputation():
    table = "bridge_recompute"
    config = configurations.configuration("moonlight-16b")
    for line, cells in lines(table):
        modules = cells["recompute_modules"].split()
        axes = {axis: int(cells[axis]) for axis in ("tp", "pp", "cp", "ep")} | {"etp": 1}
        axes["dp"] = int(cells["gpus"]) // axes["tp"]
        yield run(table=table, line=line, model="moonlight-16b", config=config, layers=27, axes=axes, mbs=int(cells["mbs"]),
                  batch=int(cells["gbs"]), sequence=int(cells["seq"]), machine="h100", stack=STACK,
                  seconds=float(cells["step_ms"]) / 1000, rounding=rounding(cells["step_ms"]),
                  extra=(*EXPERTS, *(selective(*modules) if modules else ())), ran=cells["outcome"] == "ran")


def simumax():
    for line, cells in lines("simumax_b200"):
        sizes = dict(re.findall(r"_(tp|cp|pp|dp|ep|mbc|seq|l)(\d+)", cells["case"]))
        axes = {axis: int(sizes.get(axis, 1)) for axis in ("tp", "cp", "pp", "dp", "ep")}
        is_expert = cells["case"].startswith("deepseekv2")
        model = "deepseek-v2-4" if is_expert else "llama-3-70b-12"
        extra = EXPERTS if is_expert else ("--cp-comm-type=a2a",) if axes["cp"] > 1 else ()
        yield run(table="simumax_b200", line=line, model=model, config=configurations.configuration(model), layers=int(sizes["l"]),
                  axes=axes, mbs=1, batch=int(sizes["mbc"]) * axes["dp"], sequence=int(sizes.get("seq", 4096)), machine="b200",
                  stack="megatron-2025", seconds=float(cells["real_ms"]) / 1000, rounding=rounding(cells["real_ms"]), extra=extra)


def llama3():
    """FLOP/s of a GPU. 43 % of 989 TFLOP/s are the 430 of the first line: the paper's utilisation counts the same FLOPs. Their
    formula is not stated; here 6 N a token, and attention over the half of the pairs that a causal mask leaves."""
    for line, cells in lines("llama3_405b_table4"):
        axes = {axis: int(cells[axis]) for axis in ("tp", "cp", "pp", "dp")}
        sequence, batch = int(cells["seq"]), int(cells["batch_per_dp"]) * axes["dp"]
        flops = batch * sequence * (6 * 405.85e9 + 6 * 126 * 16384 * sequence)
        yield run(table="llama3_405b_table4", line=line, model="llama-3.1-405b", bound=("vpp",), layers=126, axes=axes, mbs=1,
                  config=configurations.configuration("llama-3.1-405b"), batch=batch, sequence=sequence, machine="h100",
                  stack=STACK, seconds=flops / int(cells["gpus"]) / float(cells["tflops_per_gpu"]) / 1e12,
                  rounding=5 / float(cells["tflops_per_gpu"]))


def weak_scaling():
    """FLOP/s of a GPU by Megatron-LM's formula of 2024: 72 B s L h^2 (1 + s / 6 h + V / 12 L h)."""
    table = "megatron_core_h100_weak_scaling"
    for line, cells in lines(table):
        hidden, layers, heads, sequence, vocabulary, batch, devices = (
            int(cells[key]) for key in ("hidden", "layers", "heads", "seq", "vocab", "gbs", "gpus"))
        axes = {axis: int(cells[axis]) for axis in ("tp", "pp", "dp")}
        flops = 72 * batch * sequence * layers * hidden**2 * (1 + sequence / 6 / hidden + vocabulary / 12 / layers / hidden)
        yield run(table=table, line=line, model=configurations.gpt_name(hidden, layers), layers=layers, axes=axes, mbs=1,
                  bound=("microbatch", "vpp") if axes["pp"] > 1 else ("microbatch",), batch=batch, sequence=sequence,
                  config=configurations.untied_gpt(layers, hidden, heads, sequence, vocabulary), machine="h100", stack=STACK,
                  seconds=flops / devices / float(cells["tflops_per_gpu"]) / 1e12, rounding=rounding(cells["tflops_per_gpu"]))
