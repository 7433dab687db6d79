// Whole batches that were made elsewhere: a .safetensors file.
//   input_ids        [steps, samples, length]: tokens
//   labels           the same shape: causal: of the token behind; masked: of the token itself; kIgnoredLabel
//   position_ids     where documents begin; may be missing
//   attention_mask   ones, and zeros where a sample has padding behind them; may be missing
//   token_type_ids   may be missing: all are 0
#pragma once

#include "runtime/data/Data.h"

namespace mgc {

struct OpenedBatches {
  std::unique_ptr<DataSource> data;
  bool hasLabels = true; // else labels are the tokens that may be masked
};
// Why padding behind the tokens of a sample would change what the plan computes of the others; empty: it does not.
std::string harmOfPadding(const plan::Plan &plan);

Result<OpenedBatches> openBatches(const std::string &path, const plan::Plan &plan, const DataOptions &options);

} // namespace mgc
