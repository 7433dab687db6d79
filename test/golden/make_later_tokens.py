#!/usr/bin/python3
"""Writes the references of training with modules that predict later tokens (docs/multi-token-prediction.md): weights of a base
model and of modules drawn here, trained on the base's batches.

    make_later_tokens.py [NAME ..]       writes NAME/model.safetensors, expect.json, expect.safetensors and config.json
    make_later_tokens.py --check NAME    the reference values of NAME (deepseek_v3, llama, llama_packed) again, without modules

The models, their gradients and AdamW are written out in numpy, here and in reference.py. --check shows that the
models are the right ones.
"""
import argparse
import json
import os

import numpy

import reference
from reference import cross_entropy, einsum, of, reshape, rms_norm, silu, softmax

# Factor of the modules' mean loss, and coefficients of the terms that balance experts.
FACTOR, SEQUENCE, Z = 0.3, 0.05, 0.02


# --- Models ----------------------------------------------------------------------------------------------------------

class Decoder:
    def __init__(self, config, weights, starts):
        self.config, self.weights, self.starts = config, weights, starts  # starts [b, s]: of each token's document
        self.epsilon, self.routers = config["rms_norm_eps"], []

    def weight(self, layer, name):
        return self.weights[f"model.layers.{layer}.{name}.weight"]

    def norm(self, x, weight):
        return rms_norm(x, weight, self.epsilon)

    def angles(self, size):
        places = numpy.arange(self.starts.shape[1]) - self.starts
        theta = self.config["rope_parameters"]["rope_theta"]
        return places[:, :, None] * theta ** (-numpy.arange(size // 2) * 2 / size)  # [b, s, size / 2]

    def turned(self, x, pairs):
        """x [b, s, n, size]: pairs (i, j) of its last dimension rotate."""
        size = x.data.shape[-1]
        turn, cos, sin = numpy.zeros((size, size)), *(numpy.zeros((*x.data.shape[:2], 1, size)) for _ in range(2))
        angles = self.angles(size)
        for number, (i, j) in enumerate(pairs):
            turn[j, i], turn[i, j] = -1, 1
            for place in (i, j):
                cos[:, :, 0, place], sin[:, :, 0, place] = numpy.cos(angles[:, :, number]), numpy.sin(angles[:, :, number])
        kind = x.data.dtype
        return x * cos.astype(kind) + einsum("bsnd,de->bsne", x, turn.astype(kind)) * sin.astype(kind)

    def attend(self, q, k, v, scale):
        """q, k [b, s, n, d], v [b, s, n, w]: [b, s, n w]."""
        scores = einsum("bsnd,btnd->bnst", q, k) * scale
        places = numpy.arange(self.starts.shape[1])
        hidden = (places[None, None, :] > places[None, :, None]) | (places[None, None, :] < self.starts[:, :, None])
        mask = numpy.where(hidden, -1e9, 0).astype(scores.data.dtype)[:, None]
        mixed = einsum("bnst,btnd->bsnd", softmax(scores + mask), v)
        return reshape(mixed, *mixed.data.shape[:2], -1)

    def gated(self, x, layer, name):
        gate = silu(einsum("bsh,fh->bsf", x, self.weight(layer, f"{name}.gate_proj")))
        return einsum("bsf,hf->bsh", gate * einsum("bsh,fh->bsf", x, self.weight(layer, f"{name}.up_proj")),
                      self.weight(layer, f"{name}.down_proj"))

    def layer(self, x, number):
        x = x + self.attention(number, self.norm(x, self.weight(number, "input_layernorm")))
        return x + self.mlp(number, self.norm(x, self.weight(number, "post_attention_layernorm")))

    def embed(self, tokens):
        return self.weights["model.embed_tokens.weight"].take(tokens)

    def logits(self, x):
        return einsum("bsh,vh->bsv", x, self.weights["lm_head.weight"])

    def states(self, tokens):
        """The normed hidden states that the head reads."""
        x = self.embed(tokens)
        for number in range(self.config["num_hidden_layers"]):
            x = self.layer(x, number)
        return self.norm(x, self.weights["model.norm.weight"])

    def later(self, x, tokens, number):
        """The states of module `number`, of the states before it and the tokens that it is told."""
        parts = (self.norm(self.embed(tokens), self.weight(number, "enorm")), self.norm(x, self.weight(number, "hnorm")))
        width, projection = self.config["hidden_size"], self.weight(number, "eh_proj")
        x = of(numpy.zeros((), x.data.dtype))
        for i, part in enumerate(parts):
            x = x + einsum("bsi,hi->bsh", part, projection.take((slice(None), slice(i * width, (i + 1) * width))))
        return self.norm(self.layer(x, number), self.weight(number, "shared_head.norm"))


class Llama(Decoder):
    def attention(self, layer, x):
        heads = self.config["num_attention_heads"]
        width = self.config["hidden_size"] // heads
        q, k, v = (reshape(einsum("bsh,nh->bsn", x, self.weight(layer, f"self_attn.{name}_proj")), *x.data.shape[:2], -1, width)
                   for name in "qkv")
        halves = [(i, i + width // 2) for i in range(width // 2)]
        groups = k.data.shape[2]
        shared = numpy.kron(numpy.eye(groups), numpy.ones((1, heads // groups))).astype(x.data.dtype)
        k, v = (einsum("btgd,gn->btnd", y, shared) for y in (self.turned(k, halves), v))
        return einsum("bsn,hn->bsh", self.attend(self.turned(q, halves), k, v, width**-0.5),
                      self.weight(layer, "self_attn.o_proj"))

    def mlp(self, layer, x):
        return self.gated(x, layer, "mlp")


class DeepseekV3(Decoder):
    def attention(self, layer, x):
        config, kind = self.config, x.data.dtype
        weight = lambda name: self.weight(layer, f"self_attn.{name}")
        still, turning, rank = config["qk_nope_head_dim"], config["qk_rope_head_dim"], config["kv_lora_rank"]
        pairs, heads = [(2 * i, 2 * i + 1) for i in range(turning // 2)], config["num_attention_heads"]
        low = self.norm(einsum("bsh,lh->bsl", x, weight("q_a_proj")), weight("q_a_layernorm"))
        q = reshape(einsum("bsl,nl->bsn", low, weight("q_b_proj")), *x.data.shape[:2], heads, -1)
        both = einsum("bsh,lh->bsl", x, weight("kv_a_proj_with_mqa"))
        latent = self.norm(both.take((..., slice(0, rank))), weight("kv_a_layernorm"))
        kv = reshape(einsum("bsl,nl->bsn", latent, weight("kv_b_proj")), *x.data.shape[:2], heads, -1)
        key = reshape(both.take((..., slice(rank, None))), *x.data.shape[:2], 1, turning)
        # Parts of the last dimension, put side by side by a product with columns of the identity.
        place = lambda begin, size: numpy.eye(still + turning, dtype=kind)[begin : begin + size]
        joined = lambda a, b: einsum("bsnd,de->bsne", a, place(0, still)) + einsum("bsnd,de->bsne", b, place(still, turning))
        ones = numpy.ones((1, heads), kind)
        q = joined(q.take((..., slice(0, still))), self.turned(q.take((..., slice(still, None))), pairs))
        k = joined(kv.take((..., slice(0, still))), einsum("bsud,un->bsnd", self.turned(key, pairs), ones))
        mixed = self.attend(q, k, kv.take((..., slice(still, None))), (still + turning) ** -0.5)
        return einsum("bsn,hn->bsh", mixed, weight("o_proj"))

    def mlp(self, layer, x):
        if layer < self.config["first_k_dense_replace"]:
            return self.gated(x, layer, "mlp")
        gates, y = self.route(layer, x), self.gated(x, layer, "mlp.shared_experts")
        for e in range(self.config["n_routed_experts"]):
            y = y + self.gated(x, layer, f"mlp.experts.{e}") * gates.take((..., slice(e, e + 1)))
        return y

    def route(self, layer, x):
        config = self.config
        experts, groups, k = config["n_routed_experts"], config["n_group"], config["num_experts_per_tok"]
        logits = einsum("bsh,eh->bse", x, self.weight(layer, "mlp.gate"))
        scores = ((logits * -1).exp() + 1).power(-1)
        choice = scores.data + self.weights[f"model.layers.{layer}.mlp.gate.e_score_correction_bias"].data
        of_groups = numpy.sort(choice.reshape(*choice.shape[:2], groups, -1), axis=-1)[..., -2:].sum(axis=-1)
        ranked = -numpy.sort(-of_groups, axis=-1)
        kept = of_groups >= ranked[..., config["topk_group"] - 1 : config["topk_group"]]
        gap = (ranked[..., config["topk_group"] - 1] - ranked[..., config["topk_group"]]).min()
        choice = numpy.where(numpy.repeat(kept, experts // groups, axis=-1), choice, -numpy.inf)
        order = numpy.argsort(-choice, axis=-1, kind="stable")
        hot = numpy.zeros_like(scores.data)
        numpy.put_along_axis(hot, order[..., :k], 1, axis=-1)
        ranked = numpy.take_along_axis(choice, order, axis=-1)
        gap = min(gap, (ranked[..., k - 1] - ranked[..., k]).min())
        probabilities = scores * scores.sum(axis=-1, keep=True).power(-1)
        self.routers.append({"layer": layer, "logits": logits, "probabilities": probabilities, "hot": hot, "gap": float(gap)})
        chosen = scores * hot
        return chosen * (chosen.sum(axis=-1, keep=True) + 1e-20).power(-1) * config["routed_scaling_factor"]


# --- The loss ----------------------------------------------------------------------------------------------------------

def shifted(values, starts, by, otherwise):
    """Shifts a sequence: position i gets the value of i + by, if that is in the same sequence and document."""
    result = numpy.full_like(values, otherwise)
    same = starts[:, by:] == starts[:, :-by]
    result[:, :-by] = numpy.where(same, values[:, by:], otherwise)
    return result


def starts_of(batch):
    if "position_ids" not in batch:
        return numpy.zeros_like(batch["input_ids"])
    return numpy.arange(batch["input_ids"].shape[1]) - batch["position_ids"]


def losses_of(model, config, depths, factor=FACTOR, balances=False):
    def losses(weights, batch):
        tokens, labels, starts = batch["input_ids"], batch["labels"], starts_of(batch)
        run = model(config, weights, starts)
        x = run.states(tokens)
        terms = {"cross_entropy": cross_entropy(run.logits(x), labels)}
        for depth in range(1, depths + 1):
            x = run.later(x, shifted(tokens, starts, depth, 0), config["num_hidden_layers"] + depth - 1)
            loss = cross_entropy(run.logits(x), shifted(labels, starts, depth, -100)) * (factor / depths)
            terms["mtp_loss"] = terms["mtp_loss"] + loss if depth > 1 else loss
        if balances:
            for name, coefficient, term in (("seq_aux_loss", SEQUENCE, reference.sequence_aux), ("z_loss", Z, reference.z_loss)):
                terms[name] = of(numpy.zeros((), x.data.dtype))
                for router in run.routers:
                    terms[name] = terms[name] + term(router) * coefficient
        return terms, run.routers

    return losses


# --- References --------------------------------------------------------------------------------------------------------

def draw(base, depths, seed):
    """Weights of modules: each has what the last layer has, and its own."""
    generator, start, layers = numpy.random.default_rng(seed), dict(base.start), base.config["num_hidden_layers"]
    width = base.config["hidden_size"]
    own = {"enorm.weight": (width,), "hnorm.weight": (width,), "shared_head.norm.weight": (width,), "eh_proj.weight": (width, 2 * width)}
    last = f"model.layers.{layers - 1}."
    for depth in range(depths):
        shapes = {name[len(last) :]: tensor.shape for name, tensor in base.start.items() if name.startswith(last)} | own
        for name, shape in sorted(shapes.items()):
            normal = generator.standard_normal(shape)
            if len(shape) == 1:
                tensor = 0.1 * normal if name.endswith("bias") else 1 + 0.2 * normal
            else:
                tensor = normal * (0.5 if name == "mlp.gate.weight" else 0.8 / shape[-1] ** 0.5)
            start[f"model.layers.{layers + depth}.{name}"] = tensor.astype(numpy.float32).astype(numpy.float64)
    return start


# By reference: model, base, modules, whether terms balance its experts, and a seed of weights that no rounding makes
# choose other experts.
REFERENCES = {
    "deepseek_v3_mtp": (DeepseekV3, "deepseek_v3", 1, False, 1),
    "deepseek_v3_mtp2": (DeepseekV3, "deepseek_v3", 2, True, 3),
    "llama_packed_mtp": (Llama, "llama_packed", 1, False, 1),
}
MODELS = {"deepseek_v3": DeepseekV3, "llama": Llama, "llama_packed": Llama}


def write(name):
    model, base_name, depths, balances, seed = REFERENCES[name]
    base = reference.Base(base_name)
    start = draw(base, depths, seed)
    bias = "mlp.gate.e_score_correction_bias"
    untrained = [tensor for tensor in start if tensor.endswith(bias)]
    flags = ["--mtp-num-layers", str(depths), "--mtp-loss-scaling-factor", str(FACTOR)]
    if balances:
        flags += ["--moe-router-load-balancing-type", "seq_aux_loss", "--moe-aux-loss-coeff", str(SEQUENCE), "--moe-z-loss-coeff",
                  str(Z)]
    reference.write(name, start, base, {"base": base_name, "flags": flags, "untrained": untrained},
                    losses_of(model, base.config, depths, balances=balances))
    folder = os.path.join(reference.HERE, name)
    reference.save(os.path.join(folder, "model.safetensors"), start)
    config = base.config | ({"num_nextn_predict_layers": depths} if "num_nextn_predict_layers" in base.config else {})
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=2)
        file.write("\n")


def check(name):
    base = reference.Base(name)
    reference.print_check(base, base.train(losses_of(MODELS[name], base.config, 0)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", metavar="NAME", choices=MODELS)
    parser.add_argument("names", metavar="NAME", nargs="*", help=", ".join(REFERENCES))
    options = parser.parse_args()
    if options.check:
        check(options.check)
    else:
        for one in options.names or REFERENCES:
            write(one)
