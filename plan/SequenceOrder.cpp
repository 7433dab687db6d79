#include "plan/SequenceOrder.h"

namespace mgc::plan {

bool isOrder(int64_t size, int64_t zigzag) {
  return zigzag == 1 || (size % 2 == 0 && size / 2 % zigzag == 0);
}

OrderRun runAt(int64_t index, int64_t size, int64_t zigzag) {
  const int64_t length = zigzag == 1 ? size : size / 2 / zigzag;
  return {positionAt(index, size, zigzag), length - index % length};
}

int64_t positionAt(int64_t index, int64_t size, int64_t zigzag) {
  if (zigzag == 1)
    return index;
  const int64_t chunks = 2 * zigzag, length = size / chunks, place = index / length;
  const int64_t chunk = place % 2 == 0 ? place / 2 : chunks - 1 - place / 2;
  return chunk * length + index % length;
}

} // namespace mgc::plan
