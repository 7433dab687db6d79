"""The shared part of the makers of reference values: values with gradients, AdamW and the files. All of it is numpy, computed in the
type of the weights that a training starts from, once in float64 and once in float32."""
import json
import os
import sys

import numpy

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
import tensor_files  # noqa: E402

SHAKES, SHAKE = 4, 2e-7  # as the other references: README.md, Tolerances


# --- Values with gradients -----------------------------------------------------------------------------------

class Value:
    """An array and how it was made: (operand, function from its cotangent to the operand's) for each operand."""

    def __init__(self, data, *made):
        self.data, self.made, self.gradient = data, made, None

    def __add__(self, other):
        return pointwise(self.data + of(other).data, (self, lambda d: d), (of(other), lambda d: d))

    def __sub__(self, other):
        return pointwise(self.data - of(other).data, (self, lambda d: d), (of(other), lambda d: -d))

    def __mul__(self, other):
        other = of(other)
        return pointwise(self.data * other.data, (self, lambda d: d * other.data), (other, lambda d: d * self.data))

    def power(self, exponent):
        return Value(self.data**exponent, (self, lambda d: d * exponent * self.data ** (exponent - 1)))

    def exp(self):
        result = numpy.exp(self.data)
        return Value(result, (self, lambda d: d * result))

    def log(self):
        return Value(numpy.log(self.data), (self, lambda d: d / self.data))

    def sum(self, axis=None, keep=False):
        def back(d):
            full = d if keep or axis is None else numpy.expand_dims(d, axis)
            return numpy.broadcast_to(full, self.data.shape)

        return Value(self.data.sum(axis=axis, keepdims=keep), (self, back))

    def take(self, index):
        def back(d):
            result = numpy.zeros_like(self.data)
            numpy.add.at(result, index, d)
            return result

        return Value(self.data[index], (self, back))


def of(value):
    return value if isinstance(value, Value) else Value(numpy.asarray(value))


def pointwise(data, *made):
    def reduced(operand, back):
        def onto(d):
            d = back(d)
            d = d.sum(axis=tuple(range(d.ndim - operand.data.ndim)))
            axes = tuple(i for i, size in enumerate(operand.data.shape) if size == 1 and d.shape[i] > 1)
            return d.sum(axis=axes, keepdims=True) if axes else d

        return operand, onto

    return Value(data, *(reduced(*one) for one in made))


def einsum(spec, a, b):
    """Each letter of an operand is in the other one or in the result."""
    a, b = of(a), of(b)
    (left, right), result = spec.split("->")[0].split(","), spec.split("->")[1]
    product = lambda text, x, y: numpy.einsum(text, x, y, optimize=True)
    return Value(product(spec, a.data, b.data), (a, lambda d: product(f"{result},{right}->{left}", d, b.data)),
                 (b, lambda d: product(f"{left},{result}->{right}", a.data, d)))


def differentiate(loss):
    order, seen, stack = [], set(), [(loss, False)]
    while stack:
        value, done = stack.pop()
        if done:
            order.append(value)
        elif id(value) not in seen:
            seen.add(id(value))
            stack.append((value, True))
            stack.extend((operand, False) for operand, _ in value.made)
    loss.gradient = numpy.ones_like(loss.data)
    for value in reversed(order):
        for operand, back in value.made:
            part = back(value.gradient)
            operand.gradient = part if operand.gradient is None else operand.gradient + part


def softmax(x):
    powers = (x - x.data.max(axis=-1, keepdims=True)).exp()
    return powers * powers.sum(axis=-1, keep=True).power(-1)


def log_sum_exp(x):
    most = x.data.max(axis=-1, keepdims=True)
    return (x - most).exp().sum(axis=-1).log() + most[..., 0]


# --- Losses and layers ---------------------------------------------------------------------------------------------

def rms_norm(x, weight, epsilon):
    mean = (x * x).sum(axis=-1, keep=True) * (1 / x.data.shape[-1])
    return x * (mean + epsilon).power(-0.5) * weight


def silu(x):
    return x * ((x * -1).exp() + 1).power(-1)


def reshape(x, *shape):
    return Value(x.data.reshape(shape), (x, lambda d: d.reshape(x.data.shape)))


def cross_entropy(logits, labels):
    """The mean over the labels that count."""
    valid = numpy.nonzero(labels != -100)
    picked = logits.take((*valid, labels[valid]))
    return (log_sum_exp(logits).take(valid) - picked).sum() * (1 / len(valid[0]))


def sequence_aux(router):
    """The mean over sequences of E / (k s) sum over e of count[e] mean probability[e]."""
    b, s, experts = router["hot"].shape
    scale = experts / (router["hot"].sum(axis=-1).max() * s * s * b)
    return (router["probabilities"].sum(axis=1) * router["hot"].sum(axis=1)).sum() * float(scale)


def z_loss(router):
    sums = log_sum_exp(router["logits"])
    return (sums * sums).sum() * (1 / sums.data.size)


def total(terms):
    loss = terms["cross_entropy"]
    for name, term in terms.items():
        loss = loss if name == "cross_entropy" else loss + term
    return loss


# --- Training ----------------------------------------------------------------------------------------------------

def chosen_of(router):
    """The experts of each token, [b, s, k], in ascending order."""
    return numpy.nonzero(router["hot"])[-1].reshape(*router["hot"].shape[:2], -1)


def adamw(weight, g, state, rate, decay, t, optimizer):
    beta1, beta2 = optimizer["betas"]
    weight *= weight.dtype.type(1 - rate * decay)
    first = state["exp_avg"] = (beta1 * state.get("exp_avg", 0) + (1 - beta1) * g).astype(weight.dtype)
    second = state["exp_avg_sq"] = (beta2 * state.get("exp_avg_sq", 0) + (1 - beta2) * g * g).astype(weight.dtype)
    root = numpy.sqrt(second / (1 - beta2**t)) + optimizer["eps"]
    weight -= (rate * (first / (1 - beta1**t)) / root).astype(weight.dtype)


def sgd(weight, g, state, rate, decay, _, optimizer):
    momentum = optimizer["momentum"]
    buffer = state["momentum_buffer"] = (momentum * state.get("momentum_buffer", 0) + g + decay * weight).astype(weight.dtype)
    weight -= (rate * buffer).astype(weight.dtype)


def lion(weight, g, state, rate, decay, _, optimizer):
    beta1, beta2 = optimizer["betas"]
    weight *= weight.dtype.type(1 - rate * decay)
    old = state.get("exp_avg", 0)
    mix = (beta1 * old + (1 - beta1) * g).astype(weight.dtype)
    weight -= (rate * numpy.sign(mix)).astype(weight.dtype)
    state["exp_avg"] = (beta2 * old + (1 - beta2) * g).astype(weight.dtype)
    state.setdefault("signed", []).append(mix)


# By the name of the optimizer in expect.json: changes a weight and its states in place, by the clipped gradient of step t, from 1 on.
UPDATES = {"AdamW": adamw, "SGD": sgd, "Lion": lion}


def uncertain_signs(exact, others):
    """How many signs of Lion's updates rounding may change, of the states of trainings: those of elements within 4 spreads of 0, as far
    off as results may be (README.md, Tolerances). An element that is 0 in all trainings, of a token that did not occur, has no rounding."""
    count = 0
    for name, state in exact.items():
        for mixes in zip(state.get("signed", []), *(other[name].get("signed", []) for other in others)):
            spread = max(numpy.abs(mix - mixes[0]).max() for mix in mixes[1:])
            count += int(((numpy.abs(mixes[0]) <= 4 * spread) & numpy.any(mixes, axis=0)).sum())
    return count


def train(start, batches, expect, losses_of, frozen=()):
    """losses_of: from the weights by name, values, and a step's batch to {"cross_entropy": value, ..}, all terms of the loss, and
    what each router did. Weights whose names are `frozen` are not trained: they count in no norm and keep their values."""
    optimizer = expect["optimizer"]
    update = UPDATES[optimizer["name"]]
    weights = {name: tensor.copy() for name, tensor in start.items()}
    states = {name: {} for name in start}
    run = {"loss": [], "grad_norm": [], "terms": {}, "routes": [], "route_gap": []}
    for step in range(expect["steps"]):
        values = {name: Value(tensor) for name, tensor in weights.items()}
        terms, routers = losses_of(values, {name: batch[step] for name, batch in batches.items()})
        loss = total(terms)
        differentiate(loss)
        gradients = {name: numpy.zeros_like(value.data) if value.gradient is None else value.gradient
                     for name, value in values.items() if name not in frozen}
        norm = numpy.sqrt(sum(float(numpy.square(g, dtype=numpy.float64).sum()) for g in gradients.values()))
        if step == 0:
            run["grad"] = gradients
            run["chosen"] = {f"route.{router['layer']}": chosen_of(router) for router in routers if "layer" in router}
        run["loss"].append(float(loss.data))
        run["grad_norm"].append(float(norm))
        for name, term in terms.items():
            run["terms"].setdefault(name, []).append(float(term.data))
        run["routes"].append([router["hot"] for router in routers])
        run["route_gap"].append(min((router["gap"] for router in routers), default=1))
        clip, rate, t = min(1, optimizer["clip"] / (norm + 1e-6)), expect["lr"][step], step + 1
        for name, weight in weights.items():
            if name in frozen:
                continue
            decay = optimizer["weight_decay"] if weight.ndim >= 2 else 0
            update(weight, gradients[name] * weight.dtype.type(clip), states[name], rate, decay, t, optimizer)
    return run | {"final": weights, "states": states}


def shaken(start, seed):
    generator = numpy.random.default_rng(seed)
    return {name: tensor * (1 + SHAKE * generator.standard_normal(tensor.shape)) for name, tensor in start.items()}


def rounded(number):
    return float(f"{number:.3g}")


def gap(exact, others):
    """[max, rms of float32 - float64, max, rms of the spread, largest magnitude]."""
    off = [other.astype(numpy.float64) - exact for other in others]
    most = [float(numpy.abs(d).max()) for d in off]
    rms = [float(numpy.sqrt(numpy.square(d).mean())) for d in off]
    return [rounded(x) for x in (most[0], rms[0], max(most), max(rms), float(numpy.abs(exact).max()))]


class Base:
    """The reference that weights, batches and optimizer are of."""

    def __init__(self, name):
        with open(os.path.join(HERE, name, "expect.json"), encoding="utf-8") as file:
            self.expect = json.load(file)
        folders = [os.path.join(HERE, one) for one in (name, self.expect.get("base", name))]
        path = lambda file: next(found for folder in folders if os.path.exists(found := os.path.join(folder, file)))
        with open(path("config.json"), encoding="utf-8") as file:
            self.config = json.load(file)
        self.batches, self.tensors = tensor_files.load(path("batch.safetensors")), tensor_files.load(path("expect.safetensors"))
        self.start = {n: t.astype(numpy.float64) for n, t in tensor_files.load(path("model.safetensors")).items()}

    def train(self, losses_of):
        return train(self.start, self.batches, self.expect, losses_of)


def print_check(base, run):
    """The largest differences of a training from the reference."""
    off = lambda found, wanted: max(abs(a - b) for a, b in zip(found, wanted))
    print("loss", off(run["loss"], base.expect["loss_f64"]), "grad_norm", off(run["grad_norm"], base.expect["grad_norm_f64"]))
    for part in ("grad", "final"):
        most = max((float(numpy.abs(t - base.tensors[f"{part}.{n}"]).max()) / base.expect["gap"][f"{part}.{n}"][2], n)
                   for n, t in run[part].items() if n not in base.expect["untrained"])
        print(f"{part}: at most {most[0]:.2f} of the spread, {most[1]}")


# --- Files ---------------------------------------------------------------------------------------------------------

def save(path, tensors):
    header, parts, offset = {}, [], 0
    for name, tensor in sorted(tensors.items()):
        is_whole = numpy.issubdtype(tensor.dtype, numpy.integer)
        parts.append(numpy.ascontiguousarray(tensor, numpy.int64 if is_whole else numpy.float32).tobytes())
        header[name] = {"dtype": "I64" if is_whole else "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + len(parts[-1])]}
        offset += len(parts[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(parts))


def spread(exact, others):
    return [rounded(max(abs(other[step] - value) for other in others)) for step, value in enumerate(exact)]


def write(name, start, base, facts, losses_of):
    """Trains from `start` and writes name/expect.json and name/expect.safetensors; `facts` go into expect.json. Nothing that
    rounding does may change what routers choose, or the sign of an update."""
    frozen = facts.get("frozen", ())
    training = lambda weights: train(weights, base.batches, base.expect, losses_of, frozen)
    exact, narrow = training(start), training({n: t.astype(numpy.float32) for n, t in start.items()})
    others = [narrow] + [training(shaken(start, seed)) for seed in range(SHAKES)]
    for other in others:
        if any((a != b).any() for one, two in zip(exact["routes"], other["routes"]) for a, b in zip(one, two)):
            sys.exit(f"{name}: rounding changes a choice of the routers; expected other coefficients or weights")
    if signs := uncertain_signs(exact["states"], [other["states"] for other in others]):
        sys.exit(f"{name}: rounding may change the signs of {signs} updates; expected other learning rates")
    losses = spread(exact["loss"], [other["loss"] for other in others])
    terms = {term: spread(values, [other["terms"][term] for other in others]) for term, values in exact["terms"].items()}
    kept = {key: base.expect[key] for key in ("kind", "steps", "gbs", "s", "optimizer", "lr", "untrained", "valid_tokens")}
    facts = {"name": name} | facts | {key: value for key, value in kept.items() if key not in facts}
    names = [(part, tensor) for part in ("grad", "final") for tensor in sorted(exact[part])
             if tensor not in frozen and (part == "final" or tensor not in facts["untrained"])]
    gaps = {f"{part}.{tensor}": gap(exact[part][tensor], [other[part][tensor] for other in others]) for part, tensor in names}
    facts |= {"loss": narrow["loss"], "grad_norm": narrow["grad_norm"], "loss_f64": exact["loss"],
              "grad_norm_f64": exact["grad_norm"], "loss_spread": losses, "route_gap": exact["route_gap"], "gap": gaps}
    if len(terms) > 1:  # the log says terms where the loss has several
        facts |= {"terms_f64": exact["terms"], "terms_spread": terms}
    folder = os.path.join(HERE, name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "expect.json"), "w", encoding="utf-8") as file:
        file.write("{" + ",\n ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in facts.items()) + "}\n")
    save(os.path.join(folder, "expect.safetensors"),
         {f"{part}.{tensor}": narrow[part][tensor] for part, tensor in names} | narrow["chosen"])
    print(name, "loss", exact["loss"], "spread", losses, "route gap", exact["route_gap"])
