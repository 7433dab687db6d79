"""Rows of fully sharded data parallelism: llm-foundry, fms-fsdp, torchtitan."""
from . import configurations
from .row import FULL, Row, lines, rounding, run

MACHINES = {"A100-80GB": "a100", "H100-80GB": "h100"}


def llm_foundry():
    table = "llm_foundry_mpt"
    for line, cells in lines(table):
        model = cells["model"].lower()
        if cells["precision"] != "bf16":
            yield Row(table=table, line=line, model=model, reason="precision")
            continue
        hidden, heads, layers, vocabulary, sequence, devices = (
            int(cells[key]) for key in ("hidden", "heads", "layers", "vocab", "seq", "gpus"))
        yield run(table=table, line=line, model=model, layers=layers, axes={"dp": devices}, mbs=int(cells["mbs"]),
                  config=configurations.mpt(hidden, heads, layers, vocabulary, sequence), batch=int(cells["gbs"]),
                  sequence=sequence, machine=MACHINES[cells["hardware"]], stack="fsdp", seconds=float(cells["step_time_s"]), network=1600,
                  rounding=rounding(cells["tokens_per_s_per_gpu"]),
                  extra=(f"--zero={cells['sharding'][-1]}", *(FULL if cells["full_recompute"] == "True" else ())))


def by_rate(cells, sequence, devices, batch):
    """Seconds of a step, and their rounding, by the tokens of a GPU in a second."""
    rate = cells["tokens_per_s_per_gpu"]
    return {"seconds": batch * sequence / devices / float(rate), "rounding": rounding(rate)}


def fms():
    """Instances of HSDP are nodes. Selective recomputation is of some layers; of how many is not stated."""
    devices = 128
    for line, cells in lines("fms_fsdp"):
        model = cells["model"].lower().replace("llama2", "llama-2")
        config, sequence, mbs = configurations.configuration(model), int(cells["seq"]), int(cells["mbs"])
        instances = (f"--num-distributed-optimizer-instances={devices // 8}",) if cells["sharding"] == "hsdp" else ()
        yield run(table="fms_fsdp", line=line, model=model, bound=() if cells["recompute"] == "none" else ("recomputation",),
                  config=config, layers=config["num_hidden_layers"], axes={"dp": devices}, mbs=mbs, batch=mbs * devices,
                  sequence=sequence, machine="a100", stack="fsdp", network=int(cells["network"].split()[0]), extra=("--zero=3", *instances),
                  **by_rate(cells, sequence, devices, mbs * devices))


def torchtitan():
    """Selective recomputation keeps every other product, or all of some layers: neither is a policy of mgc."""
    for line, cells in lines("torchtitan"):
        model = "llama-3.1-" + cells["model"].split()[-1].lower()
        if cells["precision"] != "bf16":
            yield Row(table="torchtitan", line=line, model=model, reason="precision")
            continue
        axes = {axis: int(cells[axis]) for axis in ("tp", "pp", "cp")} | {"dp": int(cells["fsdp"])}
        mbs, devices, sequence = int(cells["local_batch"]), int(cells["gpus"]), int(cells["seq"].split()[0])
        yield run(table="torchtitan", line=line, model=model, bound=("device", "recomputation"), layers=32, axes=axes, mbs=mbs,
                  config=configurations.configuration(model), batch=mbs * axes["dp"], sequence=sequence, machine="h100",
                  stack="fsdp", extra=("--zero=3",), **by_rate(cells, sequence, devices, mbs * axes["dp"]))
