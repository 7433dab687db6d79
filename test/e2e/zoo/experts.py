"""Decoders with experts."""
from zoo import Family
from zoo.sizes import COMMON, GROUPED, rope, windowed, yarn

EIGHT = {"num_local_experts": 8, "num_experts_per_tok": 2}
QWEN = GROUPED | rope() | {"moe_intermediate_size": 16, "num_experts": 8, "num_experts_per_tok": 2}
ROUTED = {"moe_intermediate_size": 12, "n_routed_experts": 8, "n_shared_experts": 1, "first_k_dense_replace": 1}
LATENT = COMMON | ROUTED | {"num_key_value_heads": 4, "q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 12,
                            "qk_rope_head_dim": 4, "v_head_dim": 8, "num_experts_per_tok": 2}

FAMILIES = [
    Family("mixtral", "MixtralForCausalLM", "Mixtral 8x7B, 8x22B",
           GROUPED | EIGHT | {"intermediate_size": 16, "router_jitter_noise": 0.0},
           {"windowed": {"sliding_window": 4, "head_dim": 12}}),
    Family("qwen2_moe", "Qwen2MoeForCausalLM", "Qwen1.5-MoE, Qwen2 57B-A14B", QWEN | {"shared_expert_intermediate_size": 20},
           {"normalised": {"norm_topk_prob": True, "mlp_only_layers": [1], "decoder_sparse_step": 1}}),
    Family("qwen3_moe", "Qwen3MoeForCausalLM", "Qwen3 30B-A3B, 235B-A22B", QWEN | {"head_dim": 8, "norm_topk_prob": True},
           {"sparse": {"decoder_sparse_step": 2, "norm_topk_prob": False}}),
    Family("olmoe", "OlmoeForCausalLM", "OLMoE 1B-7B",
           {name: value for name, value in QWEN.items() if name != "moe_intermediate_size"} | {"intermediate_size": 16},
           {"clipped": {"clip_qkv": 0.5, "norm_topk_prob": True}}),
    Family("deepseek_v2", "DeepseekV2ForCausalLM", "DeepSeek-V2, V2-Lite",
           LATENT | {"n_group": 2, "topk_group": 1, "topk_method": "group_limited_greedy", "routed_scaling_factor": 4.0},
           {"lite": {"topk_method": "greedy", "q_lora_rank": None, "routed_scaling_factor": 1.0}}),
    Family("deepseek_v3", "DeepseekV3ForCausalLM", "DeepSeek-V3, R1, Kimi K2, Moonlight",
           LATENT | {"n_group": 4, "topk_group": 2, "routed_scaling_factor": 2.5, "norm_topk_prob": True,
                     "num_nextn_predict_layers": 0},
           {"plain": {"n_group": 1, "topk_group": 1, "q_lora_rank": None, "norm_topk_prob": False,
                      **yarn(mscale=1.0, mscale_all_dim=0.5)}}),
    Family("glm4_moe", "Glm4MoeForCausalLM", "GLM-4.5, GLM-4.6",
           GROUPED | ROUTED | {"head_dim": 16, "num_experts_per_tok": 3, "n_group": 4, "topk_group": 2,
                               "routed_scaling_factor": 2.5, "attention_bias": True, "num_nextn_predict_layers": 0,
                               **rope(100.0, partial_rotary_factor=0.5)},
           {"qk-norm": {"use_qk_norm": True, "attention_bias": False, "n_group": 1, "topk_group": 1}}),
    Family("gpt_oss", "GptOssForCausalLM", "gpt-oss 20B, 120B",
           GROUPED | EIGHT | {"intermediate_size": 12, "head_dim": 12, "sliding_window": 4, "swiglu_limit": 1.0,
                              **windowed(0, 2), **yarn(truncate=False)}),
    Family("minimax_m2", "MiniMaxM2ForCausalLM", "MiniMax-M2, M2.1",
           GROUPED | EIGHT | {"intermediate_size": 16, "head_dim": 12, **rope(100.0, partial_rotary_factor=0.5)}),
    Family("ernie4_5_moe", "Ernie4_5_MoeForCausalLM", "ERNIE 4.5 21B-A3B, 300B-A47B",
           GROUPED | {"moe_intermediate_size": 12, "moe_num_experts": 8, "moe_k": 2, "moe_num_shared_experts": 1,
                      "moe_layer_start_index": 1, "moe_layer_end_index": 3, "tie_word_embeddings": True, **rope(100.0)}),
]
