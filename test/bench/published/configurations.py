"""config.json of the models of test/tables, and which of them predictions are fitted to."""
import json
import pathlib

from compile import gpt

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples"
LAYERS = ("num_hidden_layers", "n_layer", "n_layers")  # by family
LLAMA_70B_12 = {"model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64,
                "num_key_value_heads": 8, "num_hidden_layers": 12, "vocab_size": 128256, "hidden_act": "silu",
                "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "rope_theta": 500000.0}
DEEPSEEK_V2_4 = {"model_type": "deepseek_v2", "hidden_size": 5120, "intermediate_size": 12288, "moe_intermediate_size": 1536,
                 "num_attention_heads": 128, "num_key_value_heads": 128, "num_hidden_layers": 4, "first_k_dense_replace": 1,
                 "n_routed_experts": 160, "n_shared_experts": 2, "num_experts_per_tok": 6, "n_group": 8, "topk_group": 3,
                 "topk_method": "group_limited_greedy", "routed_scaling_factor": 16.0, "norm_topk_prob": False, "moe_layer_freq": 1,
                 "scoring_func": "softmax", "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
                 "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 102400, "hidden_act": "silu",
                 "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "rope_theta": 10000.0,
                 "attention_bias": False}


def example(name, **changes):
    """The configuration of examples/NAME, changed."""
    return json.loads((EXAMPLES / name / "config.json").read_text()) | changes


def sizes(hidden, ffn, heads, groups, layers, vocabulary):
    return {"hidden_size": hidden, "intermediate_size": ffn, "num_attention_heads": heads, "num_key_value_heads": groups,
            "num_hidden_layers": layers, "vocab_size": vocabulary, "head_dim": hidden // heads}


def llama2(*numbers):
    return example("llama-3-8b", **sizes(*numbers), max_position_embeddings=4096, rope_theta=10000.0)


def moonlight():
    return example("deepseek-v3", hidden_size=2048, intermediate_size=11264, moe_intermediate_size=1408, num_hidden_layers=27,
                   num_attention_heads=16, num_key_value_heads=16, n_routed_experts=64, n_shared_experts=2, num_experts_per_tok=6,
                   first_k_dense_replace=1, q_lora_rank=None, n_group=1, topk_group=1, routed_scaling_factor=2.446,
                   vocab_size=163840, num_nextn_predict_layers=0, rope_scaling=None, rope_theta=50000.0,
                   max_position_embeddings=8192)


# By name: the configuration, and the parameters that the name or its paper says, in billions.
MODELS = {
    "llama-3.1-8b": (lambda: example("llama-3-8b", max_position_embeddings=131072), 8.03),
    "llama-3.1-405b": (lambda: example("llama-3.1-405b"), 405),
    "llama-2-7b": (lambda: llama2(4096, 11008, 32, 32, 32, 32000), 6.74),
    "llama-2-13b": (lambda: llama2(5120, 13824, 40, 40, 40, 32000), 13.0),
    "llama-2-34b": (lambda: llama2(8192, 22016, 64, 8, 48, 32000), 33.7),
    "llama-2-70b": (lambda: llama2(8192, 28672, 64, 8, 80, 32000), 69.0),
    "llama-3-70b-12": (lambda: LLAMA_70B_12, None),
    "deepseek-v2-4": (lambda: DEEPSEEK_V2_4, None),
    "deepseek-v3": (lambda: example("deepseek-v3", num_nextn_predict_layers=0), 671),
    "moonlight-16b": (moonlight, 15.96),
    "grok-1": (lambda: example("mixtral-8x22b-v0.1", **sizes(6144, 32768, 48, 8, 64, 131072)), 314),
    "nemotron-4-15b": (lambda: example("minitron-4b-base", **sizes(6144, 24576, 48, 8, 32, 256000)), 15.6),
}
# Models whose rows may be looked at when constants of machines are chosen; all others are held. Every machine and stack has both.
SEEN = {
    "gpt-1024x12", "gpt-1024x20", "gpt-3072x30", "gpt-4096x36", "gpt-12288x96", "gpt-20480x105",
    "llama-3.1-8b", "llama-3-70b-12", "grok-1", "llama-2-7b", "mpt-125m", "mpt-1b", "mpt-30b",
}


def with_layers(config, layers):
    return {key: layers if key in LAYERS else value for key, value in config.items()}


def configuration(model, layers=None):
    config = MODELS[model][0]()
    return with_layers(config, layers) if layers else config


def gpt_name(hidden, layers):
    return f"gpt-{hidden}x{layers}"


def mpt(hidden, heads, layers, vocabulary, sequence):
    return example("mpt-7b-instruct", d_model=hidden, n_heads=heads, n_layers=layers, vocab_size=vocabulary, max_seq_len=sequence)


def untied_gpt(layers, hidden, heads, sequence, vocabulary):
    return gpt(layers, hidden, heads, sequence, vocabulary) | {"tie_word_embeddings": False}


def is_seen(model):
    return model in SEEN
