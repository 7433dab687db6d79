"""A published run, and the layout of mgc that is nearest to it."""
import csv
import dataclasses
import json
import math
import pathlib

TABLES = pathlib.Path(__file__).resolve().parents[2] / "tables"
TARGETS = {"a100": "cuda:sm_80", "h100": "cuda:sm_90", "h200": "cuda:sm_90", "b200": "cuda:sm_100", "gb200": "cuda:sm_100"}

# Why a line of a table is not predicted.
REASONS = {
    "precision": "products of 8 or 4 bits",
    "JAX": "MaxText or PaxML: how the tensors lie is not stated",
    "contradiction": "its numbers contradict each other",
    "microbatch": "microbatch not stated, nor the seconds",
    "layout": "layout not stated",
    "model": "an architecture that mgc does not have",
    "device": "a device that no machine file describes",
    "stack": "DeepSpeed's ZeRO-3 of 2021, which gathers tensor by tensor: no stack of ours describes it",
    "no step": "no seconds of a whole step",
}
# Unknown facts of a line that is predicted with the value given here: its prediction is a bound, or a guess, and no error.
BOUNDS = {
    "vpp": "chunks of a stage not stated: 1",
    "cp": "context ranks not stated: 1",
    "etp": "tensor ranks of an expert not stated: tp",
    "microbatch": "microbatch not stated: 1",
    "recomputation": "recomputation not stated, or not by which layers: none",
    "vocabulary": "vocabulary not stated: 51,200",
    "device": "device not stated, and no 80 GB H100 by the memory that it used: h100",
}
# How each stack divides states and hides collectives, as flags of mgc compile.
STACKS = {
    "megatron-2021": ("--no-sp", "--zero=0", "--grad-dtype=bf16", "--no-overlap-grad-reduce"),
    "megatron-2022": ("--zero=0", "--grad-dtype=bf16", "--no-overlap-grad-reduce"),
    "megatron-2024": ("--zero=1", "--overlap-grad-reduce", "--overlap-param-gather"),
    "megatron-2025": ("--zero=1", "--overlap-grad-reduce", "--overlap-param-gather"),
    "fsdp": ("--grad-dtype=bf16", "--overlap-grad-reduce", "--overlap-param-gather"),
}
FULL = ("--recompute-granularity=full", "--recompute-method=uniform", "--recompute-num-layers=1")


def selective(*modules):
    return "--recompute-granularity=selective", "--recompute-modules", *modules


def with_network(machine, network):
    """The text of a machine file whose nodes of 8 have a network of so many Gb/s."""
    machine = json.loads(machine)
    machine["links"][-1]["bandwidth"] = network * 1e9 / 8 / 8
    return json.dumps(machine)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    table: str
    line: int  # counted from 1, which is the head
    model: str
    column: str = ""  # where a line has several runs
    reason: str = ""  # one of REASONS; then nothing below is there
    bound: tuple = ()  # keys of BOUNDS
    config: dict = None
    layers: int = 0
    flags: tuple = ()
    machine: str = ""
    stack: str = ""
    network: int = 0  # Gb/s of a node of 8, where the source says that it is not the machine file's
    devices: int = 0
    batch: int = 0
    sequence: int = 0
    seconds: float = 0
    rounding: float = 0  # half a unit of the last digit that was printed, over the number
    ran: bool = True  # or out of memory

    @property
    def group(self):
        return self.model, self.layers, self.devices, self.batch, self.sequence, self.device_kind, self.stack

    @property
    def device_kind(self):
        return f"{self.machine} at {self.network} Gb/s a node" if self.network else self.machine

    @property
    def layout(self):
        return " ".join(flag for flag in self.flags if not flag.startswith(("--seq=", "--gbs=", "--dtype=", "--target=")))

    @property
    def place(self):
        return f"{self.table}:{self.line}" + (f" {self.column}" if self.column else "")


def lines(table):
    """Pairs of a line's number and its cells by column."""
    with open(TABLES / f"{table}.csv", newline="") as text:
        reader = csv.DictReader(text)
        return [(reader.line_num, cells) for cells in reader]


def number(cell):
    """An integer, or None where a cell is blank or NA: unknown."""
    return int(cell) if cell and cell.isdigit() else None


def rounding(text):
    """Half a unit of the last digit of a printed number, over the number."""
    whole, _, digits = text.partition(".")
    return 0.5 * 10 ** -len(digits) / float(text) if float(text) else 0


def axes_flags(axes, schedule):
    """Flags of a mesh {tp: .., vpp: ..}. Several chunks a stage need a schedule of their own."""
    axes = {axis: extent for axis, extent in axes.items() if extent and (extent > 1 or axis == "etp")}
    if axes.get("pp", 1) == 1:
        axes.pop("vpp", None)
    if "vpp" in axes and not schedule:
        schedule = "interleaved"
    return (*(f"--{axis}={extent}" for axis, extent in axes.items()), *((f"--schedule={schedule}",) if schedule else ()))


def stack_flags(stack, extra):
    """Flags of a stack, but for those that `extra` gives."""
    given = {flag.removeprefix("--").removeprefix("no-").split("=")[0] for flag in extra}
    return [flag for flag in STACKS[stack] if flag.removeprefix("--").removeprefix("no-").split("=")[0] not in given]


def run(*, axes, mbs, batch, sequence, machine, stack, schedule="", extra=(), **fields):
    """A row that can be predicted."""
    flags = (*axes_flags(axes, schedule), f"--mbs={mbs}", f"--gbs={batch}", f"--seq={sequence}", "--dtype=bf16",
             f"--target={TARGETS[machine]}", *stack_flags(stack, extra), *extra)
    devices = math.prod(axes.get(axis) or 1 for axis in ("tp", "cp", "pp", "dp"))
    return Row(flags=flags, batch=batch, sequence=sequence, machine=machine, stack=stack, devices=devices, **fields)
