"""Models of images and text: a vision tower, a projector, and a decoder of another family; some without images, their decoder
alone."""
from zoo import IMAGES, Family
from zoo.decoders import COHERE, GEMMA3, MINISTRAL3
from zoo.sizes import GROUPED, HEADS, LAYERS, VOCABULARY

HIDDEN = 24  # the tower's, not the decoder's
TOWER = {"hidden_size": HIDDEN, "intermediate_size": 40, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "image_size": 12,
         "patch_size": 4, "attention_dropout": 0.0}
LLAMA = GROUPED | {"model_type": "llama"}
QWEN2 = GROUPED | {"model_type": "qwen2", "layer_types": ["full_attention"] * LAYERS, "tie_word_embeddings": True}
PIXTRAL = TOWER | {"model_type": "pixtral", "head_dim": HIDDEN // HEADS}
SIGLIP = TOWER | {"model_type": "siglip_vision_model"}

FAMILIES = [
    Family("llava", "LlavaForConditionalGeneration", "LLaVA 1.5; with SigLIP",
           {"vision_config": TOWER | {"model_type": "clip_vision_model"}, "text_config": LLAMA,
            "image_token_index": VOCABULARY - 1, "image_seq_length": 9},
           {"siglip": {"vision_config": SIGLIP, "text_config": QWEN2, "vision_feature_select_strategy": "full"},
            "logits": {"text_config": COHERE | {"model_type": "cohere"}},
            "whole": {"vision_feature_layer": -1, "vision_feature_select_strategy": "full", "multimodal_projector_bias": False,
                      "projector_hidden_act": "relu", "image_seq_length": 10}}, kind=IMAGES),
    Family("gemma3", "Gemma3ForConditionalGeneration", "Gemma 3 4B, 12B, 27B (text)",
           {"vision_config": SIGLIP, "text_config": GEMMA3 | {"model_type": "gemma3_text"}, "mm_tokens_per_image": 9,
            "image_token_index": VOCABULARY - 1}),
    Family("mistral3", "Mistral3ForConditionalGeneration", "Mistral Small 3.1, 3.2; Ministral 3 (text)",
           {"vision_config": PIXTRAL, "text_config": GROUPED | {"model_type": "mistral", "sliding_window": None},
            "image_token_index": VOCABULARY - 1, "tie_word_embeddings": False},
           {"ministral": {"text_config": MINISTRAL3 | {"model_type": "ministral3"}}}),
]
