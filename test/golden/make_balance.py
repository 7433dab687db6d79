#!/usr/bin/python3
"""Writes mixtral_balance: the weights and batches of mixtral, trained with a loss that has terms which balance the experts.

    make_balance.py              writes mixtral_balance/expect.json and expect.safetensors next to this file
    make_balance.py --check NAME the reference values of NAME (mixtral) again, by the model below: the largest differences

The model, its gradient and AdamW are written out in numpy, here, in make_later_tokens.py and in reference.py. No framework has
these terms for whole sequences and for any layout; --check shows that the model is the right one.
"""
import argparse

import numpy

import reference
from make_later_tokens import SEQUENCE, Z, Llama, losses_of
from reference import einsum, of, silu, softmax

BASE, NAME = "mixtral", "mixtral_balance"


class Mixtral(Llama):
    def mlp(self, layer, x):
        chosen = self.route(layer, x)
        gates = chosen * chosen.sum(axis=-1, keep=True).power(-1)
        y = of(numpy.zeros_like(x.data))
        for e in range(self.config["num_local_experts"]):
            w1, w2, w3 = (self.weight(layer, f"block_sparse_moe.experts.{e}.{name}") for name in ("w1", "w2", "w3"))
            inner = silu(einsum("bsh,mh->bsm", x, w1)) * einsum("bsh,mh->bsm", x, w3)
            y = y + einsum("bsm,hm->bsh", inner, w2) * gates.take((..., slice(e, e + 1)))
        return y

    def route(self, layer, x):
        """The probabilities of the experts that are chosen, 0 of the others."""
        logits = einsum("bsh,eh->bse", x, self.weight(layer, "block_sparse_moe.gate"))
        probabilities = softmax(logits)
        order = numpy.argsort(-probabilities.data, axis=-1, kind="stable")
        k = self.config["num_experts_per_tok"]
        hot = numpy.zeros_like(logits.data)
        numpy.put_along_axis(hot, order[..., :k], 1, axis=-1)
        ranked = numpy.take_along_axis(probabilities.data, order, axis=-1)
        self.routers.append({"logits": logits, "probabilities": probabilities, "hot": hot,
                             "gap": float((ranked[..., k - 1] - ranked[..., k]).min())})
        return probabilities * hot


def pooled_aux(routers):
    """Hugging Face's load_balancing_loss_func."""
    rows = sum(router["hot"][..., 0].size for router in routers)
    load = sum(router["hot"].sum(axis=(0, 1)) for router in routers) * (1 / rows)
    mean = of(numpy.zeros_like(load))
    for router in routers:
        mean = mean + router["probabilities"].sum(axis=1).sum(axis=0) * (1 / rows)
    return (mean * load).sum() * float(load.size)


def check(name):
    base = reference.Base(name)
    plain = losses_of(Mixtral, base.config, 0)

    def losses(weights, batch):
        terms, routers = plain(weights, batch)
        if base.expect.get("aux_in_loss", False):
            terms["aux_loss"] = pooled_aux(routers) * base.config["router_aux_loss_coef"]
        return terms, routers

    reference.print_check(base, base.train(losses))


def write():
    base = reference.Base(BASE)
    flags = ["--moe-router-load-balancing-type", "seq_aux_loss", "--moe-aux-loss-coeff", str(SEQUENCE), "--moe-z-loss-coeff",
             str(Z)]
    reference.write(NAME, base.start, base, {"base": BASE, "flags": flags}, losses_of(Mixtral, base.config, 0, balances=True))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", metavar="NAME")
    options = parser.parse_args()
    check(options.check) if options.check else write()
