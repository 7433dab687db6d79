# The golden models on the ops of rounded_ops.py, and their training: losses, gradient norms, the gradients of the first step
# and the weights after the last. Without rounding they are those of expect.json, to the last digits of float64.
import json

import numpy

import tensor_files
from rounded_ops import Pass, nearest


def gpt2(p, config, data):
    epsilon, head, positions = config["layer_norm_epsilon"], "transformer.", data["position_ids"]
    x = p.residual(p.sum(p.embed(head + "wte.weight", data["input_ids"]), p.embed(head + "wpe.weight", positions)))
    for i in range(config["n_layer"]):
        layer = f"{head}h.{i}."
        y = p.norm(x, layer + "ln_1", epsilon)
        qkv = p.bias(p.product(y, [layer + "attn.c_attn.weight"], "out", False)[0], layer + "attn.c_attn.bias")
        q, k, v = (p.heads(part, config["n_head"]) for part in p.split(qkv, [config["n_embd"], 2 * config["n_embd"]]))
        y = p.product(p.attention(q, k, v, positions), [layer + "attn.c_proj.weight"], "in", False)[0]
        x = p.sum(x, p.bias(y, layer + "attn.c_proj.bias"))
        y = p.norm(x, layer + "ln_2", epsilon)
        y = p.gelu(p.bias(p.product(y, [layer + "mlp.c_fc.weight"], "out", False)[0], layer + "mlp.c_fc.bias"))
        x = p.sum(x, p.bias(p.product(y, [layer + "mlp.c_proj.weight"], "in", False)[0], layer + "mlp.c_proj.bias"))
    return p.product(p.norm(x, head + "ln_f", epsilon), [head + "wte.weight"], "out", True)[0]


def bert(p, config, data):
    """Norms stand behind the sums: what a layer reads is the residual stream itself."""
    epsilon, head, keys = config["layer_norm_eps"], "bert.embeddings.", data["attention_mask"]
    ids = {"word": data["input_ids"], "position": data["position_ids"], "token_type": data["token_type_ids"]}
    x = p.residual(p.sum(*(p.embed(f"{head}{kind}_embeddings.weight", index) for kind, index in ids.items())))
    x = p.norm(x, head + "LayerNorm", epsilon, x.wide)

    def dense(x, names, split):
        products = p.product(x, [f"{name}.weight" for name in names], split, True)
        return [p.bias(y, f"{name}.bias") for y, name in zip(products, names)]

    for i in range(config["num_hidden_layers"]):
        layer = f"bert.encoder.layer.{i}."
        own = layer + "attention."
        made = dense(p.read(x), [f"{own}self.{name}" for name in ("query", "key", "value")], "out")
        o = p.attention(*(p.heads(y, config["num_attention_heads"]) for y in made), data["position_ids"], keys)
        y = dense(o, [own + "output.dense"], "in")[0]
        x = p.norm(p.sum(x, y), own + "output.LayerNorm", epsilon, x.wide)
        y = p.gelu_erf(dense(p.read(x), [layer + "intermediate.dense"], "out")[0])
        x = p.norm(p.sum(x, dense(y, [layer + "output.dense"], "in")[0]), layer + "output.LayerNorm", epsilon, x.wide)
    head = "cls.predictions."
    y = p.norm(p.gelu_erf(dense(p.read(x), [head + "transform.dense"], "out")[0]), head + "transform.LayerNorm", epsilon)
    return p.bias(p.product(y, ["bert.embeddings.word_embeddings.weight"], "out", True)[0], head + "bias")


def frequencies(config, d):
    """Frequencies of rotary positions; llama3's scaling keeps short wavelengths and divides long ones by its factor."""
    rope = config["rope_parameters"]
    frequency = rope["rope_theta"] ** (-numpy.arange(0, d, 2) / d)
    if rope["rope_type"] == "llama3":
        low, high, factor = rope["low_freq_factor"], rope["high_freq_factor"], rope["factor"]
        turns = rope["original_max_position_embeddings"] * frequency / (2 * numpy.pi)
        share = numpy.clip((turns - low) / (high - low), 0, 1)
        frequency = frequency * (share + (1 - share) / factor)
    return frequency


def experts(p, config, x, name):
    """All experts of all tokens, those that are not chosen with the weight 0."""
    weights = p.route(p.product(x, [name + "gate.weight"], "none", True)[0], config["num_experts_per_tok"])

    def one(expert):
        own = f"{name}experts.{expert}."
        gate, up = p.product(x, [own + "w1.weight", own + "w3.weight"], "out", True)
        return p.product(p.weighted(p.gated(gate, up), weights, expert), [own + "w2.weight"], "in", True)[0]

    return p.sum(*map(one, range(config["num_local_experts"])))


def llama(p, config, data):
    epsilon, positions = config["rms_norm_eps"], data["position_ids"]
    d = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    angles = positions[..., None] * frequencies(config, d)
    x = p.residual(p.embed("model.embed_tokens.weight", data["input_ids"]))

    def project(x, prefix, names):
        """Joined where no tensor rank has part of a group alone."""
        groups = [names] if p.parts <= config["num_key_value_heads"] else [[name] for name in names]
        found = [y for group in groups for y in p.product(x, [f"{prefix}{n}_proj.weight" for n in group], "out", True)]
        return [p.bias(y, f"{prefix}{n}_proj.bias") for y, n in zip(found, names)]

    def head_of(y, name, count):
        y = p.heads(y, count)
        return p.norm(y, name, epsilon) if name + ".weight" in p.weights else y

    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        own = layer + "self_attn."
        q, k, v = project(p.norm(x, layer + "input_layernorm", epsilon), own, "qkv")
        q = p.rotate(head_of(q, own + "q_norm", config["num_attention_heads"]), angles)
        k = p.rotate(head_of(k, own + "k_norm", config["num_key_value_heads"]), angles)
        o = p.attention(q, k, p.heads(v, config["num_key_value_heads"]), positions)
        x = p.sum(x, p.product(o, [own + "o_proj.weight"], "in", True)[0])
        y = p.norm(x, layer + "post_attention_layernorm", epsilon)
        if "num_local_experts" in config:
            x = p.sum(x, experts(p, config, y, layer + "block_sparse_moe."))
            continue
        gate, up = p.product(y, [f"{layer}mlp.{n}_proj.weight" for n in ("gate", "up")], "out", True)
        x = p.sum(x, p.product(p.gated(gate, up), [layer + "mlp.down_proj.weight"], "in", True)[0])
    head = "lm_head.weight" if "lm_head.weight" in p.weights else "model.embed_tokens.weight"
    return p.product(p.norm(x, "model.norm", epsilon), [head], "out", True)[0]


class AdamW:
    """PyTorch's, on masters that are not rounded."""

    def __init__(self, options):
        self.options, self.step, self.moments = options, 0, {}

    def update(self, weights, gradients, lr, norm):
        (beta1, beta2), self.step = self.options["betas"], self.step + 1
        factor = min(1.0, self.options["clip"] / (norm + 1e-6))
        for name, gradient in gradients.items():
            m, v = self.moments.get(name, (0.0, 0.0))
            g = gradient * factor
            m, v = self.moments[name] = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
            decay = self.options["weight_decay"] * lr if weights[name].ndim > 1 else 0
            root = numpy.sqrt(v / (1 - beta2**self.step)) + self.options["eps"]
            weights[name] = weights[name] * (1 - decay) - lr * m / (1 - beta1**self.step) / root


MODELS = {"bert": bert, "gpt2": gpt2}  # others are llama's


class Training:
    """`rounded`: of activations; `rounded_gradients`: of each partial sum of the batch's gradients, over
    microbatches and then over data ranks. Both do nothing by default, and parameters are then not rounded either.
    fp32_residual: the residual stream is not rounded."""

    def __init__(self, golden, rounded=None, rounded_gradients=None, parts=1, data_ranks=1, microbatches=1, ops=Pass,
                 optimizer=AdamW, fp32_residual=False):
        same = lambda values: values
        self.expect, self.parts, self.ops = golden.expect, parts, ops
        self.rounded, self.rounded_gradients = rounded or same, rounded_gradients or same
        self.parameters_are = nearest if rounded else same
        self.data_ranks, self.microbatches, self.fp32_residual = data_ranks, microbatches, fp32_residual
        with open(golden.path("config.json"), encoding="utf-8") as file:
            self.config = json.load(file)
        self.batch = tensor_files.load(golden.path("batch.safetensors"))
        self.weights = {name: w.astype(numpy.float64) for name, w in golden.start.items()}
        self.optimizer = optimizer(self.expect["optimizer"])

    def results(self):
        """The results of all steps, by name; scalars as arrays of one element."""
        found = {}
        for step in range(self.expect["steps"]):
            loss, gradients = self.gradients(step)
            norm = numpy.sqrt(sum((g**2).sum() for g in gradients.values()))
            found |= {f"loss of step {step}": numpy.array([loss]), f"grad_norm of step {step}": numpy.array([norm])}
            if step == 0:
                found |= {f"gradient {name}": g for name, g in gradients.items()}
            self.optimizer.update(self.weights, gradients, self.expect["lr"][step], norm)
        return found | {f"weight {name}": w for name, w in self.weights.items()}

    def gradients(self, step):
        """The mean loss of a step and its gradients."""
        values = {name: self.parameters_are(w) for name, w in self.weights.items()}
        data = {name: tensor[step] for name, tensor in self.batch.items()}
        tokens, labels = data["input_ids"], data["labels"]
        data.setdefault("position_ids", numpy.broadcast_to(numpy.arange(tokens.shape[1]), tokens.shape))
        total = {name: numpy.zeros((self.data_ranks, *value.shape)) for name, value in values.items()}

        def add(name, gradients):
            """Adds the microbatches of each rank, one after another."""
            for one in gradients.reshape(self.data_ranks, self.microbatches, *gradients.shape[1:]).swapaxes(0, 1):
                total[name] = self.rounded_gradients(total[name] + one)

        p = self.ops(values, self.rounded, self.parts, self.data_ranks * self.microbatches, add)
        p.fp32_residual = self.fp32_residual
        model = MODELS.get(self.config["model_type"], llama)
        count = (labels >= 0).sum()
        loss = p.loss(model(p, self.config, data), labels) / count
        reduced = self.rounded_gradients if self.data_ranks > 1 else lambda sums: sums
        return loss, {name: reduced(ranks.sum(0)) / count for name, ranks in total.items()}
