// See Move.h.
#include "runtime/kernels/Move.h"
#include "runtime/base/Rounding.h"

#include "runtime/kernels/Parallel.h"

#include <algorithm>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace mgc {

namespace {

constexpr int64_t kLine = 64;
constexpr int64_t kLeastBytes = 256 << 10; // a smaller part takes no longer than waking a thread
// Bytes of a whole move, from which on no cache holds it until it is used.
constexpr int64_t kStreamedBytes = 16 << 20;

// body(begin, end) for parts of [0, bytes), which begin at whole lines of it.
template <typename Body> void forParts(int threads, int64_t bytes, const Body &body) {
  const int64_t lines = divideUp(bytes, kLine);
  const int64_t parts = std::clamp<int64_t>(bytes / kLeastBytes, 1, threads);
  if (parts == 1)
    return body(0, bytes);
  parallelFor(threads, parts, parts, [&](int64_t part, int64_t) {
    body(lines * part / parts * kLine, std::min(lines * (part + 1) / parts * kLine, bytes));
  });
}

#if defined(__SSE2__)
// Bytes before the first whole line of `to`, and those of whole lines.
struct Lines {
  Lines(const std::byte *to, int64_t bytes)
      : before(std::min(-reinterpret_cast<intptr_t>(to) & (kLine - 1), bytes)),
        inside((bytes - before) / kLine * kLine) {}
  int64_t before, inside;
};

// Streaming stores are ordered by a fence alone: others may read what was written as soon as a move is done.
void zeroStreamed(std::byte *to, int64_t bytes) {
  const Lines lines(to, bytes);
  std::memset(to, 0, lines.before);
  auto *line = reinterpret_cast<__m128i *>(to + lines.before);
  for (int64_t i = 0; i < lines.inside / 16; ++i)
    _mm_stream_si128(line + i, _mm_setzero_si128());
  _mm_sfence();
  const int64_t done = lines.before + lines.inside;
  std::memset(to + done, 0, bytes - done);
}

void copyStreamed(std::byte *to, const std::byte *from, int64_t bytes) {
  const Lines lines(to, bytes);
  std::memcpy(to, from, lines.before);
  auto *line = reinterpret_cast<__m128i *>(to + lines.before);
  const auto *source = reinterpret_cast<const __m128i *>(from + lines.before);
  for (int64_t i = 0; i < lines.inside / 16; ++i)
    _mm_stream_si128(line + i, _mm_loadu_si128(source + i));
  _mm_sfence();
  const int64_t done = lines.before + lines.inside;
  std::memcpy(to + done, from + done, bytes - done);
}
#else
void zeroStreamed(std::byte *to, int64_t bytes) { std::memset(to, 0, bytes); }
void copyStreamed(std::byte *to, const std::byte *from, int64_t bytes) { std::memcpy(to, from, bytes); }
#endif

} // namespace

void fillZero(int threads, std::byte *to, int64_t bytes) {
  forParts(threads, bytes, [&](int64_t begin, int64_t end) {
    if (bytes >= kStreamedBytes)
      zeroStreamed(to + begin, end - begin);
    else
      std::memset(to + begin, 0, end - begin);
  });
}

void copyRows(int threads, std::byte *to, const std::byte *from, const RowCopy &copy) {
  const int64_t bytes = copy.rows * copy.rowBytes;
  const int64_t toPitch = copy.toPitchBytes ? copy.toPitchBytes : copy.rowBytes;
  forParts(threads, bytes, [&](int64_t begin, int64_t end) {
    for (int64_t next; begin < end; begin = next) {
      const int64_t row = begin / copy.rowBytes, inRow = begin % copy.rowBytes;
      next = std::min(begin + copy.rowBytes - inRow, end);
      const std::byte *source = from + row * copy.pitchBytes + inRow;
      std::byte *target = to + row * toPitch + inRow;
      if (bytes >= kStreamedBytes && copy.rowBytes >= kLeastBytes)
        copyStreamed(target, source, next - begin);
      else
        std::memcpy(target, source, next - begin);
    }
  });
}

} // namespace mgc
