# The layouts that a golden model (4 layers of 4 heads, global batch 8) can be trained with on at most 8 ranks.
import functools
import heapq
import itertools
import random
import zlib
from dataclasses import dataclass

import samples

LAYERS = 4
GLOBAL_BATCH = 8
MAX_RANKS = 8
HEADS = 4
MIXED = "mixed"  # layers of all types


@dataclass(frozen=True)
class Layout:
    tp: int = 1
    pp: int = 1
    dp: int = 1
    sp: bool = False
    zero: int = 0
    mbs: int = 1
    schedule: str = "1f1b"
    vpp: int = 1
    cp: int = 1
    context: str = ""  # --cp-comm-type
    experts: tuple = ()  # --ep, --etp, --moe-token-dispatcher-type; none: what mgc chooses

    @property
    def hierarchy(self):
        """Sizes of the groups of ranks that exchange heads, and the number of groups: two or more of each, if possible."""
        sizes = [inner for inner in (2, 4) if inner < self.cp and inner * self.tp <= HEADS] or [1]
        inner = sizes[zlib.crc32(str(self).encode()) // 6 % len(sizes)]
        return [inner, self.cp // inner]

    @property
    def context_flags(self):
        if self.cp == 1:
            return []
        types = {MIXED: "all_gather,a2a+p2p,p2p,a2a+all_gather"}.get(self.context, self.context)
        flags = ["--cp", self.cp, "--cp-comm-type", types]
        flags += ["--hierarchical-context-parallel-sizes", *self.hierarchy] if "a2a+" in types else []
        other = zlib.crc32(str(self).encode()) % 3 == 0
        return flags + (["--cp-order", "zigzag" if self.context == "a2a" else "contiguous"] if other else [])

    @property
    def loss_tile(self):
        """Half of the layouts do the loss 8 tokens at a time, the others as a whole."""
        return zlib.crc32(str(self).encode()) % 2 * 8

    @property
    def overlap(self):
        """Two of three layouts with data ranks reduce gradients concurrently with the backward: of each layer, or of two or so."""
        size = zlib.crc32(str(self).encode()) // 2 % 3 * 20000
        if self.zero > 1:  # here of each layer
            return ["--overlap-grad-reduce" if size else "--no-overlap-grad-reduce"]
        return ["--overlap-grad-reduce", "--ddp-bucket-size", size - 19999] if self.dp * self.cp > 1 and size else []

    @property
    def instances(self):
        """Half of the layouts that share out training state over more than two data ranks have two instances of it."""
        halves = self.zero > 0 and self.dp > 1 and self.dp * self.cp > 2 and zlib.crc32(str(self).encode()) // 18 % 2
        optim = ["--outer-dp-sharding-strategy", "optim"] if self.zero == 3 and zlib.crc32(str(self).encode()) // 36 % 2 else []
        return ["--num-distributed-optimizer-instances", 2, *optim] if halves else []

    @property
    def ahead(self):
        """Half of the layouts that may do so have values in slices, and gather them ahead of their use."""
        may_be = self.zero == 3 or (self.zero > 0 and "--overlap-grad-reduce" in self.overlap)
        return ["--overlap-param-gather"] if may_be and zlib.crc32(str(self).encode()) // 72 % 2 else []

    def policies(self, modules):
        """Policies of recomputation, with each of the modules alone."""
        full = ["--recompute-granularity", "full", "--recompute-method"]
        of_unit = 2 if self.schedule in ("gpipe", "1f1b", "interleaved") else 1
        return [[], ["--no-recompute"],
                *(["--recompute-granularity", "selective", "--recompute-modules", module] for module in modules),
                [*full, "uniform", "--recompute-num-layers", 1], [*full, "block", "--recompute-num-layers", 1],
                [*full, "uniform", "--recompute-num-layers", of_unit]]

    @property
    def recompute(self):
        """A policy of recomputation that all models have."""
        kinds = self.policies(("core_attn",))
        return kinds[zlib.crc32(str(self).encode()) // 144 % len(kinds)]

    def flags(self, policy=None):
        """The flags of mgc compile; with another policy of recomputation than the layout's own, if one is given."""
        flags = ["--tp", self.tp, "--pp", self.pp, "--dp", self.dp, "--sp" if self.sp else "--no-sp"]
        flags += ["--zero", self.zero, "--mbs", self.mbs, "--schedule", self.schedule, "--vpp", self.vpp]
        flags += ["--loss-tile", self.loss_tile, *self.overlap, *self.instances, *self.ahead, *self.context_flags]
        flags += self.recompute if policy is None else policy
        if self.experts:
            flags += ["--ep", self.experts[0], "--etp", self.experts[1], "--moe-token-dispatcher-type", self.experts[2]]
        return [str(flag) for flag in flags]

    def __str__(self):
        vpp = f"x{self.vpp}" if self.vpp > 1 else ""
        sp = "-sp" if self.sp else ""
        cp = f"-cp{self.cp}-{self.context}" if self.cp > 1 else ""
        experts = f"-ep{self.experts[0]}-etp{self.experts[1]}-{self.experts[2]}" if self.experts else ""
        return f"tp{self.tp}{cp}{experts}-pp{self.pp}-dp{self.dp}{sp}-zero{self.zero}-mbs{self.mbs}-{self.schedule}{vpp}"


def schedules(pp):
    rows = [("gpipe", 1), ("1f1b", 1), ("zb-h1", 1), ("auto", 1)]
    if pp > 1 and 2 * pp <= LAYERS:
        rows += [("interleaved", 2), ("gpipe", 2), ("zb-v", 2), ("v-half", 2), ("dualpipev", 2), ("auto", 2)]
    return rows


def contexts(tp):
    """Sizes and types of context parallelism."""
    yield 1, ""
    for cp in (2, 4, 8):
        yield cp, "all_gather"
        yield cp, "p2p"
        if tp * cp <= HEADS:
            yield cp, "a2a"
        if cp > 2:
            yield cp, "a2a+p2p"
            yield cp, "a2a+all_gather"
            yield cp, MIXED


def expert_ranks(tp, cp, dp):
    """Sizes of expert parallelism that cut the ranks where the other axes do: here all are powers of two."""
    yield ()
    for ep, etp in itertools.product((1, 2, 4, 8), (1, 2)):
        if (ep * etp > 1 or tp > 1) and tp * cp * dp % (ep * etp) == 0:
            yield ep, etp, "allgather"
            if ep > 1:
                yield ep, etp, "alltoall"


def matrix(has_experts=False):
    sizes = (1, 2, 4)
    for tp, pp, dp, sp, zero, mbs in itertools.product(sizes, sizes, sizes, (False, True), (0, 1, 2, 3), (1, 2)):
        if sp and tp == 1:
            continue
        for (cp, context), (schedule, vpp) in itertools.product(contexts(tp), schedules(pp)):
            if tp * cp * pp * dp > MAX_RANKS:
                continue
            for experts in expert_ranks(tp, cp, dp) if has_experts else [()]:
                yield Layout(tp, pp, dp, sp, zero, mbs, schedule, vpp, cp, context, experts)


def pairs_of(layout):
    return set(itertools.combinations(sorted(vars(layout).items(), key=lambda field: field[0]), 2))


@functools.cache
def covering(has_experts, has_encoder, seed):
    """Few layouts with every pair of choices (say sp and zb-h1) that occurs in some 2,000 of the matrix: greedy. What a layout adds only
    shrinks as others are chosen, so the heap holds upper bounds, and one that still leads when it is counted anew is the best."""
    everything = possible(has_experts, has_encoder)
    everything = random.Random(seed).sample(everything, min(len(everything), 2000))
    pairs = [pairs_of(layout) for layout in everything]
    missing, chosen = set().union(*pairs), []
    bounds = [(-len(one), number) for number, one in enumerate(pairs)]
    heapq.heapify(bounds)
    while missing:
        number = bounds[0][1]
        added = len(pairs[number] & missing)
        if added < -heapq.heapreplace(bounds, (-added, number))[0] and -bounds[0][0] > added:
            continue
        chosen.append(everything[number])
        missing -= pairs[number]
    return chosen


@functools.cache
def possible(has_experts, has_encoder):
    """The sequences of an encoder and its decoder are not split."""
    return [layout for layout in matrix(has_experts) if layout.cp == 1 or not has_encoder]


def select(text, has_experts=False, has_encoder=False):
    """all | context (those with cp) | pairs[:SEED] (few, with every pair of choices) | sample:N[:SEED] | layouts as they print, by commas"""
    everything = possible(has_experts, has_encoder)
    if text == "all":
        return everything
    if text == "context":
        return [layout for layout in everything if layout.cp > 1]
    kind, *numbers = text.split(":")
    numbers = [int(number) for number in numbers]
    if kind == "pairs":
        return covering(has_experts, has_encoder, *(numbers or [samples.seed()]))
    if kind == "sample":
        number, seed = (numbers + [samples.seed()])[:2]
        return random.Random(seed).sample(everything, min(number, len(everything)))
    by_name = {str(layout): layout for layout in matrix(has_experts)}
    unknown = [name for name in text.split(",") if name not in by_name]
    if unknown:
        raise SystemExit(f"no such layout: {', '.join(unknown)}; one is {everything[-1]}")
    return [by_name[name] for name in text.split(",") if by_name[name] in everything]
