#!/usr/bin/env python3
# How many collectives a block has, and how many elements they carry (the larger side of each), forward and backward,
# against the numbers that the sharding calculus gives. A = s b h elements, K = s b g d of a rank's groups, T = s b; b of
# one data rank. A block may do better than its number, never worse.
import re
from collections import Counter

from harness import main
from models import GPT2, LLAMA, QWEN3, SEQUENCE

B, H = 2, 16
A, T = SEQUENCE * B * H, SEQUENCE * B
SHORT = {"all_reduce": "AR", "all_gather": "AG", "reduce_scatter": "RS", "all_to_all": "A2A", "permute": "P"}
LINE = re.compile(r'mg\.(all_reduce|all_gather|reduce_scatter|all_to_all|permute) .*: tensor<([\dx]*)f32.*-> tensor<([\dx]*)f32')


def elements(shape):
    product = 1
    for size in shape.rstrip("x").split("x") if shape else []:
        product *= int(size)
    return product


def count(session, config, layout):
    """{"layer.forward": {"AR": [elements of each, ascending], ...}, ...}"""
    text = session.compile(config, f"{layout} --mbs {B}", 8, to="import")
    local = session.optimize(text, "--mg-merge", "--mg-grad", "--mg-shard", "--mg-local", "--mg-ring")
    found = {}
    for function in local.split("func.func @")[1:]:
        lists = found.setdefault(function.split("(")[0], {})
        for op, source, result in LINE.findall(function):
            lists.setdefault(SHORT[op], []).append(max(elements(source), elements(result)))
    return {name: {op: sorted(sizes) for op, sizes in lists.items()} for name, lists in found.items()}


def check(found, wanted, what):
    """Each kind has no more collectives and no more elements than wanted."""
    for op, sizes in found.items():
        limit = wanted.get(op, [])
        assert len(sizes) <= len(limit) and sum(sizes) <= sum(limit), f"{what}: {op} of {sizes}, expected {limit}"


def check_block(session, config, layout, block, forward, backward):
    found = count(session, config, layout)
    check(found[f"{block}.forward"], forward, f"{config['model_type']} {layout}, {block} forward")
    halves = [found[name] for name in (f"{block}.backward", f"{block}.input", f"{block}.weight") if name in found]
    assert halves
    total = {op: [size for half in halves for size in half.get(op, [])] for half in halves for op in half}
    check(total, backward, f"{config['model_type']} {layout}, {block} backward")


DATA = ("", " --dp 2")  # b stands for the sequences of one data rank
TP = {"AR": [A, A]}, {"AR": [A, A]}
SP = {"AG": [A, A], "RS": [A, A]}, {"AG": [A] * 4, "RS": [A, A]}


def test_counting_counts(session):
    found = count(session, LLAMA, "--tp 2 --sp")
    assert found["layer.forward"] == {"AG": [A, A], "RS": [A, A]}, found
    assert count(session, LLAMA, "--tp 1")["layer.forward"] == {}


def test_layer(session):
    for config in (GPT2, LLAMA, QWEN3):
        for data in DATA:
            check_block(session, config, "--tp 2 --no-sp" + data, "layer", *TP)
            check_block(session, config, "--tp 2 --sp" + data, "layer", *SP)


def test_fewer_groups_than_tp(session):
    for groups, tp in ((2, 4), (1, 2), (1, 4)):
        config = LLAMA | {"num_key_value_heads": groups}
        check_block(session, config, f"--tp {tp} --no-sp", "layer", *TP)
        check_block(session, config, f"--tp {tp} --sp", "layer", *SP)


def test_fewer_groups_than_tp_with_k_norm(session):
    for groups, tp in ((2, 4), (1, 2), (1, 4)):
        config = QWEN3 | {"num_key_value_heads": groups}
        k = SEQUENCE * B * config["head_dim"]  # one group on each rank
        check_block(session, config, f"--tp {tp} --no-sp", "layer", TP[0], {"AR": [k, A, A]})
        check_block(session, config, f"--tp {tp} --sp", "layer", SP[0], SP[1] | {"AR": [k]})


def test_backward_in_two_halves(session):
    for config in (GPT2, LLAMA):
        split = " --pp 2 --schedule zb-h1"
        check_block(session, config, "--tp 2 --no-sp" + split, "layer", *TP)
        check_block(session, config, "--tp 2 --sp" + split, "layer", SP[0], {"AG": [A] * 6, "RS": [A, A]})


# Context parallelism, on top of what tp does. K = elements of one of k, v; Q of one of q, o. The tensors of one op
# travel in one call (P8). Backward needs o of all positions and of its own: it has one and exchanges it with the
# cotangent of o. Under a2a+p2p the exchange is that of a2a among `inner` ranks, and keys make cp / inner - 1 hops
# between groups; under a2a+all_gather backward has k and v as they were before both steps, and recomputes both.
def context(kind, cp, inner, q, k, rotates):
    again = 0 if rotates else q + 2 * k  # without rope one product is saved, of which they are parts before the exchange
    if kind == "all_gather":
        return {"AG": [2 * k]}, {"AG": [2 * k], "RS": [2 * k]}
    hops = cp // inner - 1
    ring = {"P": [2 * k // cp] * hops}, {"P": [2 * k // cp] * (2 * hops)}  # positions of keys are no f32
    exchange = {"A2A": [(q + 2 * k) // cp, q // cp]}, {"A2A": [(2 * q + again) // cp, (q + 2 * k) // cp]}
    if kind == "p2p":  # each rank has a part of the keys of all ranks at a time
        return ring
    if kind == "a2a":
        return exchange
    if kind == "a2a+p2p":
        return exchange[0] | ring[0], exchange[1] | ring[1]
    return ({"A2A": [q // cp, q // cp, 2 * k // cp], "AG": [2 * k // inner]},
            {"A2A": [(2 * q + (again and q)) // cp, 2 * k // cp, q // cp, 2 * k // cp], "AG": [2 * k // inner], "RS": [2 * k // inner]})


def both(first, second):
    return {op: first.get(op, []) + second.get(op, []) for op in first | second}


CONTEXTS = [("all_gather", 2, 1, ""), ("all_gather", 4, 1, ""), ("a2a", 2, 2, ""), ("p2p", 2, 1, ""), ("p2p", 4, 1, ""),
            *((kind, cp, inner, f" --hierarchical-context-parallel-sizes {inner} {cp // inner}")
              for kind in ("a2a+p2p", "a2a+all_gather") for cp, inner in ((4, 2), (8, 2), (8, 4)))]


def context_layouts(config):
    for tp, base in ((1, ({}, {})), (2, TP)):
        for kind, cp, inner, flags in CONTEXTS:
            q, groups = SEQUENCE * B * H // tp, config.get("num_key_value_heads", config.get("n_head"))
            if "a2a" in kind and groups // tp % inner:
                continue  # ranks that share a group gather its keys
            k = SEQUENCE * B * (groups // tp) * (H // config.get("num_attention_heads", config.get("n_head")))
            part = lambda one: {op: [size // cp for size in sizes] for op, sizes in one.items()}
            forward, backward = context(kind, cp, inner, q, k, config is LLAMA)
            yield (f"--tp {tp} --no-sp --cp {cp} --cp-comm-type {kind}{flags}", both(part(base[0]), forward),
                   both(part(base[1]), backward))


# Recomputation repeats what leads to what backward reads: of a whole layer the reduction behind attention, and no gather, since the
# gradients of weights read what the repeated products do.
def test_recomputation(session):
    full = " --recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
    selective = " --recompute-granularity selective --recompute-modules "
    for config in (GPT2, LLAMA, QWEN3):
        for policy in (" --no-recompute", selective + "core_attn", selective + "mlp", selective + "core_attn mlp"):
            check_block(session, config, "--tp 2 --no-sp" + policy, "layer", *TP)
            check_block(session, config, "--tp 2 --sp" + policy, "layer", *SP)
        check_block(session, config, "--tp 2 --no-sp" + full, "layer", TP[0], {"AR": [A] * 3})
        check_block(session, config, "--tp 2 --sp" + full, "layer", SP[0], {"AG": [A] * 4, "RS": [A] * 3})
        split = "--tp 2 --sp --pp 2 --schedule zb-h1"  # halves have gathered copies of their own, as without recomputation
        found = count(session, config, split + full)
        assert found["layer.weight"] == count(session, config, split)["layer.weight"], found
        check(found["layer.input"], {"AG": [A] * 4, "RS": [A] * 3}, split)
        for context, more in (("a2a", {"A2A": 2}), ("all_gather", {}), ("p2p", {"P": 1})):
            cp = f"--cp 2 --cp-comm-type {context}"
            without, repeated = (Counter({op: len(sizes) for op, sizes in count(session, config, cp + policy)["layer.backward"].items()})
                                 for policy in ("", full))
            assert repeated - without == Counter(more) and not without - repeated, (config["model_type"], cp, without, repeated)


def test_context(session):
    for config in (GPT2, LLAMA):
        for layout, forward, backward in context_layouts(config):
            check_block(session, config, layout, "layer", forward, backward)


# The same in the plan, for CPUs and GPUs.
def test_context_in_plans(session):
    for target in ("cpu", "cuda:sm_90"):
        for layout, forward, backward in context_layouts(LLAMA):
            plan = session.plan(LLAMA, f"{layout} --mbs {B} --target {target}", 8)
            for name, wanted in (("layer.forward", forward), ("layer.backward", backward)):
                program = next(p for p in plan["programs"] if p["name"] == name)
                kinds = Counter(i["kind"] for i in program["instructions"] if i["op"] == "collective")
                assert ("permute" in kinds) == ("p2p" in layout), (target, layout, name, kinds)
                if "permute" in kinds:  # the ring also sends positions, in each step
                    kinds["permute"] -= len(wanted["P"]) // (2 if name == "layer.backward" else 1)
                names = {"AG": "all_gather", "RS": "reduce_scatter", "AR": "all_reduce", "A2A": "all_to_all", "P": "permute"}
                assert kinds == {names[op]: len(sizes) for op, sizes in wanted.items()}, (target, layout, name, kinds)


def test_embedding(session):
    for config in (GPT2, LLAMA):
        for data in DATA:
            check_block(session, config, "--tp 2 --no-sp" + data, "embed", {"AR": [A]}, {})
            check_block(session, config, "--tp 2 --sp" + data, "embed", {"RS": [A]}, {"AG": [A]})


# Cross-entropy: the maximum and the sum of exponentials of each token, where its gradient is computed; the logits and the
# weights' gradient share what is gathered.
def test_head_and_cross_entropy(session):
    for config in (GPT2, LLAMA):
        for data in DATA:
            check_block(session, config, "--tp 2 --no-sp" + data, "head", {}, {"AR": [T, T, A]})
            check_block(session, config, "--tp 2 --sp" + data, "head", {}, {"AG": [A], "AR": [T, T], "RS": [A]})


# The step's end: per bucket one reduction over the data ranks (without ZeRO, together with that over other axes), at
# most one before it over what lies outside of them, and one of the three scalars over all axes.
def test_end_of_step(session):
    for zero, kind, sp in ((0, "all_reduce", "no-sp"), (0, "all_reduce", "sp"), (1, "reduce_scatter", "no-sp"),
                           (1, "reduce_scatter", "sp")):
        plan = session.plan(LLAMA, f"--tp 2 --dp 2 --zero {zero} --{sp}")
        reductions = [i for p in plan["programs"] if p["name"].startswith("reduce") for i in p["instructions"]
                      if i["op"] == "collective"]
        scalars = [i for i in reductions if i["chunk"] == 3]
        assert len(scalars) == 1 and set(scalars[0]["axes"]) == {"dp", "tp"}, scalars
        data = [i for i in reductions if "dp" in i["axes"] and i not in scalars]
        other = [i for i in reductions if "dp" not in i["axes"]]
        buckets = plan["stages"][0]["buckets"]
        assert {i["kind"] for i in data} == {kind} and len(data) == len(buckets), (zero, data)
        # Norms reduce over tp, as each tensor rank sees only its part of the sequence.
        assert [i["axes"] for i in other] == ([["tp"]] if zero and sp == "sp" else []), other


if __name__ == "__main__":
    main(globals())
