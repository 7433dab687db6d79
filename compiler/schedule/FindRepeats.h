// Repeats in a list of items, found by comparison.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mgc::schedule {

// Items begin .. begin + length - 1 run count times.
struct RepeatedPart {
  size_t begin = 0, length = 1;
  int64_t count = 1;
};

// `continues(from, to, length)`: item `to` is item `from`, (to - from) / length iterations of a part of `length` items later.
// From the front on, each part is the one that saves most items; of equal ones the shortest.
template <typename Continues> std::vector<RepeatedPart> findRepeatedParts(size_t items, const Continues &continues) {
  const auto countAt = [&](size_t begin, size_t length) {
    int64_t count = 1;
    for (size_t next = begin + length; next + length <= items; next += length, ++count)
      for (size_t i = 0; i < length; ++i)
        if (!continues(begin + i, next + i, length))
          return count;
    return count;
  };
  std::vector<RepeatedPart> parts;
  for (size_t begin = 0; begin < items; begin += parts.back().length * size_t(parts.back().count)) {
    RepeatedPart best{begin, 1, 1};
    for (size_t length = 1; begin + 2 * length <= items; ++length)
      if (const int64_t count = countAt(begin, length);
          length * size_t(count - 1) > best.length * size_t(best.count - 1))
        best = {begin, length, count};
    parts.push_back(best);
  }
  return parts;
}

} // namespace mgc::schedule
