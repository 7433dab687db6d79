// Cuts of a pipeline's layers into chunks. In: facts of a shape. Out: layers of each chunk.
#pragma once

#include "plan/play/Solution.h"
#include "planner/search/ShapeFacts.h"

namespace mgc::planner {

using Cut = std::vector<int64_t>; // layers of each chunk, in the order in which a microbatch passes them

// The cut whose slowest stage takes least seconds of a microbatch; of several about the most even: exact where a stage has one chunk,
// else the best that no move of a layer from the slowest stage makes better. There must be as many layers as chunks, at least.
Cut cutBySeconds(const ShapeFacts &facts, const schedule::Shape &pipeline);

// Cuts that have a layer of a chunk in another chunk, the most even first. With a stage only those that have one of its layers in a
// chunk of another stage.
std::vector<Cut> cutsBeside(const ShapeFacts &facts, const schedule::Shape &pipeline, const Cut &cut,
                            std::optional<int64_t> stage);

// Layers of each chunk, of whose instances there are so many.
Cut layersOf(const ShapeFacts &facts, std::span<const int64_t> instances);

} // namespace mgc::planner
