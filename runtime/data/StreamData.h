// One or several streams of tokens, cut into samples whose order is drawn for each epoch.
#pragma once

#include "runtime/data/BatchShape.h"
#include "runtime/data/SampleForm.h"
#include "runtime/data/TokenReader.h"

namespace mgc {

// The rule for samples that are packed documents.
struct DocumentRule {
  std::optional<int64_t> endToken;
  int64_t longest = 0; // document; 0: any length
};

struct StreamOptions {
  BatchShape shape;
  SampleForm form;
  DocumentRule rule;
  uint64_t seed = 0;
};

// `tokens` are `rows` streams of equal length.
Result<std::unique_ptr<DataSource>> makeStreamData(TokenReader tokens, int64_t rows, const StreamOptions &options);

} // namespace mgc
