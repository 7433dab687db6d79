#!/usr/bin/env python3
# Levels of ZeRO: what reduces and shares out gradients (docs/sharding.md, The functions of a step), in layouts of every axis, and how
# many bytes travel for it (docs/memory.md).
import collections
import json
import math
import shutil

import models
from harness import assert_same_bits, compare_layouts, main  # plan_lists is found by its path
import plan_lists
from models import GPT2, LLAMA, QWEN3, QWEN3_MOE

MICROBATCHES = (1, 2, 4)


def test_every_microbatch_counts_once(session):
    for config in (GPT2, QWEN3):
        compare_layouts(session, config, [f"--dp 2 --zero {zero} --mbs {2 // min(m, 2)} {more}" for m in MICROBATCHES
                                          for zero, more in session.some([(zero, more) for zero in (2, 3) for more in (
                                              "", "--tp 2 --sp", "--pp 2", "--pp 2 --schedule zb-h1")])])


# Sums over data ranks come before those over microbatches, and behind those over other axes: with one microbatch, and nothing that is
# pending over tp, they are the same sums. Norms are sums over slices, in an order of their own: they differ by their rounding.
def test_levels_have_the_same_bits(session):
    for layout in ("--dp 2 --mbs 2", "--dp 2 --tp 2 --no-sp --mbs 2"):
        one, two = (session.train(LLAMA, f"{layout} --zero {zero}", flags="--clip-grad 0") for zero in (1, 2))
        for a, b in zip(one.log, two.log, strict=True):
            assert a | {"grad_norm": 0} == b | {"grad_norm": 0} and abs(a["grad_norm"] / b["grad_norm"] - 1) < 2 ** -22, (layout, a, b)
        for kind in ("gradients", "weights"):
            assert all((getattr(two, kind)[name] == tensor).all() for name, tensor in getattr(one, kind).items()), (layout, kind)


# Masters are never made of values again, at no level: else a hundred steps of bf16 would not have the bits of level 0, whose masters are
# whole. The first update counts as step 1 in all.
def test_hundred_steps_have_the_same_bits(session):
    batch = models.random_batch(LLAMA, steps=100)
    ahead = "--overlap-grad-reduce --overlap-param-gather"
    runs = [session.train_new(LLAMA, f"--dp 2 --mbs 2 --dtype bf16 --zero {zero}", steps=100, flags="--clip-grad 0 --lr 0.01", batch=batch)
            for zero in (0, 1, f"1 {ahead}", 2, f"2 {ahead}", 3)]
    for run in runs[1:]:  # norms are sums over slices, in an order of their own
        assert all((run.weights[name] == weights).all() for name, weights in runs[0].weights.items())


# In how many parts gradients are reduced, and values gathered, says nothing of what they are.
def test_sizes_of_parts(session):
    for more in ("", "--overlap-param-gather"):
        compare_layouts(session, LLAMA, [f"--dp 4 --mbs 1 --zero 1 --overlap-grad-reduce --ddp-bucket-size {size} {more}"
                                         for size in (1, 300, 3000, 10**9)])


# Where values are gathered to says nothing of the sums.
def test_gathered_values_have_the_bits_of_whole_ones(session):
    for layout in session.some(("--dp 2 --mbs 1", "--dp 2 --tp 2 --sp --mbs 1", "--dp 2 --pp 2 --mbs 1", "--pp 2 --cp 2 --mbs 1 --dtype bf16",
                                "--dp 2 --pp 2 --vpp 2 --schedule zb-v --mbs 1")):
        whole = session.train(models.with_layers(QWEN3, 4), f"{layout} --zero 2")
        for flags in ("", "--no-reshard-after-forward"):
            assert_same_bits(whole, session.train(models.with_layers(QWEN3, 4), f"{layout} --zero 3 {flags}"), (layout, flags))


# A schedule that pairs a forward with a backward has memory for the values of each; frozen layers are gathered as others are.
def test_pairs_and_frozen_layers(session):
    config = models.with_layers(QWEN3, 4)
    for layout in ("--dp 2 --pp 2 --vpp 2 --schedule dualpipev --mbs 1", "--dp 2 --mbs 1"):
        whole, sliced = (session.train(config, f"{layout} --freeze layers:1 --zero {zero}") for zero in (2, 3))
        assert_same_bits(whole, sliced, layout)


def test_tied_tables_behind_other_units(session):
    for config in (GPT2, QWEN3):
        compare_layouts(session, config, [f"{layout} --zero {zero}" for zero, layout in session.some(
            [(zero, layout) for zero in (2, 3) for layout in ("--dp 2", "--pp 2 --dp 2", "--pp 2 --dp 2 --tp 2 --sp --mbs 1", "--cp 2 --pp 2")])])


def test_norms_and_few_groups(session):
    for config in (QWEN3, LLAMA | {"num_key_value_heads": 1}):
        compare_layouts(session, config, ["--tp 2 --sp --dp 2 --zero 2", "--tp 4 --no-sp --dp 2 --zero 2", "--tp 2 --sp --dp 2 --zero 3"])


# Experts have data ranks of their own: none where ep takes all of them.
def test_experts_have_their_own_data_ranks(session):
    compare_layouts(session, QWEN3_MOE, [f"--dp {dp} --ep {ep} --zero {zero} --mbs 1" for dp, ep, zero in ((2, 2, 3), (4, 2, 2), (4, 2, 3), (2, 1, 2))])
    for zero, role in ((2, "unitGradient"), (3, "unitValue")):
        for stage in session.plan(QWEN3_MOE, f"--dp 2 --ep 2 --zero {zero}")["stages"]:
            for bucket in stage["buckets"]:
                roles = {state["role"] for state in bucket["states"]}
                assert (role in roles) == bool(bucket.get("dataAxes")), bucket


def test_one_replica_trains_as_level_0(session):
    for layout in ("", "--tp 2", "--pp 2"):
        runs = [session.train(GPT2, f"{layout} --zero {zero}") for zero in (0, 2, 3)]
        assert_same_bits(*runs[:2], layout)
        assert_same_bits(*runs[::2], layout)


# Inside of an instance slices are reduced and gathered, between instances they are summed; experts have instances of their own ranks.
def test_instances(session):
    compare_layouts(session, QWEN3, [f"{layout} --zero {zero} --num-distributed-optimizer-instances 2" for zero, layout in session.some(
        [(zero, layout) for zero in (1, 2, 3) for layout in ("--dp 4", "--dp 2 --cp 2 --pp 2", "--dp 4 --tp 2 --sp", "--pp 2 --dp 2")])])
    compare_layouts(session, QWEN3, ["--dp 4 --zero 1 --num-distributed-optimizer-instances 2 --mbs 1 --overlap-grad-reduce --ddp-bucket-size 300"])
    compare_layouts(session, QWEN3_MOE, [f"--dp 4 --ep {ep} --zero {zero} --num-distributed-optimizer-instances 2 --mbs 1"
                                         for ep, zero in session.some(((2, 1), (2, 3), (4, 2), (1, 3)))])
    for zero in (1, 2, 3):
        plan = session.plan(LLAMA, f"--dp 4 --zero {zero} --mbs 1 --num-distributed-optimizer-instances 2", 8)
        assert plan["mesh"]["named"]["dp"] == ["dpo", "dpi"], plan["mesh"]
        for stage in plan["stages"]:
            elements, found = sum(bucket["elements"] for bucket in stage["buckets"]), data_elements(plan, stage)
            scattered = elements if zero == 1 else units(plan, stage)
            assert found["reduce_scatter", ("dpi",)] == scattered and found["all_reduce", ("dpo",)] == elements // 2, (zero, found)
            assert zero == 3 or found["all_gather", ("dpi",)] == elements, (zero, found)
            assert len(found) == 3, (zero, found)


# States of the update are cut again between instances: a slice of gradients is scattered once a step, and the new values are gathered.
def test_instances_that_share_the_update_out(session):
    optim = "--zero 3 --num-distributed-optimizer-instances 2 --outer-dp-sharding-strategy optim"
    compare_layouts(session, QWEN3, [f"{layout} {optim}" for layout in session.some(
        ("--dp 4 --mbs 1", "--dp 2 --cp 2 --pp 2", "--dp 4 --tp 2 --sp", "--pp 2 --dp 4 --mbs 1 --no-reshard-after-forward"))])
    compare_layouts(session, GPT2, [f"--pp 2 --dp 4 --mbs 1 {optim}"])  # a table that two stages tie
    compare_layouts(session, QWEN3_MOE, [f"--dp 4 --ep 2 {optim} --mbs 1"])
    plan = session.plan(LLAMA, f"--dp 4 --mbs 1 {optim}", 8)
    for stage in plan["stages"]:
        elements, found = sum(bucket["elements"] for bucket in stage["buckets"]), data_elements(plan, stage)
        assert found["reduce_scatter", ("dpo",)] == found["all_gather", ("dpo",)] == elements // 2, found
        assert found["reduce_scatter", ("dpi",)] == units(plan, stage) and len(found) == 4, found


# Values of the next instance are gathered, and gradients of the one before summed up, while one computes: in a second memory, and no bit
# changes.
def test_what_overlaps_the_layers(session):
    for config, layout in session.some(((GPT2, "--dp 4 --mbs 1"), (QWEN3 | {"num_hidden_layers": 4}, "--pp 2 --vpp 2 --dp 2 --schedule interleaved"),
                                        (QWEN3, "--cp 2 --dp 2 --tp 2 --sp"), (QWEN3_MOE, "--dp 4 --ep 2 --mbs 1"), (LLAMA, "--pp 2 --dp 2 --schedule zb-h1"),
                                        (LLAMA | {"num_hidden_layers": 4}, "--dp 2 --freeze layers:0-1"), (LLAMA, "--dp 2 --no-reshard-after-forward"))):
        runs = [session.train(config, f"{layout} --zero 3 --{values}overlap-param-gather --{sums}overlap-grad-reduce")
                for values, sums in (("no-", "no-"), ("", "no-"), ("no-", ""), ("", ""))]
        for run in runs[1:]:
            assert_same_bits(runs[0], run, layout)
    in_line, ahead = (gathers_in_front(session.plan(LLAMA, f"--dp 2 --zero 3 --{no}overlap-param-gather", 8)) for no in ("no-", ""))
    for task in ("forward.0", "backward.0"):
        assert 0 < in_line[task] < ahead[task], "the second instance's values come before the first computes"
    assert_same_bits(*(session.train(LLAMA, f"--dp 2 --pp 2 --zero 2 --{no}overlap-grad-reduce") for no in ("no-", "")), "level 2")
    plan = session.plan(LLAMA, "--dp 2 --zero 2 --overlap-grad-reduce", 8)
    backward = next(chunk for chunk in plan["stages"][0]["chunks"] if chunk["task"] == "backward")
    names = [plan["programs"][call["program"]]["name"] for call, _ in plan_lists.runs(backward["calls"], backward.get("repeats", []))]
    kinds = ["sum" if ".sum." in name else "add" if ".unit." in name else "clear" if ".clear." in name else "layer" for name in names]
    first = kinds.index("sum")
    assert "layer" in kinds[first:kinds.index("add")], "a layer computes between a sum and its addition"


# At levels 1 and 2 values are gathered once a step, in parts, each ahead of the first layer that reads it: whatever the use order, and
# tables that two stages tie, with an evaluation between two steps and with files that are written at once.
def test_gathers_once_a_step(session):
    ahead = "--overlap-grad-reduce --overlap-param-gather"
    for config, layout in session.some(((GPT2, "--dp 4 --mbs 1"), (QWEN3 | {"num_hidden_layers": 4}, "--pp 2 --vpp 2 --dp 2 --schedule interleaved"),
                                        (QWEN3, "--cp 2 --dp 2 --tp 2 --sp"), (QWEN3_MOE, "--dp 4 --ep 2 --mbs 1"), (LLAMA, "--pp 2 --dp 2 --schedule zb-h1"),
                                        (GPT2 | {"n_layer": 4}, "--dp 2 --pp 2 --vpp 2 --schedule dualpipev --mbs 1"),
                                        (LLAMA, "--dp 4 --mbs 1 --num-distributed-optimizer-instances 2"), (QWEN3, "--dp 2 --dtype bf16 --mbs 1"),
                                        (LLAMA | {"num_hidden_layers": 4}, "--dp 2 --freeze layers:0-1"))):
        for zero, size in ((1, "--ddp-bucket-size 300"), (1, ""), (2, "")):
            runs = [session.train(config, f"{layout} --zero {zero} {size} --overlap-grad-reduce {more}") for more in ("", "--overlap-param-gather")]
            assert_same_bits(*runs, (layout, zero))
    for zero, size in ((1, "--ddp-bucket-size 300"), (2, "")):
        for vpp in (2, 1):
            plan = session.plan(models.with_layers(LLAMA, 4), f"--dp 2 --pp 2 --vpp {vpp} --mbs 1 --zero {zero} {ahead} {size}", 8)
            for stage in plan["stages"]:
                elements = sum(bucket["elements"] for bucket in stage["buckets"])
                gathered = {chunk: sum(sizes) for chunk, sizes in gathers_of_chunks(plan, stage).items()}
                firsts = [gathered.pop(f"forward.{chunk}.first") for chunk in range(vpp)]
                assert all(firsts) and sum(firsts) == elements and not any(gathered.values()), (zero, firsts, gathered)
        assert gathers_in_front(plan)["forward.0.first"] > 1
        step = next(step for step in plan["stages"][0]["schedule"] if step.get("microbatch", -1) == 0)
        assert plan["stages"][0]["chunks"][step["chunk"]].get("first"), "the first microbatch's forward gathers"
    # The first two parts are gathered in front of the first layer, each other in front of the first layer of the part before it.
    plan = session.plan(models.with_layers(LLAMA, 8), f"--dp 2 --mbs 1 --zero 1 {ahead} --ddp-bucket-size 6000", 8)
    chunks = {name_of(chunk): chunk for chunk in plan["stages"][0]["chunks"]}
    parts, first = len(chunks["gradients.0"]["calls"]), chunks["forward.0.first"]
    kinds = [is_gather(plan, call) for call, _ in plan_lists.runs(first["calls"], first.get("repeats", []))]
    groups = sum(kind and not before for before, kind in zip([False] + kinds, kinds))
    assert groups == parts - 1 and 3 < parts < 8, (groups, parts)
    apart = [i for i, (before, kind) in enumerate(zip([False] + kinds, kinds)) if kind and not before]
    layers = [kinds[i:j].count(False) for i, j in zip(apart, apart[1:])]
    assert all(count > 1 for count in layers[1:]), "a part of several layers computes between two gathers"
    refuse_stale_values(session)


# Plans of which a step would read values of the step before: without a gather, with the first microbatch's chunk for another, or twice.
def refuse_stale_values(session):
    bundle = session.compile(LLAMA, "--dp 2 --mbs 1 --zero 2 --overlap-grad-reduce --overlap-param-gather", 8)
    whole = plan_lists.read(bundle)
    run = whole["plan"]["stages"][0]["schedule"]
    chunks = whole["plan"]["stages"][0]["chunks"]
    first = next(i for i, chunk in enumerate(chunks) if chunk.get("first"))
    edits = {
        "values of the step before": (lambda stage: stage["chunks"][first]["calls"].pop(0), "nothing has written in the step"),
        "not first": (lambda stage: stage["chunks"][first].pop("first"), "a second chunk 'forward.0'"),
        "region": (lambda stage: hide_gathers(stage, first), "does not lie in a region 'gathered'"),
        "cleared": (lambda stage: clear_gathered(stage, first), "which lie in the region 'gathered'"),
        "twice": (lambda stage: run_first_twice(stage, first), "no step runs chunk 'forward.0'"),
        "other microbatch": (lambda stage: swap_first(stage, first), "expected the chunk that is first for microbatch 0, and for that alone"),
    }
    assert run[1]["chunk"] == first, run[:3]
    for name, (edit, expected) in edits.items():
        edited = json.loads(json.dumps(whole))
        edit(edited["plan"]["stages"][0])
        folder = session.new_folder() / "bundle"
        shutil.copytree(bundle, folder)
        plan_lists.write(edited, folder)
        done = session.execute("mgrun", folder, "--mock-data", "--train-iters", 1)
        assert done.returncode == 1 and expected in done.stderr, (name, done.stderr)


# The values would be there from the step before.
def hide_gathers(stage, first):
    next(region for region in stage["regions"] if region["kind"] == "gathered")["kind"] = "parameters"
    stage["chunks"][first]["calls"].pop(0)


# The step would begin with zeros in the place of values.
def clear_gathered(stage, first):
    begin = next(chunk for chunk in stage["chunks"] if chunk["task"] == "begin")["calls"][0]
    begin["segments"][0]["offset"] = next(region for region in stage["regions"] if region["kind"] == "gathered")["offset"]
    stage["chunks"][first]["calls"].pop(0)


def run_first_twice(stage, first):
    for step in stage["schedule"]:
        if step["kind"] == "run" and stage["chunks"][step["chunk"]]["task"] == "forward":
            step["chunk"] = first


def swap_first(stage, first):
    other = next(i for i, chunk in enumerate(stage["chunks"]) if chunk["task"] == "forward" and i != first)
    for step in stage["schedule"]:
        if step.get("chunk") in (first, other):
            step["chunk"] = first + other - step["chunk"]


def name_of(chunk):
    return f'{chunk["task"]}.{chunk.get("virtualStage", 0)}{".first" if chunk.get("first") else ""}'


def is_gather(plan, call):
    return [i.get("kind") for i in plan["programs"][call["program"]]["instructions"]] == ["all_gather"]


def gathers_of_chunks(plan, stage):
    """The elements of each gather of values over data ranks, by chunk."""
    found = {}
    for chunk in stage["chunks"]:
        found[name_of(chunk)] = [size for i, size in data_collectives(plan, {"chunks": [chunk]}) if i["kind"] == "all_gather"]
    return found


def gathers_in_front(plan):
    """How many calls of each chunk of the first stage gather values before the first layer computes."""
    found = {}
    for chunk in plan["stages"][0]["chunks"]:
        kinds = [is_gather(plan, call) for call, _ in plan_lists.runs(chunk["calls"], chunk.get("repeats", []))]
        found[name_of(chunk)] = kinds.index(False)
    return found


def data_elements(plan, stage):
    """Elements of the stage's collectives over data ranks, those of a microbatch once, by kind and axes."""
    found = {}
    for i, size in data_collectives(plan, stage):
        found[i["kind"], tuple(i["axes"])] = found.get((i["kind"], tuple(i["axes"])), 0) + size
    return found


def data_collectives(plan, stage):
    """The collectives of the stage's chunks over data ranks, those of a microbatch once, with the elements of the larger side."""
    sizes = {axis["name"]: axis["size"] for axis in plan["mesh"]["axes"]}
    for chunk in stage["chunks"]:
        for call, _ in plan_lists.runs(chunk["calls"], chunk.get("repeats", [])):
            for i in plan["programs"][call["program"]]["instructions"]:
                if i["op"] == "collective" and i.get("axes"):
                    size = i.get("outer", 1) * i["chunk"] * (1 if i["kind"] == "all_reduce" else math.prod(sizes[axis] for axis in i["axes"]))
                    if size >= 16:  # not the step's scalars
                        yield i, size


def test_slices_that_are_empty_or_padding(session):
    compare_layouts(session, GPT2, ["--dp 8 --zero 2 --mbs 1", "--dp 8 --zero 3 --mbs 1"], valid=models.VALID * 2)


def collectives(plan, stage):
    """(task, kind, elements of the larger side) of all collectives of the stage's chunks, those of a microbatch once."""
    sizes = {axis["name"]: axis["size"] for axis in plan["mesh"]["axes"]}
    for chunk in stage["chunks"]:
        for call, _ in plan_lists.runs(chunk["calls"], chunk.get("repeats", [])):
            for i in plan["programs"][call["program"]]["instructions"]:
                if i["op"] == "collective" and i.get("axes"):
                    axes = [p for axis in i["axes"] for p in plan["mesh"]["named"].get(axis, [axis])]
                    ranks = 1 if i["kind"] == "all_reduce" else math.prod(sizes[axis] for axis in axes)
                    yield chunk["task"], i["kind"], i.get("outer", 1) * i["chunk"] * ranks


def units(plan, stage):
    """Elements of the gradients of units that a microbatch makes: each instance makes one of each of its buckets. A tied table is one of
    two instances, on one stage or on two."""
    one = len(plan["stages"]) == 1
    tables = {place["bucket"] for p in plan["parameters"] if p["tensor"] in ("transformer.wte.weight", "model.embed_tokens.weight")
              for place in p["places"] if one}
    shared = lambda b: b in tables and plan["stages"][0]["buckets"][b].get("units", 1) == 1 and json.loads(plan["modelConfig"])["tie_word_embeddings"]
    return sum(bucket["elements"] * (2 if shared(b) else 1) for b, bucket in enumerate(stage["buckets"]))


def read_units(plan, stage, flags):
    """Elements of the units that a microbatch's calls of a task read: found by the parameters that they bind, as each call reads each of
    its units once. Where values stay, calls behind the forward of an instance read its."""
    width = {"f32": 4, "bf16": 2}[plan["dtype"]]
    found, in_forward = {}, set()
    for chunk in sorted(stage["chunks"], key=lambda chunk: chunk["task"] != "forward"):
        for call, iteration in plan_lists.runs(chunk["calls"], chunk.get("repeats", [])):
            program = plan["programs"][call["program"]]
            instance = call.get("instance", 0) + iteration * call.get("instanceStride", 0)
            if program["name"].startswith("gradients.") or chunk["task"] in ("begin", "reduce", "update"):
                continue
            block = program["name"].split(".")[0]
            for name in program["segments"]:
                parameter = name.partition(".")[2] if name.startswith("in") else ""
                for p in plan["parameters"]:
                    if p["tensor"] != parameter and not any(p["tensor"] == other for other in parameter.split("+")):
                        continue
                    place = next(place for place in p["places"] if place.get("stage", 0) == plan["stages"].index(stage)
                                 and ("{}" not in p["tensor"] or place.get("first", 0) <= instance < place.get("first", 0) + place.get("count", 1)))
                    bucket = stage["buckets"][place["bucket"]]
                    key = (block, instance, place["bucket"])
                    if chunk["task"] == "forward":
                        in_forward.add(key)
                    elif flags and key in in_forward:
                        continue
                    found.setdefault(chunk["task"], {})[key] = bucket["elements"] // bucket.get("units", 1)
    return {task: sum(units.values()) for task, units in found.items()}


# P elements of a stage's buckets, padding too. Level 0: one all-reduce of P a step. 1: one reduce-scatter and one gather of P. 2: a
# reduce-scatter of P in each microbatch, one for each unit of each bucket, and the gather. 3: the gathers are those of each microbatch, of
# what forward reads and of what backward reads, or where values stay until then, of what either does.
def test_bytes_that_travel(session):
    for config, layout in ((models.with_layers(GPT2, 4), "--dp 2"), (models.with_layers(QWEN3, 4), "--dp 4 --pp 2"), (LLAMA, "--dp 2 --tp 2 --no-sp")):
        for zero, flags in ((0, ""), (1, ""), (2, ""), (3, ""), (3, "--no-reshard-after-forward")):
            plan = session.plan(config, f"{layout} --zero {zero} --mbs 1 {flags}", 8)
            for stage in plan["stages"]:
                elements = sum(bucket["elements"] for bucket in stage["buckets"])
                found = {}
                for task, kind, size in collectives(plan, stage):
                    if size >= 16:  # not the step's scalars
                        found.setdefault((task, kind), []).append(size)
                of = lambda task, kind: sum(found.get((task, kind), []))
                backward = [one for one in ("backward", "input", "weight") if (one, "reduce_scatter") in found]
                if zero == 0:
                    assert of("reduce", "all_reduce") == elements and not backward, (layout, found)
                elif zero == 1:
                    assert of("reduce", "reduce_scatter") == elements == of("update", "all_gather") and not backward, (layout, found)
                else:
                    scattered = [size for one in backward for size in found[one, "reduce_scatter"]]
                    assert of("reduce", "reduce_scatter") == 0, (layout, found)
                    assert of("update", "all_gather") == (elements if zero == 2 else 0), (layout, found)
                    assert sum(scattered) == units(plan, stage), (layout, sum(scattered), units(plan, stage))
                if zero == 3:
                    gathered = {task: of(task, "all_gather") for task in ("forward", "backward", "input", "weight")}
                    assert gathered == {task: 0 for task in gathered} | read_units(plan, stage, flags), (layout, flags, gathered)


# Communicators do in a step what the plan counts: each collective of a rank's trace is one of a call of its schedule.
def test_collectives_that_ran(session):
    once = "--overlap-grad-reduce --overlap-param-gather"
    for zero, flags in session.some([(0, ""), (1, ""), (1, f"{once} --ddp-bucket-size 300"), (2, ""), (2, once), (3, ""), (3, once),
                                     (3, "--no-reshard-after-forward"), (3, "--num-distributed-optimizer-instances 2 --outer-dp-sharding-strategy optim")]):
        layout, folder = f"--dp 4 --pp 2 --mbs 1 --zero {zero} {flags}", session.new_folder()
        plan = session.plan(LLAMA, layout, 8)
        done = session.execute("mgrun", session.compile(LLAMA, layout, 8), "--mock-data", "--train-iters", 2, "--trace", folder / "trace.json")
        assert done.returncode == 0, done.stderr
        events = [event for event in json.loads((folder / "trace.json").read_text())["traceEvents"] if event.get("cat") == "collective"]
        for number, stage in enumerate(plan["stages"]):
            counted = collections.Counter()
            for step in plan_lists.schedule(stage):
                if step["kind"] == "run":
                    chunk = stage["chunks"][step["chunk"]]
                    calls = [call for call, _ in plan_lists.runs(chunk["calls"], chunk.get("repeats", []))]
                    first = step.get("firstCall", 0)
                    for call in calls[first : first + step.get("callCount", len(calls))]:
                        counted.update(i["label"] for i in plan["programs"][call["program"]]["instructions"] if i["op"] == "collective")
            for rank in range(number * 4, number * 4 + 4):  # pp is the outermost axis
                ran = collections.Counter(event["args"]["kernel"].partition(" [")[0] for event in events if event["tid"] == rank and event["args"]["step"] == 1)
                assert ran == counted, (layout, rank, ran - counted, counted - ran)


if __name__ == "__main__":
    main(globals())
