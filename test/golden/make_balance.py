#!/usr/bin/python3
"""Writes mixtral_balance: the weights and batches of mixtral, trained with a loss that has terms which balance the experts.

    make_balance.py              writes mixtral_balance/expect.json and expect.safetensors next to this file
    make_balance.py --check NAME the reference values of NAME (mixtral) again, by the model below: the largest differences

The model, its gradient and AdamW are written out in numpy, here and in reference.py. No framework has these terms for whole
sequences and for any layout; --check shows that the model is the right one.
"""
import argparse

import numpy

import reference
from reference import Value, cross_entropy, einsum, of, softmax

BASE, NAME = "mixtral", "mixtral_balance"
SEQUENCE, Z = 0.05, 0.02  # coefficients


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

def pooled_aux(routers):
    """Hugging Face's load_balancing_loss_func."""
    rows = sum(router["hot"][..., 0].size for router in routers)
    load = sum(router["hot"].sum(axis=(0, 1)) for router in routers) * (1 / rows)
    mean = of(numpy.zeros_like(load))
    for router in routers:
        mean = mean + router["probabilities"].sum(axis=1).sum(axis=0) * (1 / rows)
    return (mean * load).sum() * float(load.size)


def balanced(terms, routers):
    for name, coefficient, term in (("seq_aux_loss", SEQUENCE, reference.sequence_aux), ("z_loss", Z, reference.z_loss)):
        terms[name] = of(numpy.zeros((), terms["cross_entropy"].data.dtype))
        for router in routers:
            terms[name] = terms[name] + term(router) * coefficient


def losses_of(config, add_terms):
    def losses(weights, batch):
        logits, routers = Mixtral(config, weights).run(batch["input_ids"])
        terms = {"cross_entropy": cross_entropy(logits, batch["labels"])}
        add_terms(terms, routers)
        return terms, routers

    return losses


def check(name):
    base = reference.Base(name)

    def pooled(terms, routers):
        if base.expect.get("aux_in_loss", False):
            terms["aux_loss"] = pooled_aux(routers) * base.expect["router_aux_loss_coef"]

    reference.print_check(base, base.train(losses_of(base.config, pooled)))


def write():
    base = reference.Base(BASE)
    flags = ["--moe-router-load-balancing-type", "seq_aux_loss", "--moe-aux-loss-coeff", str(SEQUENCE), "--moe-z-loss-coeff",
             str(Z)]
    reference.write(NAME, base.start, base, {"base": BASE, "flags": flags}, losses_of(base.config, balanced))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", metavar="NAME")
    options = parser.parse_args()
    check(options.check) if options.check else write()
