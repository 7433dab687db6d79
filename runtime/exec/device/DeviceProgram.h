// A rank's instructions, ready for a device: library calls with their algorithms chosen, kernels found. Parallel to
// the chunks of a RankRecord.
#pragma once

#include "runtime/exec/Records.h"
#include "runtime/exec/device/DeviceKernels.h"
#include "runtime/exec/device/ProductChoices.h"
#include "runtime/exec/device/StepJoins.h"

#include <deque>

namespace mgc {

// The kind of stream that an instruction runs on. Collectives have streams of their own by their use: those of forward
// and backward, and those that complete gradients and end the step.
enum class StreamKind { compute, gradients, layers, step };
inline constexpr size_t kStreamKinds = 4;

struct DeviceInstruction {
  const plugin::Kernel *kernel = nullptr;           // of a row kernel
  int64_t scalars = 0;                              // that it takes
  const plugin::GemmCall *gemm = nullptr;           // of a product
  const plugin::AttentionCall *attention = nullptr; // of attention
  StreamKind side = StreamKind::compute;            // of a collective: the stream beside that of its run
  int64_t collective = -1;                          // which of the chunk's collectives it is; -1: it is none
};

// How many collectives a step has, and how many have a product beside them: enqueued behind them and before their join.
struct CollectiveCount {
  int64_t all = 0, besideProducts = 0;
};

// The distinct products of a rank, as the library is asked for them.
std::vector<mgc_gemm_facts> productsOf(const RankRecord &record);

class DeviceProgram {
public:
  // `record`, `kernels` and `device` outlive it. `choices`: null where the library chooses.
  static Result<DeviceProgram> make(const plan::Plan &plan, const RankRecord &record,
                                    const DeviceKernels &kernels, const plugin::PluginDevice &device,
                                    const ProductChoices *choices);
  const DeviceInstruction &at(int64_t chunk, int64_t instruction) const {
    return chunks_[chunk][instruction];
  }
  std::span<const Join> joins(int64_t schedule) const { return joins_[schedule]; } // of a run
  int64_t mostCollectives() const;                                                 // of a chunk
  const CollectiveCount &collectives() const { return count_; }

private:
  class Maker;
  std::vector<std::vector<DeviceInstruction>> chunks_;
  std::vector<std::vector<Join>> joins_; // by schedule index
  CollectiveCount count_;
  std::deque<plugin::GemmCall> gemms_; // their addresses stay
  std::deque<plugin::AttentionCall> attentions_;
};

} // namespace mgc
