#include "plan/SequenceOrder.h"

#include <algorithm>

namespace mgc::plan {

bool isOrder(int64_t size, int64_t zigzag) { return zigzag == 1 || (size % 2 == 0 && size / 2 % zigzag == 0); }

OrderRun runAt(int64_t index, int64_t size, int64_t zigzag) {
  const int64_t length = zigzag == 1 ? size : size / 2 / zigzag;
  return {positionAt(index, size, zigzag), length - index % length};
}

std::vector<OrderRun> positionsOfPart(int64_t part, int64_t parts, int64_t size, int64_t zigzag) {
  const int64_t begin = part * (size / parts), end = begin + size / parts;
  std::vector<OrderRun> chunks;
  for (int64_t place = begin; place < end; place += chunks.back().count) {
    chunks.push_back(runAt(place, size, zigzag));
    chunks.back().count = std::min(chunks.back().count, end - place);
  }
  std::sort(chunks.begin(), chunks.end(), [](const OrderRun &a, const OrderRun &b) { return a.position < b.position; });
  std::vector<OrderRun> runs;
  for (const OrderRun &chunk : chunks)
    if (!runs.empty() && runs.back().position + runs.back().count == chunk.position)
      runs.back().count += chunk.count;
    else
      runs.push_back(chunk);
  return runs;
}

int64_t positionAt(int64_t index, int64_t size, int64_t zigzag) {
  if (zigzag == 1)
    return index;
  const int64_t chunks = 2 * zigzag, length = size / chunks, place = index / length;
  const int64_t chunk = place % 2 == 0 ? place / 2 : chunks - 1 - place / 2;
  return chunk * length + index % length;
}

} // namespace mgc::plan
