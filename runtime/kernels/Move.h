// Fills and copies of a rank's memory, in parts on several threads. Writes of more than the caches hold bypass
// them: a store into a cache would read the line first, and evict what is of use.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mgc {

void fillZero(int threads, std::byte *to, int64_t bytes);

// `rows` runs of `rowBytes`, from one begin to the next `pitchBytes` in `from` and `toPitchBytes` in `to`; 0: dense there.
struct RowCopy {
  int64_t rows, rowBytes, pitchBytes, toPitchBytes = 0;
};
void copyRows(int threads, std::byte *to, const std::byte *from, const RowCopy &copy);

} // namespace mgc
