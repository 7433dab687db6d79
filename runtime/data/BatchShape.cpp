#include "runtime/data/BatchShape.h"

#include <algorithm>
#include <cassert>

namespace mgc {

Status beginBatch(int64_t first, const BatchShape &shape, GlobalBatch &out) {
  assert(int64_t(out.tokens.size()) == shape.samples * shape.length && out.labels.size() == out.tokens.size());
  if (int64_t end; first < 0 || __builtin_add_overflow(first, shape.samples, &end))
    return errorf("sample {} does not exist, expected 0 or more and samples numbered within 63 bits", first);
  out.first = first;
  std::ranges::fill(out.types, 0);
  std::ranges::fill(out.encoderEnds, static_cast<int32_t>(shape.encoderEnd));
  std::ranges::fill(out.ends, static_cast<int32_t>(shape.length));
  return Status::ok();
}

std::string listSamples(std::string_view name, int64_t samples, const std::function<std::string(int64_t i)> &describe) {
  constexpr int64_t kNamed = 16; // a line that can be read
  std::string text(name);
  for (int64_t i = 0; i < std::min(samples, kNamed); ++i)
    text += fmt::format("{}{}", i > 0 ? "; " : name.empty() ? "" : ": ", describe(i));
  return samples > kNamed ? fmt::format("{}; and {} more", text, samples - kNamed) : text;
}

} // namespace mgc
