"""Models of images and text: a vision tower, a projector, and a decoder of another family."""
from zoo import IMAGES, Family
from zoo.sizes import GROUPED, HEADS, LAYERS, VOCABULARY

HIDDEN = 24  # of the tower: not the decoder's
TOWER = {"hidden_size": HIDDEN, "intermediate_size": 40, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "image_size": 12,
         "patch_size": 4, "attention_dropout": 0.0}
LLAMA = GROUPED | {"model_type": "llama"}
QWEN2 = GROUPED | {"model_type": "qwen2", "layer_types": ["full_attention"] * LAYERS, "tie_word_embeddings": True}
SIGLIP = TOWER | {"model_type": "siglip_vision_model"}

FAMILIES = [
    Family("llava", "LlavaForConditionalGeneration", "LLaVA 1.5; with SigLIP",
           {"vision_config": TOWER | {"model_type": "clip_vision_model"}, "text_config": LLAMA,
            "image_token_index": VOCABULARY - 1, "image_seq_length": 9},
           {"siglip": {"vision_config": SIGLIP, "text_config": QWEN2, "vision_feature_select_strategy": "full"},
            "whole": {"vision_feature_layer": -1, "vision_feature_select_strategy": "full", "multimodal_projector_bias": False,
                      "projector_hidden_act": "relu", "image_seq_length": 10}}, kind=IMAGES),
]
