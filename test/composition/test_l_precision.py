#!/usr/bin/env python3
# Group L of docs/composition-bugs.md: bf16 with f32 masters, composed with everything that sums, shards or saves.
import json
import math
import subprocess

import numpy

import models
from harness import main, tensor_files
from models import GPT2, LLAMA, QWEN3

BF16, BOTH = "--dtype bf16", "--dtype bf16 --grad-dtype bf16"
ALONE = (16,)  # one sequence whose tokens all count
ROUND_F32, ROUND_BF16 = 2.0**-24, 2.0**-8
# None of these changes what is rounded to bf16 in forward and backward: results differ as sums in f32 do. (A backward in
# two halves stores what one would not; tensor ranks round partial sums.)
LAYOUTS = ("--dp 2 --zero 0", "--dp 4 --zero 1", "--pp 2", "--pp 2 --dp 2 --zero 1")


def nearest(values):
    """f32 rounded to bf16, to nearest even."""
    bits = numpy.ascontiguousarray(values, numpy.float32).view(numpy.uint32).astype(numpy.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1) >> 16 << 16).astype(numpy.uint32)).view(numpy.float32)


def same(one, other, what):
    assert one.keys() == other.keys(), f"{what}: other names"
    differ = [name for name in one if one[name].tobytes() != other[name].tobytes()]
    assert not differ, f"{what}: other bits in {', '.join(differ)}"


def distance(one, other):
    """The largest difference of two sets of tensors, as a part of the largest element of the tensor."""
    return max(float(abs(one[n].astype(numpy.float64) - other[n]).max() / max(abs(one[n]).max(), 1e-30)) for n in one)


def repeated(session, config, layout, times):
    """The gradients of `times` equal sequences."""
    batch = models.random_batch(config, ALONE)
    return train_on(session, config, layout, {name: numpy.repeat(data, times, 1) for name, data in batch.items()})


def train_on(session, config, layout, batch):
    folder, plan = session.new_folder(), session.compile(config, layout, batch["labels"].shape[1])
    for name, tensors in (("data", batch), ("start", models.random_weights(config))):
        tensor_files.save(folder / f"{name}.safetensors", tensors)
    done = session.execute("mgrun", plan, "--data", folder / "data.safetensors", "--load", folder / "start.safetensors",
                           "--train-iters", 1, "--poison", "--save-gradients", folder / "gradients", "--timeout", 60)
    assert done.returncode == 0, done.stderr
    return tensor_files.load(folder / "gradients")


# The sum of 64 equal gradients is 64 of them, which f32 knows to within 64 roundings. Bf16 is off by many of its own.
def test_01_gradients_add_up_in_f32(session):
    one = repeated(session, LLAMA, BF16, 1)
    for layout in ("--tp 1", "--dp 2 --zero 1", "--pp 2"):
        many = repeated(session, LLAMA, f"{layout} {BF16}", 64)
        assert distance(one, many) <= 64 * ROUND_F32, f"{layout}: {distance(one, many)}"
        coarse = repeated(session, LLAMA, f"{layout} {BOTH}", 64)
        assert ROUND_BF16 < distance(one, coarse) <= 64 * ROUND_BF16, f"{layout}: {distance(one, coarse)}"


# Activations of a token are the same in all of these layouts; gradients are sums of the same numbers in another order.
def test_02_reductions_over_data_and_stages_are_f32(session):
    for config in (GPT2, LLAMA, QWEN3):
        one = session.train(config, f"--tp 1 {BF16}", steps=1)
        for layout in LAYOUTS:
            many = session.train(config, f"{layout} {BF16}", steps=1)
            # 64 tokens and a tie: less than 128 additions. Elements may cancel to 1/8 of what is added.
            assert distance(one.gradients, many.gradients) <= 8 * 128 * ROUND_F32, f"{config['model_type']} {layout}"


def test_03_norm_is_that_of_the_gathered_gradients(session):
    for types in (BF16, BOTH):
        for layout in ("--tp 1", "--tp 2 --sp", "--tp 2 --pp 2 --dp 2 --zero 1"):
            run = session.train(GPT2, f"{layout} {types}")
            found, wanted = run.log[0]["grad_norm"], run.norm()
            assert abs(found / wanted - 1) <= 1e-5, f"{layout} {types}: {found}, expected {wanted}"


# Without moments and decay a step is lr times the gradient's sign: 1/500 of what bf16 would have to move by.
def test_04_tiny_steps_add_up_in_masters(session):
    lr, steps = 1e-5, 3
    flags = f"--lr {lr} --adam-beta1 0 --adam-beta2 0 --adam-eps 1e-12 --weight-decay 0 --save-dtype f32"
    start = models.random_weights(LLAMA)
    for layout in ("--tp 1", "--tp 2 --sp --dp 2 --zero 1", "--pp 2 --dp 2 --zero 0", "--pp 2 --dp 2 --zero 3",
                   "--dp 2 --zero 2 --overlap-grad-reduce --overlap-param-gather"):
        exact = session.train(LLAMA, layout, steps=steps, flags=flags)
        found = session.train(LLAMA, f"{layout} {BF16}", steps=steps, flags=flags)
        coarse = session.train(LLAMA, f"{layout} {BF16}", steps=steps, flags=flags.replace("--save-dtype f32", ""))
        agree, unmoved = [], []
        for name, weights in start.items():
            moved, wanted = found.weights[name] - weights.astype(numpy.float64), exact.weights[name] - weights.astype(numpy.float64)
            gradient = abs(exact.gradients[name])
            # The wanted step has the same sign in all steps, and the gradient is so large that rounding does not flip
            # it.
            sure = (abs(abs(wanted) - steps * lr) < 1e-2 * steps * lr) & (gradient > 2 * numpy.sqrt((gradient**2).mean()))
            agree += list(abs(moved - wanted)[sure] <= 2 * steps * ROUND_F32 * numpy.maximum(abs(weights[sure]), 2.0**-6))
            stays = abs(weights) > 2**10 * steps * lr  # a unit of the last place is 2^-8 of it at least
            unmoved += list((nearest(weights) == coarse.weights[name])[stays])
        assert numpy.mean(unmoved) > 0.95, "what bf16 shows of it"
        # Later batches have other gradients, whose sign now and then is for rounding to decide.
        assert len(agree) > 100 and numpy.mean(agree) > 0.97, f"{layout}: {numpy.mean(agree)} of {len(agree)}"


def test_05_saved_values_are_the_masters_rounded(session):
    for layout in ("--tp 1", "--tp 2 --dp 2 --zero 1", "--pp 2 --dp 2 --zero 1", "--tp 2 --dp 2 --zero 3",
                   "--pp 2 --dp 2 --zero 1 --overlap-grad-reduce --overlap-param-gather"):
        runs = [session.train(QWEN3, f"{layout} {BF16}", flags=f"--save-dtype {kind}") for kind in ("f32", "bf16")]
        same({n: nearest(w) for n, w in runs[0].weights.items()}, runs[1].weights, layout)
        same(runs[0].gradients, runs[1].gradients, layout)


# Both types are read by both kinds of plans: what is coarser stays what it is, what is finer is rounded in values alone.
def test_06_checkpoints_of_both_types(session):
    start = models.random_weights(GPT2)
    first = session.new_folder()
    tensor_files.save(first / "start.safetensors", start)
    rounded = {name: nearest(w) for name, w in start.items()}

    def through(source, layout, kind):
        out = session.new_folder() / "weights"
        done = session.execute("mgrun", session.compile(GPT2, layout), "--mock-data", "--train-iters", 0, "--load", source,
                               "--save", out, "--no-save-optim", "--save-dtype", kind)
        assert done.returncode == 0, done.stderr
        return out

    for plan in ("--tp 1", f"--tp 1 {BF16}", f"--tp 2 --pp 2 --dp 2 --zero 1 {BF16}"):
        wide, narrow = (through(first / "start.safetensors", plan, kind) for kind in ("f32", "bf16"))
        same(tensor_files.load(wide / "model.safetensors"), start, f"{plan}, f32")
        same(tensor_files.load(narrow / "model.safetensors"), rounded, f"{plan}, bf16")
        for other in ("--tp 1", f"--tp 2 --dp 2 --zero 1 {BF16}"):
            for kind in ("f32", "bf16"):
                again = through(narrow, other, kind)
                same(tensor_files.load(again / "model.safetensors"), rounded, f"{plan}, bf16, {other}, {kind}")
            same(tensor_files.load(through(wide, other, "f32") / "model.safetensors"), start, f"{plan}, f32, {other}")


def padded_elements(config):
    """By hand: each parameter takes a multiple of 32 elements, 64 bytes of bf16; the vocabulary one of 128 rows."""
    rows = lambda name, shape: (128, *shape[1:]) if name.endswith(("wte.weight", "embed_tokens.weight")) else shape
    return sum(-(-math.prod(rows(n, s)) // 32) * 32 for n, s in models.shapes_of(config).items())


def bytes_of(plan, kind):
    return sum(region["bytes"] for region in plan["stages"][0]["regions"] if region["kind"] == kind)


def test_07_memory_is_what_a_count_by_hand_gives(session):
    for config in (GPT2, QWEN3):
        n = padded_elements(config)
        for types, gradient in ((BF16, 4), (BOTH, 2)):
            plan = session.plan(config, f"--tp 1 {types}")
            found = [bytes_of(plan, kind) for kind in ("parameters", "gradients", "optimizer")]
            assert found == [2 * n, gradient * n, (4 + 8) * n], f"{config['model_type']} {types}: {found}, {n} elements"
            plan = session.plan(config, f"--dp 2 --zero 1 {types}")
            found = [bytes_of(plan, kind) for kind in ("parameters", "gradients", "optimizer")]
            share = plan["stages"][0]["buckets"]
            n2 = sum(bucket["elements"] for bucket in share)  # halves are whole lines, too
            assert n <= n2 <= n + 64 * len(share)
            assert found == [2 * n2, gradient * n2 * 3 // 2, (4 + 8) * n2 // 2], f"{types} ZeRO-1: {found}"
    # GPT-2 keeps per token and layer the input, 3 h of q, k and v, o, the sum and 2 h (n_inner) before gelu, for the head its
    # input; and lse in f32. A microbatch of one sequence.
    h, layers, heads = GPT2["n_embd"], GPT2["n_layer"], GPT2["n_head"]
    for types, size in (("", 4), (BF16, 2)):
        wanted = models.SEQUENCE * (size * h * (8 * layers + 1) + 4 * heads * layers)
        assert bytes_of(session.plan(GPT2, f"--tp 1 {types}"), "activations") == wanted, types


# The gradient of a parameter is made as f32 and never rounded; nor are the numbers of the step. Activations are sent,
# gathered and summed in bf16.
def test_08_types_of_what_is_summed(session):
    plan = session.plan(GPT2, f"--tp 2 --sp --pp 2 --dp 2 --zero 1 {BF16}")
    used, products = {}, []
    for stage in plan["stages"]:
        for chunk in stage["chunks"]:
            for call in chunk["calls"]:
                for i in plan["programs"][call["program"]]["instructions"]:
                    if i["op"] == "collective":
                        used.setdefault(chunk["task"], set()).add((i["kind"], i["type"]))
                    products += [i] if i["op"] == "gemm" and i["m"] * i["n"] > 1 else []  # the loss is a dot
    assert all(kind == "f32" for _, kind in used["reduce"]), used["reduce"]
    assert used["update"] == {("all_gather", "bf16")}, used["update"]
    assert all(kind == "bf16" for _, kind in used["forward"]), used["forward"]
    assert {i.get("inputType", "f32") for i in products} == {"bf16"}
    assert {bool(i.get("transposeA")) for i in products if i.get("outputType", "f32") == "f32"} == {True}


def test_09_what_is_refused(session):
    for layout, words in (("--grad-dtype bf16", ("gradients would be coarser than parameters", "f32")),
                          ("--dtype f16", ("--dtype f16 is not known", "f32, bf16")),
                          ("--dtype bf16 --grad-dtype f64", ("--grad-dtype f64", "f32, bf16")),
                          ("--bf16 --dtype f32", ("--bf16",)),
                          ("--bf16 --fp16", ("--fp16",)), ("--bf16 --loss-scale 128", ("--loss-scale",)),
                          ("--fp32-residual-connection", ("with --dtype f32: the residual stream is f32 without it",
                                                          "possible: --dtype bf16", "--no-fp32-residual-connection"))):
        folder = session.new_folder()
        (folder / "config.json").write_text(json.dumps(GPT2))
        done = subprocess.run([session.binaries / "mgc", "compile", "config.json", "--seq", "16", *layout.split(), "-o", "out"],
                              cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode in (1, 2) and all(word in done.stderr for word in words), f"{layout}: {done.stderr}"
        assert not (folder / "out").exists()


def instructions_of(plan, task):
    for stage in plan["stages"]:
        for chunk in stage["chunks"]:
            if chunk["task"] == task:
                for call in chunk["calls"]:
                    yield from plan["programs"][call["program"]]["instructions"]


RESIDUAL = f"{BF16} --fp32-residual-connection"


# The stream is f32 in memory and between stages; what products read, and what tensor ranks gather and reduce, is bf16.
def test_10_types_with_residuals_in_f32(session):
    for config in (GPT2, LLAMA):
        for layout in ("--tp 2 --sp --pp 2", "--tp 2 --no-sp --pp 2"):
            plan = session.plan(config, f"{layout} {RESIDUAL}")
            for task in ("forward", "backward"):
                made = list(instructions_of(plan, task))
                products = [i for i in made if i["op"] == "gemm" and i["m"] * i["n"] > 1]
                assert {i.get("inputType", "f32") for i in products} == {"bf16"}, f"{layout} {task}"
                sums = [i for i in made if i["op"] == "collective" and i["chunk"] > models.SEQUENCE]
                assert sums and {i["type"] for i in sums} == {"bf16"}, f"{layout} {task}: {sums}"
    # As in test_07; of the stream, in f32, a layer keeps its input and the sum, the head its input.
    h, layers, heads = GPT2["n_embd"], GPT2["n_layer"], GPT2["n_head"]
    wanted = models.SEQUENCE * (4 * h * (2 * layers + 1) + 2 * h * 6 * layers + 4 * heads * layers)
    assert bytes_of(session.plan(GPT2, f"--tp 1 {RESIDUAL}"), "activations") == wanted


# A stream of bf16 is rounded at each sum, a read of it once. So in 24 layers, 48 sums, of a stream that is large
# compared with what branches add (embeddings 16 times as large), that is most of what a run is off by. Rounded
# weights are those of all three.
def test_11_residuals_in_f32_are_nearer_to_f32(session):
    config = LLAMA | {"num_hidden_layers": 24}
    weights = {name: nearest(w) for name, w in models.random_weights(config).items()}
    weights["model.embed_tokens.weight"] *= 16
    batch = models.random_batch(config, steps=16)
    exact, coarse, finer = (session.train_new(config, f"--tp 1 {types}", steps=16, weights=weights, batch=batch,
                                              flags="--lr 0 --weight-decay 0") for types in ("", BF16, RESIDUAL))
    root = lambda squares: math.sqrt(numpy.mean(list(squares)))
    losses = lambda run: root((a["loss"] - b["loss"]) ** 2 for a, b in zip(run.log, exact.log))
    gradients = lambda run: root(((run.gradients[n] - g) ** 2).mean() / (g**2).mean() for n, g in exact.gradients.items())
    for what, off in (("losses", losses), ("gradients", gradients)):  # half as far, when this was written
        assert off(finer) < 0.75 * off(coarse), f"{what}: off by {off(finer):.3g}, with a stream of bf16 {off(coarse):.3g}"


if __name__ == "__main__":
    main(globals())
