"""Rows of GPT models on A100: Megatron-LM of 2021 and 2022, Megatron-DeepSpeed, zero bubble schedules."""
from .configurations import gpt, gpt_name
from .row import FULL, Row, lines, rounding, run, selective


def sized(cells, vocabulary=51200):
    """Fields of a line's model."""
    hidden, layers, heads, sequence = (int(cells[key]) for key in ("hidden", "layers", "heads", "seq"))
    return {"model": gpt_name(hidden, layers), "layers": layers, "sequence": sequence,
            "config": gpt(layers, hidden, heads, sequence, vocabulary), "machine": "a100"}


def vtrain(table, extra, bound=()):
    for line, cells in lines(table):
        yield run(table=table, line=line, **sized(cells), bound=bound, axes={axis: int(cells[axis]) for axis in ("tp", "pp", "dp")},
                  mbs=int(cells["mbs"]), batch=int(cells["gbs"]), stack="megatron-2021", extra=extra, network=800,
                  seconds=float(cells["measured_ms"]) / 1000, rounding=rounding(cells["measured_ms"]))


def vtrain_multi():
    return vtrain("vtrain_multi", FULL)


def vtrain_single():
    """By the errors that are left, of a third where the device decides, forward ran twice; the source does not say so."""
    return vtrain("vtrain_single", (), bound=("recomputation",))


def equation_3(batch, sequence, layers, hidden, vocabulary=51200):
    """FLOPs of a step with full recomputation, arXiv 2104.04473."""
    return 96 * batch * sequence * layers * hidden**2 * (1 + sequence / 6 / hidden + vocabulary / 16 / layers / hidden)


def narayanan():
    for line, cells in lines("sc21_megatron_table1"):
        yield run(table="sc21_megatron_table1", line=line, **sized(cells), stack="megatron-2021", extra=FULL,
                  axes={axis: int(cells[axis]) for axis in ("tp", "pp", "dp", "vpp")}, mbs=int(cells["mbs"]),
                  batch=int(cells["gbs"]), seconds=float(cells["iter_time_s_derived_from_eq3"]),
                  rounding=rounding(cells["achieved_tflops_per_gpu_incl_recompute"]))


def narayanan_zero():
    """GPT-3 175B over all GPUs by ZeRO-3, or over 96 as tp 8 pp 12."""
    table = "sc21_megatron_table2_zero3"
    sizes = {"hidden": 12288, "layers": 96, "heads": 96, "seq": 2048}
    for line, cells in lines(table):
        devices, batch, part = int(cells["gpus"]), int(cells["gbs"]), int(cells["model_parallel_size"])
        is_sharded = cells["scheme"] == "ZeRO-3"
        if is_sharded:
            yield Row(table=table, line=line, model=gpt_name(12288, 96), reason="stack")
            continue
        axes = {"tp": 8, "pp": 12, "dp": devices // part}
        seconds = equation_3(batch, 2048, 96, 12288) / devices / float(cells["achieved_tflops_per_gpu"]) / 1e12
        yield run(table=table, line=line, **sized(sizes), bound=("vpp",), axes=axes, mbs=int(cells["mbs"]),
                  batch=batch, stack="megatron-2021", extra=FULL, seconds=seconds,
                  rounding=rounding(cells["achieved_tflops_per_gpu"]))


def korthikanti():
    """A line has a run with full recomputation and without sequence parallelism, and one with both of the paper's means."""
    table = "korthikanti_table3_table5_e2e"
    runs = {"iter_s_full_recompute_noSP": ("--no-sp", *FULL), "iter_s_SP_plus_selective": selective("core_attn")}
    for line, cells in lines(table):
        for column, extra in runs.items():
            if cells[column]:
                yield run(table=table, line=line, column=column, **sized(cells), stack="megatron-2022", extra=extra,
                          axes={axis: int(cells[axis]) for axis in ("tp", "pp", "dp", "vpp")}, mbs=int(cells["mbs"]),
                          batch=int(cells["gbs"]), seconds=float(cells[column]), rounding=rounding(cells[column]))


SCHEDULES = {  # name there: (schedule, vpp, flags); ZB-1p and 2p are planned by times, under the memory of one or two 1F1B
    "1F1B": ("1f1b", 1, ()), "1F1B-I": ("1f1b", 1, ()), "ZB-V": ("zb-v", 2, ()),
    "ZB-1p": ("auto", 1, ("--schedule-memory=1", "--machine=a100")),
    "ZB-2p": ("auto", 1, ("--schedule-memory=2", "--machine=a100")),
    "ZB-2p*": ("auto", 1, ("--schedule-memory=2", "--machine=a100")),
}


def zero_bubble_row(table, line, cells, sizes):
    schedule, chunks, flags = SCHEDULES[cells["schedule"]]
    mbs, devices = int(float(cells["mbs"])), int(cells["gpus"])
    batch = mbs * int(cells["microbatches"])
    rate = cells["samples_per_gpu_per_s"]
    bound = ("vocabulary", "vpp") if cells["schedule"] == "1F1B-I" else ("vocabulary",)
    return run(table=table, line=line, **sized(sizes), bound=bound,
               axes={"pp": devices, "vpp": chunks}, mbs=mbs, batch=batch, schedule=schedule, stack="megatron-2022", extra=flags,
               seconds=batch / devices / float(rate), rounding=rounding(rate))


def zero_bubble():
    rows = lines("zero_bubble_table3_table4")
    sizes = {cells["model"]: cells for _, cells in rows}
    return [*(zero_bubble_row("zero_bubble_table3_table4", line, cells, cells) for line, cells in rows),
            *(zero_bubble_row("zero_bubble_table6_zbv", line, cells, sizes[cells["model"]])
              for line, cells in lines("zero_bubble_table6_zbv"))]


def narayanan_points():
    table = "sc21_other_points"
    return [Row(table=table, line=line, model="gpt-12288x96", reason="layout" if "iteration time" in cells["value"] else "no step")
            for line, cells in lines(table)]


def layer_times():
    table = "korthikanti_table4_22B_layer_times"
    return [Row(table=table, line=line, model="gpt-6144x48", reason="no step") for line, _ in lines(table)]
