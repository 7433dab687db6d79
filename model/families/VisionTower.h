// Encoders of images: what a vision_config says, of the classes of transformers that models of images and text have.
#pragma once

#include "model/families/Decoder.h"

namespace mgc::frontend {

// The positions of a tower that the decoder has, as fields of a model of images and text say.
struct TowerFeatures {
  int64_t layer = -2;          // behind which layer they are taken, 0 is the first's input; negative: from the end
  bool leavesOutFirst = false; // the position of the class token
};

// Reads the vision_config into model.encoder, with the layers that the features are made by, model.encoderLayersInFile
// and the names of its fields. Nothing but problems where its sizes are not usable.
void readVisionTower(Config &config, const TowerFeatures &features, ModelDescription &model);

// Its tensors behind the "vision_tower." of LLaVA, but for those of the projector; and those that no feature needs.
extern const std::span<const TensorRow> kVisionTowerRows;
extern const std::span<const std::string_view> kVisionTowerIgnored;

} // namespace mgc::frontend
