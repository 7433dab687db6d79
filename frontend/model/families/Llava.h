// How transformers joins a vision tower, a projector and a decoder of another family: the names of LLaVA, which Gemma 3 and
// Mistral 3 share.
#pragma once

#include "frontend/model/families/VisionTower.h"

namespace mgc::frontend {

inline constexpr NestedDecoder kLlavaDecoder = {
    .field = "text_config", .begin = "language_model.", .prefix = "language_model.model."};

// Names in memory of transformers 5, and what towers were called before.
inline constexpr std::pair<std::string_view, std::string_view> kLlavaBegins[] = {
    {"language_model.model.", "model.language_model."},
    {"language_model.lm_head.", "lm_head."},
    {"vision_tower.", "vision_tower.vision_model."},
    {"vision_tower.", "model.vision_tower."},
    {"vision_tower.", "model.vision_tower.vision_model."},
    {"multi_modal_projector.", "model.multi_modal_projector."}};

// Tensors of the tower that families whose decoder alone is trained leave unread.
inline constexpr std::string_view kUnreadTowerTensors[] = {"vision_tower.*", "multi_modal_projector.*"};

} // namespace mgc::frontend
