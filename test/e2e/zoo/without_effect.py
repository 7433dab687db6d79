"""Fields that mgc reads and that change nothing in a tiny model: why. (Fields that it ignores, whatever they hold, are listed
in model/families.) A reason is no excuse: mutate_configs.py refuses a field that changes what transformers
computes."""

REASONS = {  # (model_type or "" for all, field): reason
    ("", "max_position_embeddings"): "positions rotate: it bounds the length of sequences alone",
    ("", "sliding_window"): "a size that no layer uses",
    ("", "use_sliding_window"): "there is no size of a window",
    ("", "max_window_layers"): "no layer has a window, or layer_types say which have",
    ("", "router_aux_loss_coef"): "a factor of the auxiliary loss, which output_router_logits adds",
    ("", "rope_parameters"): "a scaling that begins behind max_position_embeddings (dynamic), or the class's defaults",
    ("", "rope_parameters.beta_fast"): "yarn rounds the places that its turns stand for (truncate)",
    ("", "rope_parameters.beta_slow"): "yarn rounds the places that its turns stand for (truncate)",
    ("", "rope_parameters.original_max_position_embeddings"): "yarn rounds the places that its turns stand for (truncate)",
    ("", "hidden_act"): "names of one function, or the class has its own",
    ("", "vision_config.hidden_act"): "names of one function",
    ("", "hidden_activation"): "names of one function",
    ("", "activation_function"): "names of one function",
    ("", "n_positions"): "positions rotate: it bounds the length of sequences alone",
    ("", "use_bidirectional_attention"): "false and null are one",
    ("gemma3_text", "_sliding_window_pattern"): "layer_types say which layers have the window",
    ("", "max_seq_len"): "scores fall with distance: it bounds the length of sequences alone",
    ("phi3", "original_max_position_embeddings"): "of longrope alone",
    ("phi3", "rope_parameters.long_factor"): "of sequences that are longer than the original ones",
    ("phi3", "rope_parameters.short_factor"): "of sequences that are no longer than the original ones",
    ("smollm3", "no_rope_layer_interval"): "no layer is the one behind so many",
    ("modernbert", "local_attention"): "half of it, rounded down, is seen to each side",
    ("mpt", "attn_config"): "without fields the class has the same defaults",
    ("falcon", "num_ln_in_parallel_attn"): "of the new architecture alone; without it there is one norm anyway",
    ("qwen2_moe", "intermediate_size"): "of layers without experts, of which there are none",
    ("qwen3_moe", "intermediate_size"): "of layers without experts, of which there are none",
}

# (model_type, field): what a field that is absent is read as, where that is not what the class of transformers 5 takes: why.
OTHER_DEFAULTS = {
    ("mistral3", "tie_word_embeddings"): "what text_config says, as in transformers 4 and in published checkpoints",
}

SPELLINGS = {"num_local_experts": ("num_experts",),  # other names that mgc may use for a field
             "layer_types": ("sliding_window_pattern",)}


def family_of(model):
    return model.split("-")[0]


def reason_of(model, path):
    family = family_of(model)
    return REASONS.get((family, path)) or REASONS.get(("", path))
