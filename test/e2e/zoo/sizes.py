"""Sizes that the tiny models share: 4 layers of 4 heads divide over the layouts of layouts.py."""
VOCABULARY, HIDDEN, LAYERS, HEADS, POSITIONS = 128, 32, 4, 4, 64

# Fields as Llama spells them.
COMMON = {"vocab_size": VOCABULARY, "hidden_size": HIDDEN, "intermediate_size": 48, "num_hidden_layers": LAYERS,
          "num_attention_heads": HEADS, "max_position_embeddings": POSITIONS, "attention_dropout": 0.0, "bos_token_id": 1,
          "eos_token_id": 2, "pad_token_id": None}
GROUPED = COMMON | {"num_key_value_heads": 2}
# As GPT-2 does.
GPT2 = {"vocab_size": VOCABULARY, "n_positions": POSITIONS, "n_embd": HIDDEN, "n_layer": LAYERS, "n_head": HEADS,
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 1, "eos_token_id": 2}


def rope(theta=10000.0, kind="default", **more):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": theta, **more}}


def llama3(theta=100.0):
    """Small enough that wavelengths of all three bands occur among 16 positions."""
    return rope(theta, "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)


def yarn(**more):
    """Each of its numbers counts with heads of 12 and more."""
    return rope(**{"theta": 20.0, "kind": "yarn", "factor": 4.0, "beta_fast": 2.0, "beta_slow": 1.0,
                   "original_max_position_embeddings": 32} | more)


def windowed(*layers):
    """layer_types with a window on these."""
    return {"layer_types": ["sliding_attention" if layer in layers else "full_attention" for layer in range(LAYERS)]}
