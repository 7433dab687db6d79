// combine: the sum or maximum of sources on one device, by the kernels of combine.cu.
#include "runtime/device/cuda/Combine.h"
#include "runtime/base/Rounding.h"
#include "runtime/device/cuda/Internal.h"

#include <algorithm>

namespace mgc::cuda {

extern const OwnModule combineModule;

namespace {

constexpr int64_t kThreads = 256;
constexpr int64_t kPackBytes = 16;
constexpr int64_t kBlocksPerProcessor = 8;

const char *nameOf(mgc_type type) { return type == MGC_BF16 ? "bf16" : type == MGC_I32 ? "i32" : "f32"; }

// By reduction, type and whether addresses allow 16 bytes at once.
constexpr size_t indexOf(int reduce, int type, bool isPacked) { return size_t(reduce * 6 + type * 2 + isPacked); }
constexpr size_t kKernels = 12;

std::string symbolOf(mgc_reduce reduce, mgc_type type, bool isPacked) {
  return fmt::format("{}_{}{}", reduce == MGC_MAX ? "max" : "sum", nameOf(type), isPacked ? "_packed" : "");
}

bool arePacked(mgc_address to, const mgc_address *sources, int64_t count, int64_t bytes) {
  mgc_address all = to | mgc_address(bytes);
  for (int64_t i = 0; i < count; ++i)
    all |= sources[i];
  return all % kPackBytes == 0;
}

} // namespace

// At once when the device opens: loading is no part of a graph.
Status prepareCombine(mgc_device &device) {
  device.combineKernels.resize(kKernels);
  for (const mgc_reduce reduce : {MGC_SUM, MGC_MAX})
    for (const mgc_type type : {MGC_F32, MGC_BF16, MGC_I32})
      for (const bool isPacked : {false, true}) {
        MGC_ASSIGN(kernel, ownKernel(device, combineModule, symbolOf(reduce, type, isPacked).c_str()));
        device.combineKernels[indexOf(reduce, type, isPacked)] = kernel;
      }
  return Status::ok();
}

Status combine(mgc_stream *stream, mgc_reduce reduce, mgc_type type, mgc_address to, const mgc_address *sources,
               int64_t count, int64_t elements) {
  mgc_device &device = *stream->device;
  MGC_TRY(device.enter());
  if (count < 1 || count > kMostSources)
    return errorf("{}: combine of {} sources; possible are 1 to {}", device.name, count, kMostSources);
  if (elements == 0)
    return Status::ok();
  const bool isPacked = arePacked(to, sources, count, elements * bytesOf(type));
  const long long packs = isPacked ? elements * bytesOf(type) / kPackBytes : elements;
  CombineSources given = {};
  std::copy_n(sources, count, given.address);
  const int64_t blocks = std::min<int64_t>(divideUp(packs, kThreads), device.multiprocessors * kBlocksPerProcessor);
  return launchOwn(*stream, device.combineKernels[indexOf(reduce, type, isPacked)],
                   {.blocks = {uint32_t(blocks), 1, 1}, .threads = {kThreads, 1, 1}}, "combine", to, given,
                   static_cast<long long>(count), packs);
}

} // namespace mgc::cuda
