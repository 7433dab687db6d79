// See Documents.h.
#include "runtime/data/Documents.h"

namespace mgc {

void findDocuments(std::span<const int32_t> tokens, int64_t length, int64_t endToken,
                   std::span<int32_t> starts) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto place = static_cast<int32_t>(i % static_cast<size_t>(length));
    const bool begins = place == 0 || tokens[i - 1] == endToken;
    starts[i] = begins ? place : starts[i - 1];
  }
}

static Status isTooLong(int64_t position, int64_t longest) {
  return errorf(
      "position {}: the document has more than {} tokens, for which the model has learned positions; "
      "expected shorter documents",
      position, longest);
}

Status startsOfPositions(std::span<const int64_t> positions, const PositionRule &rule,
                         std::span<int32_t> starts) {
  int32_t start = 0;
  for (size_t i = 0; i < positions.size(); ++i) {
    const int64_t found = positions[i], next = i == 0 ? 0 : positions[i - 1] + 1;
    if (found != next && (found != 0 || i == 0))
      return errorf("position {}: found {}, expected {}{}", i, found, next,
                    i == 0 ? ": a document begins" : ", or 0 where a document begins");
    if (found == 0 && i > 0 && !rule.mayRestart)
      return errorf(
          "position {}: a document begins, but the plan reads a sequence as one document; expected a plan "
          "compiled with --reset-position-ids --reset-attention-mask",
          i);
    if (rule.longest > 0 && found >= rule.longest)
      return isTooLong(static_cast<int64_t>(i), rule.longest);
    start = found == 0 ? static_cast<int32_t>(i) : start;
    starts[i] = start;
  }
  return Status::ok();
}

void maskEnds(std::span<const int32_t> tokens, int64_t length, std::optional<int64_t> endToken,
              std::span<const int32_t> starts, int32_t ignored, std::span<int32_t> labels) {
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto next = static_cast<int32_t>(i % static_cast<size_t>(length)) + 1;
    const bool isLast = next < length && !starts.empty() && starts[i + 1] == next;
    if (isLast || (endToken && tokens[i] == *endToken))
      labels[i] = ignored;
  }
}

Status verifyStarts(std::span<const int32_t> starts, int64_t length, int64_t longest) {
  for (size_t i = 0; i < starts.size(); ++i) {
    const auto place = static_cast<int64_t>(i % static_cast<size_t>(length));
    const bool continues = place > 0 && starts[i] == starts[i - 1];
    const auto where = [&] { return fmt::format("sample {} of the batch", i / static_cast<size_t>(length)); };
    if (starts[i] != place && !continues)
      return errorf("{}, position {}: its document begins at {}", where(), place, starts[i]);
    if (longest > 0 && place - starts[i] >= longest)
      return isTooLong(place, longest).at(where());
  }
  return Status::ok();
}

} // namespace mgc
