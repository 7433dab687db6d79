# The models in numpy and float64, forward only: (config, weights, batch) -> loss. Gradients are checked by differences of
# the loss along random directions, so no line here is about backward. Dropout is not in it.
import math

import numpy


def layer_norm(x, weight, bias, epsilon):
    centred = x - x.mean(-1, keepdims=True)
    return centred / numpy.sqrt((centred**2).mean(-1, keepdims=True) + epsilon) * weight + bias


def rms_norm(x, weight, epsilon):
    return x / numpy.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * weight


def attention(q, k, v):
    """q [b, heads, s, d]; k, v [b, groups, s, d]: causal softmax attention, [b, s, heads * d]."""
    repeat = q.shape[1] // k.shape[1]
    k, v = k.repeat(repeat, 1), v.repeat(repeat, 1)
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    scores = numpy.where(numpy.tril(numpy.ones(scores.shape[-2:], bool)), scores, -numpy.inf)
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    mixed = weights / weights.sum(-1, keepdims=True) @ v
    return mixed.swapaxes(1, 2).reshape(q.shape[0], q.shape[2], -1)


def split_heads(x, heads):
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def rotate(x, theta):
    """Rotary positions on x [b, heads, s, d], as transformers has them: pairs are (i, i + d / 2)."""
    d = x.shape[-1]
    angles = numpy.arange(x.shape[-2])[:, None] * theta ** (-numpy.arange(0, d, 2) / d)
    cos, sin = (numpy.concatenate([f(angles)] * 2, -1) for f in (numpy.cos, numpy.sin))
    return x * cos + numpy.concatenate([-x[..., d // 2 :], x[..., : d // 2]], -1) * sin


def gelu_tanh(x):
    return 0.5 * x * (1 + numpy.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gpt2_logits(config, w, tokens):
    epsilon = config["layer_norm_epsilon"]
    x = w["transformer.wte.weight"][tokens] + w["transformer.wpe.weight"][: tokens.shape[1]]
    for i in range(config["n_layer"]):
        p = {name.removeprefix(f"transformer.h.{i}."): value for name, value in w.items()}
        y = layer_norm(x, p["ln_1.weight"], p["ln_1.bias"], epsilon) @ p["attn.c_attn.weight"] + p["attn.c_attn.bias"]
        q, k, v = (split_heads(part, config["n_head"]) for part in numpy.split(y, 3, -1))
        x = x + attention(q, k, v) @ p["attn.c_proj.weight"] + p["attn.c_proj.bias"]
        y = layer_norm(x, p["ln_2.weight"], p["ln_2.bias"], epsilon) @ p["mlp.c_fc.weight"] + p["mlp.c_fc.bias"]
        x = x + gelu_tanh(y) @ p["mlp.c_proj.weight"] + p["mlp.c_proj.bias"]
    x = layer_norm(x, w["transformer.ln_f.weight"], w["transformer.ln_f.bias"], epsilon)
    return x @ w.get("lm_head.weight", w["transformer.wte.weight"]).T


def llama_attention(config, p, x):
    def project(name, heads, norm=None):
        y = split_heads(x @ p[f"{name}_proj.weight"].T + p.get(f"{name}_proj.bias", 0.0), heads)
        return rms_norm(y, p[norm], config["rms_norm_eps"]) if norm in p else y

    heads, groups, theta = config["num_attention_heads"], config["num_key_value_heads"], config["rope_theta"]
    q, k = rotate(project("q", heads, "q_norm.weight"), theta), rotate(project("k", groups, "k_norm.weight"), theta)
    return attention(q, k, project("v", groups)) @ p["o_proj.weight"].T + p.get("o_proj.bias", 0.0)


def llama_mlp(p, x):
    gate = x @ p["gate_proj.weight"].T + p.get("gate_proj.bias", 0.0)
    up = x @ p["up_proj.weight"].T + p.get("up_proj.bias", 0.0)
    return gate / (1 + numpy.exp(-gate)) * up @ p["down_proj.weight"].T + p.get("down_proj.bias", 0.0)


def llama_logits(config, w, tokens):
    epsilon = config["rms_norm_eps"]
    x = w["model.embed_tokens.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        part = lambda kind: {n.removeprefix(f"model.layers.{i}.{kind}"): v for n, v in w.items()}
        p = part("")
        x = x + llama_attention(config, part("self_attn."), rms_norm(x, p["input_layernorm.weight"], epsilon))
        x = x + llama_mlp(part("mlp."), rms_norm(x, p["post_attention_layernorm.weight"], epsilon))
    return rms_norm(x, w["model.norm.weight"], epsilon) @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).T


def loss(config, weights, tokens, labels):
    """The mean over the tokens that count. Weights float64; tokens, labels [sequences, positions]."""
    logits = (gpt2_logits if config["model_type"] == "gpt2" else llama_logits)(config, weights, tokens)
    top = logits.max(-1)
    lse = top + numpy.log(numpy.exp(logits - top[..., None]).sum(-1))
    target = numpy.take_along_axis(logits, numpy.maximum(labels, 0)[..., None], -1)[..., 0]
    return ((lse - target) * (labels >= 0)).sum() / (labels >= 0).sum()


def slope(config, weights, tokens, labels, name, direction, step=1e-5):
    """The derivative of the loss as weights[name] moves along direction."""
    ends = [loss(config, weights | {name: weights[name] + sign * step * direction}, tokens, labels) for sign in (1, -1)]
    return (ends[0] - ends[1]) / (2 * step)
