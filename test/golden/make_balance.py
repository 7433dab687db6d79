#!/usr/bin/python3
"""Writes mixtral_balance: the weights and batches of mixtral, trained with a loss that has terms which balance the experts.

    make_balance.py              writes mixtral_balance/expect.json and expect.safetensors beside this file
    make_balance.py --check NAME the reference values of NAME (mixtral) again, by the model below: the largest differences

The model, its gradient and AdamW are written out here in numpy, once in float64 and once in float32. No framework has these
terms for whole sequences and for any layout; that the model is the right one is what --check shows.
"""
import argparse
import json
import os
import sys

import numpy

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
import safetensors  # noqa: E402

BASE, NAME = "mixtral", "mixtral_balance"
SEQUENCE, Z = 0.05, 0.02  # coefficients
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


# --- Mixtral ---------------------------------------------------------------------------------------------------

class Mixtral:
    def __init__(self, config, weights):
        self.config, self.weights = config, weights
        self.width = config["hidden_size"] // config["num_attention_heads"]

    def weight(self, layer, name):
        return self.weights[f"model.layers.{layer}.{name}.weight"]

    def norm(self, x, weight):
        mean = (x * x).sum(axis=-1, keep=True) * (1 / x.data.shape[-1])
        return x * (mean + self.config["rms_norm_eps"]).power(-0.5) * weight

    def heads(self, layer, name, x):
        weight, (b, s, _) = self.weight(layer, f"self_attn.{name}_proj"), x.data.shape
        y = einsum("bsh,nh->bsn", x, weight)
        return Value(y.data.reshape(b, s, -1, self.width), (y, lambda d: d.reshape(y.data.shape)))

    def rotate(self, x):
        theta, half = self.config["rope_parameters"]["rope_theta"], self.width // 2
        angles = numpy.outer(numpy.arange(x.data.shape[1]), theta ** (-numpy.arange(half) / half))
        angles = numpy.concatenate([angles, angles], axis=-1)[:, None, :]
        turn = numpy.zeros((self.width, self.width))
        turn[numpy.arange(half) + half, numpy.arange(half)] = -1
        turn[numpy.arange(half), numpy.arange(half) + half] = 1
        cast = x.data.dtype
        turned = einsum("bsgd,de->bsge", x, turn.astype(cast))
        return x * numpy.cos(angles).astype(cast) + turned * numpy.sin(angles).astype(cast)

    def attention(self, layer, x):
        q, k, v = (self.heads(layer, name, x) for name in "qkv")
        shared = numpy.kron(numpy.eye(k.data.shape[2]), numpy.ones((1, q.data.shape[2] // k.data.shape[2])))
        shared = shared.astype(x.data.dtype)  # [kv head, head]: whose keys a head sees
        k, v = (einsum("btgd,gn->btnd", y, shared) for y in (self.rotate(k), v))
        scores = einsum("bsnd,btnd->bnst", self.rotate(q), k) * (self.width**-0.5)
        hidden = numpy.triu(numpy.full(scores.data.shape[-2:], -1e9, x.data.dtype), 1)
        mixed = einsum("bnst,btnd->bsnd", softmax(scores + hidden), v)
        joined = Value(mixed.data.reshape(x.data.shape), (mixed, lambda d: d.reshape(mixed.data.shape)))
        return einsum("bsh,nh->bsn", joined, self.weight(layer, "self_attn.o_proj"))

    def experts(self, layer, x, router):
        weights = lambda name: [self.weight(layer, f"block_sparse_moe.experts.{e}.{name}")
                                for e in range(self.config["num_local_experts"])]
        chosen = router["probabilities"] * router["hot"]
        gates = chosen * chosen.sum(axis=-1, keep=True).power(-1)
        y = of(numpy.zeros_like(x.data))
        for e, (w1, w2, w3) in enumerate(zip(*map(weights, ("w1", "w2", "w3")))):
            gate = einsum("bsh,mh->bsm", x, w1)
            act = gate * ((gate * -1).exp() + 1).power(-1)
            y = y + einsum("bsm,hm->bsh", act * einsum("bsh,mh->bsm", x, w3), w2) * gates.take((..., slice(e, e + 1)))
        return y

    def route(self, layer, x):
        logits = einsum("bsh,eh->bse", x, self.weight(layer, "block_sparse_moe.gate"))
        probabilities = softmax(logits)
        order = numpy.argsort(-probabilities.data, axis=-1, kind="stable")
        k = self.config["num_experts_per_tok"]
        hot = numpy.zeros_like(logits.data)
        numpy.put_along_axis(hot, order[..., :k], 1, axis=-1)
        ranked = numpy.take_along_axis(probabilities.data, order, axis=-1)
        return {"logits": logits, "probabilities": probabilities, "hot": hot,
                "gap": float((ranked[..., k - 1] - ranked[..., k]).min())}

    def run(self, tokens):
        """The logits, and what each layer's router did."""
        x, routers = self.weights["model.embed_tokens.weight"].take(tokens), []
        for layer in range(self.config["num_hidden_layers"]):
            x = x + self.attention(layer, self.norm(x, self.weight(layer, "input_layernorm")))
            normed = self.norm(x, self.weight(layer, "post_attention_layernorm"))
            routers.append(self.route(layer, normed))
            x = x + self.experts(layer, normed, routers[-1])
        return einsum("bsh,vh->bsv", self.norm(x, self.weights["model.norm.weight"]),
                      self.weights["lm_head.weight"]), routers


# --- The loss ---------------------------------------------------------------------------------------------------

def cross_entropy(logits, labels):
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


def pooled_aux(routers):
    """Hugging Face's load_balancing_loss_func."""
    rows = sum(router["hot"][..., 0].size for router in routers)
    load = sum(router["hot"].sum(axis=(0, 1)) for router in routers) * (1 / rows)
    mean = of(numpy.zeros_like(load))
    for router in routers:
        mean = mean + router["probabilities"].sum(axis=1).sum(axis=0) * (1 / rows)
    return (mean * load).sum() * float(load.size)


def total(terms):
    loss = terms["cross_entropy"]
    for name, term in terms.items():
        loss = loss if name == "cross_entropy" else loss + term
    return loss


def balanced(logits, routers, labels):
    terms = {"cross_entropy": cross_entropy(logits, labels)}
    for name, coefficient, term in (("seq_aux_loss", SEQUENCE, sequence_aux), ("z_loss", Z, z_loss)):
        terms[name] = of(numpy.zeros((), logits.data.dtype))
        for router in routers:
            terms[name] = terms[name] + term(router) * coefficient
    return terms


def plain(logits, routers, labels):
    return {"cross_entropy": cross_entropy(logits, labels)}


def with_pooled(coefficient):
    return lambda logits, routers, labels: plain(logits, routers, labels) | {"aux_loss": pooled_aux(routers) * coefficient}


# --- Training ----------------------------------------------------------------------------------------------------

def train(config, start, batches, expect, terms_of):
    optimizer = expect["optimizer"]
    beta1, beta2 = optimizer["betas"]
    weights = {name: tensor.copy() for name, tensor in start.items()}
    first = {name: numpy.zeros_like(tensor) for name, tensor in start.items()}
    second = {name: numpy.zeros_like(tensor) for name, tensor in start.items()}
    run = {"loss": [], "grad_norm": [], "terms": {}, "routes": [], "route_gap": []}
    for step in range(expect["steps"]):
        values = {name: Value(tensor) for name, tensor in weights.items()}
        logits, routers = Mixtral(config, values).run(batches["input_ids"][step])
        terms = terms_of(logits, routers, batches["labels"][step])
        loss = total(terms)
        differentiate(loss)
        gradients = {name: value.gradient for name, value in values.items()}
        norm = numpy.sqrt(sum(float(numpy.square(g, dtype=numpy.float64).sum()) for g in gradients.values()))
        if step == 0:
            run["logits"], run["grad"] = logits.data, gradients
        run["loss"].append(float(loss.data))
        run["grad_norm"].append(float(norm))
        for name, term in terms.items():
            run["terms"].setdefault(name, []).append(float(term.data))
        run["routes"].append([router["hot"] for router in routers])
        run["route_gap"].append(min(router["gap"] for router in routers))
        clip, rate, t = min(1, optimizer["clip"] / (norm + 1e-6)), expect["lr"][step], step + 1
        for name, weight in weights.items():
            g = gradients[name] * weight.dtype.type(clip)
            if weight.ndim >= 2:
                weight *= weight.dtype.type(1 - rate * optimizer["weight_decay"])
            first[name] = (beta1 * first[name] + (1 - beta1) * g).astype(weight.dtype)
            second[name] = (beta2 * second[name] + (1 - beta2) * g * g).astype(weight.dtype)
            root = numpy.sqrt(second[name] / (1 - beta2**t)) + optimizer["eps"]
            weight -= (rate * (first[name] / (1 - beta1**t)) / root).astype(weight.dtype)
    return run | {"final": weights}


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
    """The reference that the weights, batches and optimizer are of."""

    def __init__(self, name):
        path = lambda file: os.path.join(HERE, name, file)
        with open(path("config.json"), encoding="utf-8") as file:
            self.config = json.load(file)
        with open(path("expect.json"), encoding="utf-8") as file:
            self.expect = json.load(file)
        self.batches, self.tensors = safetensors.load(path("batch.safetensors")), safetensors.load(path("expect.safetensors"))
        self.start = {n: t.astype(numpy.float64) for n, t in safetensors.load(path("model.safetensors")).items()}

    def train(self, start, terms_of):
        return train(self.config, start, self.batches, self.expect, terms_of)


def check(name):
    base = Base(name)
    in_loss = base.expect.get("aux_in_loss", False)
    run = base.train(base.start, with_pooled(base.expect["router_aux_loss_coef"]) if in_loss else plain)
    off = lambda found, wanted: max(abs(a - b) for a, b in zip(found, wanted))
    print("loss", off(run["loss"], base.expect["loss_f64"]), "grad_norm", off(run["grad_norm"], base.expect["grad_norm_f64"]))
    for part in ("grad", "final"):
        most = max((float(numpy.abs(t - base.tensors[f"{part}.{n}"]).max()) / base.expect["gap"][f"{part}.{n}"][2], n)
                   for n, t in run[part].items())
        print(f"{part}: at most {most[0]:.2f} of the spread, {most[1]}")


def save(path, tensors):
    header, parts, offset = {}, [], 0
    for name, tensor in sorted(tensors.items()):
        parts.append(numpy.ascontiguousarray(tensor, numpy.float32).tobytes())
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + len(parts[-1])]}
        offset += len(parts[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(parts))


def spread(exact, others):
    return [rounded(max(abs(other[step] - value) for other in others)) for step, value in enumerate(exact)]


def write():
    base = Base(BASE)
    exact = base.train(base.start, balanced)
    narrow = base.train({n: t.astype(numpy.float32) for n, t in base.start.items()}, balanced)
    others = [narrow] + [base.train(shaken(base.start, seed), balanced) for seed in range(SHAKES)]
    for other in others:
        if any((a != b).any() for one, two in zip(exact["routes"], other["routes"]) for a, b in zip(one, two)):
            sys.exit("rounding changes a choice of the routers; expected other coefficients")
    losses = spread(exact["loss"], [other["loss"] for other in others])
    terms = {name: spread(values, [other["terms"][name] for other in others]) for name, values in exact["terms"].items()}
    gaps = {f"{part}.{name}": gap(exact[part][name], [other[part][name] for other in others])
            for part in ("grad", "final") for name in sorted(exact[part])}
    facts = {key: base.expect[key] for key in ("kind", "steps", "gbs", "s", "optimizer", "lr", "untrained", "valid_tokens")}
    facts = {"name": NAME, "base": BASE, "flags": ["--moe-router-load-balancing-type", "seq_aux_loss", "--moe-aux-loss-coeff",
                                                   str(SEQUENCE), "--moe-z-loss-coeff", str(Z)]} | facts
    facts |= {"loss": narrow["loss"], "grad_norm": narrow["grad_norm"], "loss_f64": exact["loss"],
              "grad_norm_f64": exact["grad_norm"], "terms_f64": exact["terms"], "loss_spread": losses, "terms_spread": terms,
              "route_gap": exact["route_gap"], "gap": gaps}
    folder = os.path.join(HERE, NAME)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "expect.json"), "w", encoding="utf-8") as file:
        file.write("{" + ",\n ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in facts.items()) + "}\n")
    save(os.path.join(folder, "expect.safetensors"),
         {f"{part}.{name}": tensor for part in ("grad", "final") for name, tensor in narrow[part].items()})
    print("loss", exact["loss"], "spread", losses, "route gap", exact["route_gap"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", metavar="NAME")
    options = parser.parse_args()
    check(options.check) if options.check else write()
