#include "runtime/exec/DeviceRates.h"

#include "plan/targets/CudaGemm.h"
#include "runtime/device/CallFacts.h"
#include "runtime/exec/RandomOperands.h"

#include <algorithm>

namespace mgc {

namespace {

constexpr double kLongEnough = 5; // ms
constexpr int kTimedRounds = 3;
constexpr int64_t kFirstSide = 256, kLastSide = 8192;                   // sides of the matrix products
constexpr int64_t kFirstBytes = 1 << 20, kLastBytes = int64_t(1) << 30; // sizes of the copies

class DeviceMeter {
public:
  static Result<DeviceMeter> make(const plugin::PluginDevice &device) {
    MGC_ASSIGN(stream, device.makeStream());
    MGC_ASSIGN(begin, device.makeEvent(true));
    MGC_ASSIGN(end, device.makeEvent(true));
    return DeviceMeter(device, std::move(stream), std::move(begin), std::move(end));
  }
  Result<MachineRates> measure(plan::DType type);

private:
  DeviceMeter(const plugin::PluginDevice &device, plugin::Stream stream, plugin::Event begin, plugin::Event end)
      : device_(&device), stream_(std::move(stream)), begin_(std::move(begin)), end_(std::move(end)) {}
  // The least milliseconds of a few rounds.
  Result<double> time(const std::function<Status()> &work) const;
  Result<double> timeProduct(int64_t side, plan::DType type) const;
  Result<double> timeCopy(int64_t bytes) const;

  const plugin::PluginDevice *device_;
  plugin::Stream stream_;
  plugin::Event begin_, end_;
};

Result<double> DeviceMeter::time(const std::function<Status()> &work) const {
  double best = 0;
  for (int round = 0; round <= kTimedRounds; ++round) {
    MGC_TRY(stream_.record(begin_));
    MGC_TRY(work());
    MGC_TRY(stream_.record(end_));
    MGC_TRY(stream_.synchronize());
    MGC_ASSIGN(milliseconds, plugin::milliseconds(begin_, end_));
    if (round > 0) // the first one warms up
      best = round == 1 ? milliseconds : std::min(best, milliseconds);
  }
  return best;
}

Result<double> DeviceMeter::timeProduct(int64_t side, plan::DType type) const {
  const int64_t bytes = side * side * plan::sizeInBytes(type);
  MGC_ASSIGN(matrices, device_->allocate(3 * bytes + kCudaGemmWorkspaceBytes));
  MGC_TRY(fillWithNumbers(*device_, stream_, matrices.address(), 3 * bytes));
  mgc_gemm_facts facts{};
  facts.m = facts.n = facts.k = side;
  facts.input = facts.output = deviceType(type);
  facts.workspace_bytes = kCudaGemmWorkspaceBytes;
  facts.alignment = plan::kAlignment;
  MGC_ASSIGN(gemm, device_->makeGemm(facts));
  const mgc_address a = matrices.address(), b = a + static_cast<uint64_t>(bytes), c = b + static_cast<uint64_t>(bytes),
                    workspace = c + static_cast<uint64_t>(bytes);
  return time([&] { return stream_.gemm(gemm, {.a = a, .b = b, .bias = 0, .c = c, .workspace = workspace}); });
}

Result<double> DeviceMeter::timeCopy(int64_t bytes) const {
  MGC_ASSIGN(memory, device_->allocate(2 * bytes));
  return time([&] { return stream_.copy(memory.address(), memory.address() + static_cast<uint64_t>(bytes), bytes); });
}

Result<MachineRates> DeviceMeter::measure(plan::DType type) {
  MachineRates rates;
  double milliseconds = 0;
  for (int64_t side = kFirstSide; side <= kLastSide && milliseconds < kLongEnough; side *= 2) {
    Result<double> taken = timeProduct(side, type);
    if (!taken.isOk() && rates.flops > 0)
      break;
    MGC_TRY(taken.status());
    milliseconds = *taken;
    rates.flops = std::max(rates.flops, 2e3 * double(side * side * side) / milliseconds);
  }
  milliseconds = 0;
  for (int64_t bytes = kFirstBytes; bytes <= kLastBytes && milliseconds < kLongEnough; bytes *= 2) {
    Result<double> taken = timeCopy(bytes);
    if (!taken.isOk() && rates.bytes > 0)
      break;
    MGC_TRY(taken.status());
    milliseconds = *taken;
    rates.bytes = std::max(rates.bytes, 2e3 * double(bytes) / milliseconds); // read and written
  }
  if (type == plan::DType::bf16)
    rates.bf16Flops = rates.flops; // attention too computes in it here
  return rates;
}

} // namespace

Result<MachineRates> measureDeviceRates(const plugin::PluginDevice &device, plan::DType type) {
  MGC_ASSIGN(meter, DeviceMeter::make(device));
  return meter.measure(type).at("measuring what the device can do");
}

} // namespace mgc
