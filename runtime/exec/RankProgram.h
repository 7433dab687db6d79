// A rank's instructions, ready for its device: library calls with their algorithms chosen, kernels found. Parallel to
// the chunks of a RankRecord.
#pragma once

#include "runtime/exec/StepJoins.h"
#include "runtime/exec/instructions/Execution.h"

#include <map>
#include <memory>

namespace mgc {

// The kind of stream that an instruction runs on. Collectives may have streams of their own by their use: those of forward
// and backward, those that gather or sum up units (plan::isOfUnit), and those that complete gradients and end the step.
// Copies between host and device have one for each direction.
enum class StreamKind { compute, gradients, layers, units, step, copiesIn, copiesOut };
inline constexpr size_t kStreamKinds = 7;

struct PreparedInstruction {
  PreparedCall call;
  StreamKind side = StreamKind::compute; // for a collective or a copy in parallel with its run: its stream
  // Number among the chunk's works in parallel with their run; -1: it is in its run's stream.
  int64_t concurrent = -1;
  int64_t countsOf = -1; // for an exchange of rows: SharedCounts.h
};

// The collectives that have a stream parallel to that of their run. A stream of a device costs nothing; a thread of the
// host is woken for each, so only collectives with a matrix product to overlap go there.
enum class Concurrency { none, products, all };

// The instructions [begin, end) of one run of a pair, in the order of plan/PairTurns.h.
struct PairTurn {
  bool isSecond = false;
  int64_t begin = 0, end = 0;
};

// How many collectives a step has, and how many overlap a matrix product: one enqueued after them and before their
// join.
struct CollectiveCount {
  int64_t all = 0, overlapped = 0;
};

// The distinct matrix products of a rank, as the library is asked for them.
std::vector<mgc_gemm_facts> productsOf(const RankRecord &record);

class RankProgram {
public:
  // `record`, `kernels` and `device` outlive it. `choices`: null where the library chooses.
  static Result<RankProgram> make(const plan::Plan &plan, const RankRecord &record, const RowKernels &kernels,
                                  const plugin::PluginDevice &device, const ProductChoices *choices,
                                  Concurrency concurrency);
  const PreparedInstruction &at(int64_t chunk, int64_t instruction) const { return chunks_[chunk][instruction]; }
  // The joins of a run.
  std::span<const plan::Join> joins(int64_t schedule) const { return joins_.runs[joins_.ofStep[schedule]].joins; }
  // The turns of the pair whose first run this is.
  std::span<const PairTurn> turns(int64_t schedule) const {
    return turns_.at({joins_.ofStep[schedule], joins_.ofStep[schedule + 1]});
  }
  int64_t mostConcurrent() const;                // collectives and copies of a chunk
  int64_t mostConcurrent(StreamKind kind) const; // on streams of the kind
  const CollectiveCount &collectives() const { return count_; }

private:
  class Maker;
  std::vector<std::vector<PreparedInstruction>> chunks_;
  StepJoins joins_;
  std::map<std::pair<size_t, size_t>, std::vector<PairTurn>> turns_; // by the runs of a pair, as StepJoins has them
  CollectiveCount count_;
  std::unique_ptr<LibraryCalls> calls_ = std::make_unique<LibraryCalls>();
};

} // namespace mgc
