// What a rank executes, made ready for a device: library calls with their algorithms chosen, kernels found. Parallel to
// the chunks of a RankRecord.
#pragma once

#include "runtime/exec/Records.h"
#include "runtime/exec/device/DeviceKernels.h"
#include "runtime/exec/device/ProductChoices.h"

#include <deque>

namespace mgc {

// Beside the compute stream. Collectives that cross data ranks have a stream of their own.
enum class SideStream { tensor, data };

struct DeviceInstruction {
  const plugin::Kernel *kernel = nullptr;           // of a row kernel
  int64_t scalars = 0;                              // that it takes
  const plugin::GemmCall *gemm = nullptr;           // of a product
  const plugin::AttentionCall *attention = nullptr; // of attention
  SideStream side = SideStream::tensor;             // of a collective
};

// The distinct products of a rank, as the library is asked for them.
std::vector<mgc_gemm_facts> productsOf(const RankRecord &record);

class DeviceProgram {
public:
  // `record`, `kernels` and `device` outlive it. `choices`: null where the library chooses.
  static Result<DeviceProgram> make(const plan::Plan &plan, const RankRecord &record,
                                    const DeviceKernels &kernels, const plugin::Device &device,
                                    const ProductChoices *choices);
  const DeviceInstruction &at(int64_t chunk, int64_t instruction) const {
    return chunks_[chunk][instruction];
  }

private:
  class Maker;
  std::vector<std::vector<DeviceInstruction>> chunks_;
  std::deque<plugin::GemmCall> gemms_; // their addresses stay
  std::deque<plugin::AttentionCall> attentions_;
};

} // namespace mgc
