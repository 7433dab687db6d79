// A flat buffer of a bucket in the memory of the ranks, read and written as f32, whatever its type and wherever its
// slices lie.
#pragma once

#include "runtime/checkpoint/ParameterShard.h"
#include "runtime/checkpoint/RankMemory.h"

#include <functional>
#include <span>

namespace mgc {

inline constexpr int64_t kStaged = 4096; // elements that are converted, or looked at, at once, on the stack

// Elements [begin, begin + count) of a bucket.
struct BucketRange {
  int64_t begin = 0, count = 0;
};

// Chooses a state of a bucket, which has it.
using StateOf = std::function<const plan::State &(const plan::Bucket &)>;
const plan::State &valuesOf(const plan::Bucket &bucket);
const plan::State &weightsOf(const plan::Bucket &bucket);   // masters, or values where there are none
const plan::State &gradientsOf(const plan::Bucket &bucket); // after the chunk "reduce"
StateOf stateNamed(const std::string &name);

// A state of a bucket: that of one rank, or the slices of all ranks that share it.
class BucketBuffer {
public:
  // The bucket is one of the rank's stage.
  BucketBuffer(const plan::Plan &plan, const plan::Bucket &bucket, int64_t rank, const StateOf &state, Arenas arenas);
  // The bucket is that in which the holder has the parameter.
  BucketBuffer(const plan::Plan &plan, const plan::Parameter &parameter, const Holder &holder, const StateOf &state,
               Arenas arenas);

  // From whichever ranks have them; they are here.
  void read(BucketRange range, float *out) const;
  // The same of ranks that may be other processes, all of which call it. `out` is the writer's.
  Status fetch(BucketRange range, RankMemory &memory, std::vector<std::byte> &scratch, float *out) const;
  // The part of a range in one unit that the rank itself has, which may be empty.
  BucketRange ownPart(BucketRange range) const;
  // Rounds to the buffer's type; of other ranks' slices nothing is written.
  void write(BucketRange range, const float *from) const;

  // Where the rank's own element lies.
  std::byte *data(int64_t element) const { return at(slices_[mine_], at(element).inside); }
  // How many elements from this one on lie side by side.
  int64_t runFrom(int64_t element) const { return at(element).left; }
  plan::DType type() const { return type_; }
  int64_t elementBytes() const { return elementBytes_; }
  std::span<const int64_t> ranks() const { return ranks_; } // ranks that have the buffer, or slices of it
  bool isSliced() const { return slices_.size() > 1; }

private:
  plan::DType type_;
  // Where an element lies.
  struct At {
    int64_t owner, inside, left; // index in slices_, element in the slice, elements from it on that lie side by side
  };
  At at(int64_t element) const;
  // Where an element of a slice lies, in the memory of its rank; null where that is not here. Elements up to onHost_ are apart from
  // the others.
  std::byte *at(std::byte *arena, int64_t inside) const {
    return !arena             ? nullptr
           : inside < onHost_ ? arena + hostOffset_ + inside * elementBytes_
                              : arena + offset_ + (inside - onHost_) * elementBytes_;
  }
  int64_t elementBytes_;
  int64_t offset_, onHost_, hostOffset_; // as plan::State
  int64_t unit_, slice_;                 // elements of a unit, and of a rank's slice of one
  int64_t mine_ = 0;                     // index in slices_
  std::vector<int64_t> ranks_;           // ranks that have slices
  std::vector<std::byte *> slices_;      // the memory of each of these ranks
};

} // namespace mgc
