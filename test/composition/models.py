# The base models and batches of the composition tests: in: a config.json as a dict; out: weights and batches as numpy
# arrays, and safetensors files of them. Nothing is neutral: norm weights are not 1, biases not 0, the sequences of a
# batch count different numbers of tokens, one of them a single one.
import numpy

SEQUENCE = 16
VALID = (1, 15, 7, 16)  # tokens that count, of the sequences of a batch

GPT2 = {"model_type": "gpt2", "n_embd": 16, "n_head": 4, "n_layer": 2, "n_positions": SEQUENCE, "n_inner": 32,
        "vocab_size": 40, "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0, "tie_word_embeddings": True,
        "layer_norm_epsilon": 1e-5, "initializer_range": 0.2}
DECODER = {"hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "intermediate_size": 32,
           "vocab_size": 40, "tie_word_embeddings": False, "rms_norm_eps": 1e-6, "max_position_embeddings": SEQUENCE,
           "hidden_act": "silu", "initializer_range": 0.2}
EXPERTS = {"moe_intermediate_size": 16, "num_experts_per_tok": 2, "norm_topk_prob": True}
LLAMA = DECODER | {"model_type": "llama", "rope_theta": 100.0, "attention_bias": True, "mlp_bias": True}
QWEN3 = DECODER | {"model_type": "qwen3", "rope_theta": 100.0, "head_dim": 8, "tie_word_embeddings": True}
QWEN3_MOE = QWEN3 | EXPERTS | {"model_type": "qwen3_moe", "num_experts": 4, "decoder_sparse_step": 1, "mlp_only_layers": []}
GLM4_MOE = DECODER | EXPERTS | {
    "model_type": "glm4_moe", "head_dim": 8, "first_k_dense_replace": 0, "n_routed_experts": 4, "n_shared_experts": 1, "n_group": 1,
    "topk_group": 1, "routed_scaling_factor": 2.5, "attention_bias": True, "use_qk_norm": False,
    "rope_parameters": {"partial_rotary_factor": 0.5, "rope_theta": 100.0, "rope_type": "default"}}
DROPOUT = {"attn_pdrop": 0.5, "embd_pdrop": 0.5, "resid_pdrop": 0.5}


def with_layers(config, layers):
    return config | {"n_layer" if config["model_type"] == "gpt2" else "num_hidden_layers": layers}


def gpt2_shapes(config):
    h, f, v, p = config["n_embd"], config["n_inner"], config["vocab_size"], config["n_positions"]
    layer = {"ln_1.weight": (h,), "ln_1.bias": (h,), "attn.c_attn.weight": (h, 3 * h), "attn.c_attn.bias": (3 * h,),
             "attn.c_proj.weight": (h, h), "attn.c_proj.bias": (h,), "ln_2.weight": (h,), "ln_2.bias": (h,),
             "mlp.c_fc.weight": (h, f), "mlp.c_fc.bias": (f,), "mlp.c_proj.weight": (f, h), "mlp.c_proj.bias": (h,)}
    shapes = {"transformer.wte.weight": (v, h), "transformer.wpe.weight": (p, h)}
    for i in range(config["n_layer"]):
        shapes |= {f"transformer.h.{i}.{name}": shape for name, shape in layer.items()}
    shapes |= {"transformer.ln_f.weight": (h,), "transformer.ln_f.bias": (h,)}
    return shapes if config["tie_word_embeddings"] else shapes | {"lm_head.weight": (v, h)}


def llama_shapes(config):
    h, f, v = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    d = config.get("head_dim", h // heads)
    layer = {"input_layernorm.weight": (h,), "post_attention_layernorm.weight": (h,),
             "self_attn.q_proj.weight": (heads * d, h), "self_attn.k_proj.weight": (groups * d, h),
             "self_attn.v_proj.weight": (groups * d, h), "self_attn.o_proj.weight": (h, heads * d),
             "mlp.gate_proj.weight": (f, h), "mlp.up_proj.weight": (f, h), "mlp.down_proj.weight": (h, f)}
    if config.get("attention_bias"):
        layer |= {"self_attn.q_proj.bias": (heads * d,), "self_attn.k_proj.bias": (groups * d,),
                  "self_attn.v_proj.bias": (groups * d,)}
        layer |= {} if config["model_type"] == "glm4_moe" else {"self_attn.o_proj.bias": (h,)}
    if config.get("mlp_bias"):
        layer |= {"mlp.gate_proj.bias": (f,), "mlp.up_proj.bias": (f,), "mlp.down_proj.bias": (h,)}
    if "moe_intermediate_size" in config:
        m, experts = config["moe_intermediate_size"], config.get("num_experts") or config["n_routed_experts"]
        layer = {name: shape for name, shape in layer.items() if not name.startswith("mlp.")}
        layer |= {"mlp.gate.weight": (experts, h)}
        if config.get("n_shared_experts"):
            layer |= {"mlp.gate.e_score_correction_bias": (experts,), "mlp.shared_experts.gate_proj.weight": (m, h),
                      "mlp.shared_experts.up_proj.weight": (m, h), "mlp.shared_experts.down_proj.weight": (h, m)}
        for e in range(experts):
            layer |= {f"mlp.experts.{e}.gate_proj.weight": (m, h), f"mlp.experts.{e}.up_proj.weight": (m, h),
                      f"mlp.experts.{e}.down_proj.weight": (h, m)}
    if config["model_type"] in ("qwen3", "qwen3_moe"):
        layer |= {"self_attn.q_norm.weight": (d,), "self_attn.k_norm.weight": (d,)}
    shapes = {"model.embed_tokens.weight": (v, h)}
    for i in range(config["num_hidden_layers"]):
        shapes |= {f"model.layers.{i}.{name}": shape for name, shape in layer.items()}
    shapes |= {"model.norm.weight": (h,)}
    return shapes if config["tie_word_embeddings"] else shapes | {"lm_head.weight": (v, h)}


def shapes_of(config):
    return gpt2_shapes(config) if config["model_type"] == "gpt2" else llama_shapes(config)


def random_weights(config, seed=5):
    r = numpy.random.default_rng(seed)
    weights = {}
    for name, shape in shapes_of(config).items():
        values = r.standard_normal(shape)
        norm = len(shape) == 1 and name.endswith("weight")
        weights[name] = ((1 + 0.3 * values) if norm else 0.3 * values).astype(numpy.float32)
    return weights


def random_batch(config, valid=VALID, steps=3, seed=6):
    """input_ids and labels, [steps, sequences, SEQUENCE]; labels are shifted, and -100 where no token counts."""
    r = numpy.random.default_rng(seed)
    text = r.integers(0, config["vocab_size"], (steps, len(valid), SEQUENCE + 1), dtype=numpy.int64)
    tokens, labels = text[:, :, :-1].copy(), text[:, :, 1:].copy()
    for step in range(steps):
        for i, count in enumerate(valid):
            labels[step, i, r.permutation(SEQUENCE)[count:]] = -100
    return {"input_ids": tokens, "labels": labels}


def documents_of(lengths, steps=3):
    """position_ids of samples whose documents have these lengths: one list a sample, each of SEQUENCE in sum."""
    rows = [numpy.concatenate([numpy.arange(length) for length in sample]) for sample in lengths]
    return numpy.broadcast_to(numpy.array(rows, dtype=numpy.int64), (steps, len(lengths), SEQUENCE)).copy()


def packed_and_alone(config, lengths):
    """One text as two batches: packed in samples, and each document in a sample of its own, which ends in ignored tokens."""
    packed = random_batch(config, tuple(SEQUENCE - 3 for _ in lengths)) | {"position_ids": documents_of(lengths)}
    steps = packed["labels"].shape[0]
    alone = {"input_ids": numpy.zeros((steps, sum(map(len, lengths)), SEQUENCE), numpy.int64)}
    alone["labels"] = numpy.full_like(alone["input_ids"], -100)
    number = 0
    for sample, parts in enumerate(lengths):
        begin = 0
        for length in parts:
            packed["labels"][:, sample, begin + length - 1] = -100
            for name, tensor in alone.items():
                tensor[:, number, :length] = packed[name][:, sample, begin:begin + length]
            number, begin = number + 1, begin + length
    return packed, alone
