// mgc-data show: samples as a training reads them.
#pragma once

#include "runtime/data/Data.h"
#include "runtime/random/Seed.h"

namespace mgc::tools {

struct ShowOptions {
  std::string data; // a file of mgrun --data, or the prefix of indexed files
  DataOptions reading;
  int64_t samples = 3, length = 4096; // length: of a sequence, in tokens
  uint64_t seed = kDefaultSeed;
  bool isPacked = false, isJson = false;
};

// To standard output. Of a .jsonl whose first line has no "text", the lines are conversations.
Status showSamples(ShowOptions options);

} // namespace mgc::tools
