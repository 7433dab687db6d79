#!/usr/bin/env python3
# Entry 9 of docs/composition-bugs.md: mg-local lowers random mg.reshards over three axes, pending on up to all of them,
# to steps whose effect on simulated ranks is that of the dense value.
import itertools
import re

import numpy

from harness import main

MESH = {"a": 2, "b": 2, "c": 2}  # major first
SHAPE = (8, 8)
PAIRS = 150
RANKS = list(itertools.product(*map(range, MESH.values())))


def random_layout(r, pending):
    """(axes of each dimension, pending axes): every axis splits a dimension, is pending, or does neither."""
    splits, sums = ([], []), []
    for axis in r.permutation(list(MESH)):
        choice = r.integers(0, 4 if pending else 3)
        (splits[0], splits[1], [], sums)[choice].append(str(axis))
    return tuple(map(tuple, splits)), tuple(sorted(sums))


def text_of(layout):
    (first, second), pending = layout
    axes = lambda name, list_: name + (f" [{', '.join(list_)}]" if list_ else "")
    return ", ".join([axes("s", first), axes("h", second)] + ([f"sum [{', '.join(pending)}]"] if pending else []))


def coordinate(rank, axes):
    """(coordinate, extent) along a list of axes, the first one major."""
    index, extent = 0, 1
    for axis in axes:
        index, extent = index * MESH[axis] + rank[list(MESH).index(axis)], extent * MESH[axis]
    return index, extent


def block(value, dimension, rank, axes):
    index, extent = coordinate(rank, axes)
    return numpy.split(value, extent, dimension)[index]


def local(parts, layout, rank):
    """A rank's block of the value whose summand at each coordinate of the pending axes is in parts."""
    (first, second), pending = layout
    value = parts[tuple(rank[list(MESH).index(axis)] for axis in pending)]
    return block(block(value, 0, rank, first), 1, rank, second)


def group(rank, axes):
    """The ranks that differ from this one along axes only, in the order of the group."""
    others = [i for i, axis in enumerate(MESH) if axis not in axes]
    return sorted((r for r in RANKS if all(r[i] == rank[i] for i in others)), key=lambda r: coordinate(r, axes)[0])


def run_step(held, op, axes, attributes):
    number = lambda name: int(re.search(name + r" = (\d+)", attributes).group(1))
    result = {}
    for rank in RANKS:
        members = [held[r] for r in group(rank, axes)]
        if op == "slice":
            result[rank] = block(held[rank], number("dim"), rank, axes)
        elif op == "demote":
            result[rank] = held[rank] if coordinate(rank, axes)[0] == 0 else 0 * held[rank]
        elif op == "all_reduce":
            result[rank] = sum(members)
        elif op == "reduce_scatter":
            result[rank] = block(sum(members), number("dim"), rank, axes)
        elif op == "all_gather":
            result[rank] = numpy.concatenate(members, number("dim"))
        else:
            assert op == "all_to_all", op
            result[rank] = numpy.concatenate([block(m, number("split"), rank, axes) for m in members], number("concat"))
    return result


def module_of(pairs):
    size = "x".join(map(str, SHAPE))
    lines = ["module attributes {mg.mesh = #mg.mesh<" + ", ".join(f"{a} = {n}" for a, n in MESH.items())
             + ">, mg.placement = [], mg.training = #mg.training<split_backward = false>} {"]
    for i, (source, target) in enumerate(pairs):
        a, b = (f"tensor<{size}xf32, #mg.layout<{text_of(layout)}>>" for layout in (source, target))
        lines += [f'func.func @f{i}(%x: {a}) -> {b} attributes {{mg.block = "f{i}", mg.pass = "forward"}} {{',
                  f"  %0 = mg.reshard %x : {a} -> {b}", f"  return %0 : {b}", "}"]
    return "\n".join(lines + ["}", ""])


def random_pairs(r):
    pairs = []
    while len(pairs) < PAIRS:
        source, target = random_layout(r, True), random_layout(r, False)
        if len(pairs) % 3 == 0 and source[1]:  # one that keeps an axis pending
            kept = source[1][0]
            splits = tuple(tuple(a for a in axes if a != kept) for axes in target[0])
            target = splits, (kept,)
        if source != target:
            pairs.append((source, target))
    return pairs


def test_09_reshards_over_three_axes(session):
    r = numpy.random.default_rng(9)
    pairs = random_pairs(r)
    output = session.optimize(module_of(pairs), "--mg-local")
    functions = output.split("func.func @f")[1:]
    assert len(functions) == PAIRS
    for (source, target), function in zip(pairs, functions):
        summands = {c: r.integers(-9, 10, SHAPE) for c in itertools.product(*(range(MESH[a]) for a in source[1]))}
        held = {rank: local(summands, source, rank) for rank in RANKS}
        steps = re.findall(r'mg\.(\w+) %\w+ over \[([^\]]*)\](?: \{([^}]*)\})?', function)
        before = held
        for op, axes, attributes in steps:
            before, held = held, run_step(held, op, re.findall(r'"(\w+)"', axes), attributes)
        what = f"{text_of(source)} -> {text_of(target)} by {[step[:2] for step in steps]}"
        check_ranks(sum(summands.values()), held, target, what)
        assert not is_value(sum(summands.values()), before, target), f"{what}: the last step does nothing"


def is_value(dense, held, target):
    try:
        check_ranks(dense, held, target, "")
        return True
    except (AssertionError, ValueError):  # ValueError: blocks of different shapes
        return False


def check_ranks(dense, held, target, what):
    """Summed over what is pending, each block is that of the dense value; ranks hold equal bits otherwise."""
    splits, pending = target
    for rank in RANKS:
        found = sum(held[r] for r in group(rank, pending))
        wanted = block(block(dense, 0, rank, splits[0]), 1, rank, splits[1])
        assert numpy.array_equal(found, wanted), f"{what}: rank {rank} holds {found}, expected {wanted}"
        free = [axis for axis in MESH if axis not in splits[0] + splits[1] + pending]
        for other in group(rank, free):
            assert numpy.array_equal(held[rank], held[other]), f"{what}: ranks {rank} and {other} differ"


if __name__ == "__main__":
    main(globals())
