"""Encoders, whose labels are of masked tokens, and encoders with decoders."""
from zoo import MASKED, SEQ2SEQ, Family
from zoo.sizes import COMMON, HEADS, HIDDEN, VOCABULARY

BERT = {"vocab_size": VOCABULARY, "hidden_size": HIDDEN, "num_hidden_layers": 4, "num_attention_heads": HEADS,
        "intermediate_size": 48, "max_position_embeddings": 64, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
        "pad_token_id": 0}
T5 = {"vocab_size": VOCABULARY, "d_model": HIDDEN, "d_kv": 8, "d_ff": 48, "num_layers": 4, "num_decoder_layers": 4,
      "num_heads": HEADS, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 10, "dropout_rate": 0.0,
      "feed_forward_proj": "relu", "decoder_start_token_id": 0}

FAMILIES = [
    Family("bert", "BertForMaskedLM", "BERT", BERT,
           {"gelu-new": {"hidden_act": "gelu_new", "type_vocab_size": 3}}, kind=MASKED),
    Family("roberta", "RobertaForMaskedLM", "RoBERTa",
           BERT | {"max_position_embeddings": 66, "type_vocab_size": 1, "pad_token_id": 1},
           kind=MASKED),
    Family("electra", "ElectraForMaskedLM", "ELECTRA generators", BERT | {"embedding_size": 16},
           {"whole": {"embedding_size": HIDDEN}}, kind=MASKED),
    Family("modernbert", "ModernBertForMaskedLM", "ModernBERT base, large",
           {k: v for k, v in COMMON.items() if k != "attention_dropout"}
           | {"pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2, "local_attention": 8, "attention_dropout": 0.0,
              "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
                                  "full_attention": {"rope_type": "default", "rope_theta": 1600.0}}},
           {"biased": {"attention_bias": True, "mlp_bias": True, "norm_bias": True}}, kind=MASKED),
    Family("t5", "T5ForConditionalGeneration", "T5, Flan-T5", T5,
           {"gated": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}}, kind=SEQ2SEQ),
    Family("bart", "BartForConditionalGeneration", "BART base, large",
           {"vocab_size": VOCABULARY, "d_model": HIDDEN, "max_position_embeddings": 64,
            "encoder_layers": 4, "decoder_layers": 4, "encoder_attention_heads": HEADS,
            "decoder_attention_heads": HEADS, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
            "dropout": 0.0, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
            "forced_eos_token_id": None}, {"scaled": {"scale_embedding": True}}, kind=SEQ2SEQ),
]
