// Images with tokens, as transformers' processors give them, in a .safetensors file of whole batches (BatchData.h).
//
//   input_ids     1 99 99 99 99 8 7    [steps, samples, sequenceLength]: image tokens, here 99, for each feature of an image
//   labels        -100 .. -100 8 7 2   the same
//   pixel_values  floats               [steps, images, channels, height, width]: images of the step's samples that have
//                                      image tokens, in their order
//
// A sample has one image or none.
#pragma once

#include "runtime/data/BatchFile.h"

namespace mgc {

// Finds where features of images go, and sets the batch's imagePlaces and imageSources. The samples that have an image; an
// error where a sample has image tokens, but not as many as an image has features.
Result<std::vector<int64_t>> placeImages(const BatchShape &shape, GlobalBatch &batch);

// Tokens of a source, with the images of the file that it came from. An error where a step's images are not those of its
// image tokens.
Result<std::unique_ptr<DataSource>> withImages(std::unique_ptr<DataSource> tokens, const BatchFile &file,
                                               const plan::Plan &plan);

// Made-up images before the tokens of a source, of three in four samples; what follows image tokens has no label.
std::unique_ptr<DataSource> withMadeUpImages(std::unique_ptr<DataSource> tokens, const plan::Plan &plan, uint64_t seed);

} // namespace mgc
