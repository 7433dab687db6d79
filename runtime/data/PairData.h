// Whole batches for a model with an encoder: in a .safetensors file, what transformers gives to such a model.
//
//   input_ids           5 8 7 0      [steps, samples, encoderLength]: what the encoder reads
//   attention_mask      1 1 1 0      the same; missing: no padding. The encoder and cross-attention see nothing behind the ones
//   labels              6 9 -100     [steps, samples, sequenceLength]: of each of the decoder's tokens the one behind it
//   decoder_input_ids   2 6 9        the same; missing: the labels, a place later, behind the plan's start token
#pragma once

#include "runtime/data/BatchData.h"

namespace mgc {

Result<OpenedBatches> openPairs(const std::string &path, const plan::Plan &plan, const DataOptions &options);

// Samples of two sequences are no packed documents.
Status verifyNoDocuments(const DocumentOptions &documents);

} // namespace mgc
