// Fills and copies of a rank's memory, in parts on several threads. Writes of more than the caches hold bypass
// them: a store into a cache would read the line first, and evict what is of use.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mgc {

void fillZero(int threads, std::byte *to, int64_t bytes);

// `rows` runs of `rowBytes`, `pitchBytes` apart in `from`, dense in `to`.
struct RowCopy {
  int64_t rows, rowBytes, pitchBytes;
};
void copyRows(int threads, std::byte *to, const std::byte *from, const RowCopy &copy);

} // namespace mgc
