// How the layers are cut into stages, where the user says so: --stages, and Megatron-LM's ways to say it.
#pragma once

#include "frontend/layout/Layout.h"
#include "runtime/base/Problems.h"

namespace mgc::frontend {

// Sets Layout::stages where one of the options is given, each of which says all of the cut:
//   --stages 3,4x14,2                         layers of each chunk
//   --decoder-first-pipeline-num-layers N,    those of a stage; the others share out the rest evenly
//   --decoder-last-pipeline-num-layers N
//   --account-for-embedding-in-pipeline-split and --account-for-loss-in-pipeline-split: the embedding, and the loss, count as a layer
//   --pipeline-model-parallel-layout TEXT     Megatron-LM's: E embedding, t layer, m module of a later token, L loss, | end of a
//                                             chunk, (..)*n and t*n repeated, commas and blanks for the eye
// In: pp, virtualStages and laterTokens of the layout. Problems say which numbers would do.
void resolveStageCut(const ModelDescription &model, const LayoutOptions &asked, Layout &layout, Problems &problems);

// Whether one of the options is given.
bool isCutGiven(const LayoutOptions &options);

// Leaves out options of the cut, with which a layout would have as many layers and stages as it has.
void setNearestStageCut(LayoutOptions &options);

} // namespace mgc::frontend
