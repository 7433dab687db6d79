// An index file of Megatron-LM, part by part: tests change what is in it.
#pragma once

#include "runtime/data/indexed/IndexedTokens.h"
#include "test/runtime/TempDir.h"

namespace mgc::test {

struct IndexParts {
  uint8_t type = 8;
  std::vector<int32_t> lengths = {3, 4};
  std::vector<int64_t> offsets = {0, 6}, documents = {0, 1, 2};
  std::string rest = {};
  std::string bytes() const {
    std::string all(kIndexMagic);
    all += bytesOf(std::vector<uint64_t>{1}) + char(type);
    all += bytesOf(std::vector<uint64_t>{lengths.size(), documents.size()});
    return all + bytesOf(lengths) + bytesOf(offsets) + bytesOf(documents) + rest;
  }
};

} // namespace mgc::test
