// --split and --data-path as people write them: parts of the data, and prefixes with weights.
#pragma once

#include "runtime/base/Status.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mgc {

enum class Split { train, valid, test };
inline constexpr std::array kSplits = {Split::train, Split::valid, Split::test};
std::string_view toString(Split split);

struct SequenceRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const SequenceRange &) const = default;
};

// "969,30,1": the fractions of the three splits, [begin, end) of 1. None: there is no such split.
struct SplitFractions {
  struct Part {
    double begin = 0, end = 0;
  };
  std::array<std::optional<Part>, 3> parts;
  // The split's part of so many sequences: may be empty.
  std::optional<SequenceRange> of(Split split, int64_t sequences) const;
};
Result<SplitFractions> parseSplit(const std::string &text);

// Weighted prefixes of files.
struct BlendWords {
  std::vector<std::string> prefixes;
  std::vector<double> weights; // empty: none were given
};
// "PREFIX .." or "WEIGHT PREFIX ..".
Result<BlendWords> parseBlend(std::string_view flag, const std::vector<std::string> &words);

// Weights over their sum, to the last bit of NumPy.
std::vector<double> normalized(std::span<const double> weights);

} // namespace mgc
