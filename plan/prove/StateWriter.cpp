// See StateWriter.h.
#include "plan/prove/StateWriter.h"

#include "runtime/base/Rounding.h"

#include <algorithm>

namespace mgc::plan {

static constexpr int64_t kNone = INT64_MIN,
                         kAlways = INT64_MAX; // no such step; one that all know to be complete

void StateWriter::know(const Completed &known) {
  leastCompute_ = std::min(leastCompute_, known.lastCompute());
  leastGradients_ = std::min(leastGradients_, known.lastGradients());
}

void StateWriter::add(const Completed &known) {
  add(relative(known.lastCompute()));
  add(relative(known.lastGradients()));
  add(static_cast<int64_t>(known.messages().size()));
  for (int64_t message : known.messages())
    add(relative(message));
}

void StateWriter::addPieces(const ByteMap<Piece> &pieces, ByteInterval range) {
  std::vector<int64_t> last;
  pieces.peek(range, [&](ByteInterval part, const Piece &piece) {
    std::vector<int64_t> numbers = numbersOf(piece);
    if (numbers == last)
      return;
    add(std::max(part.begin, range.begin) - range.begin);
    numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
    last = std::move(numbers);
  });
}

void StateWriter::addRings(const RingMemory &memory) {
  for (const RingGroup &group : memory.groups()) {
    add(floorRemainder(base_, group.turns ? group.period : memory.period()));
    if (!group.turns)
      addPieces(group.pieces, {0, group.pieces.bytes()});
    for (const Cycle &cycle : group.turns ? group.cycles : std::vector<Cycle>())
      for (int64_t i = 0; i < cycle.slots; ++i) {
        const int64_t slot = floorRemainder(floorDivide(base_, group.period) + i, cycle.slots),
                      begin = (cycle.first + slot) * group.stride;
        addPieces(group.pieces, {begin, std::min(begin + group.stride, group.pieces.bytes())});
      }
  }
}

std::vector<int64_t> StateWriter::numbersOf(const Piece &piece) const {
  std::vector<int64_t> numbers = {piece.content.ring,
                                  piece.content.ring < 0 ? kNone : piece.content.microbatch - base_,
                                  static_cast<int64_t>(piece.writer.stream),
                                  stepOf(piece.writer),
                                  stepOf({piece.computeReader, StepStream::compute}),
                                  stepOf({piece.gradientsReader, StepStream::gradients})};
  for (int64_t reader : piece.messageReaders)
    numbers.push_back(relative(reader));
  return numbers;
}

int64_t StateWriter::relative(int64_t step) const { return step < 0 ? kNone : step - now_; }

int64_t StateWriter::stepOf(StepId id) const {
  const int64_t least = id.stream == StepStream::compute     ? leastCompute_
                        : id.stream == StepStream::gradients ? leastGradients_
                                                             : -1;
  return id.step >= 0 && id.step <= least ? kAlways : relative(id.step);
}

} // namespace mgc::plan
