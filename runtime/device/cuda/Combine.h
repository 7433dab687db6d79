// The argument that the host passes to the kernels of combine.cu.
#pragma once

namespace mgc::cuda {

constexpr int kMostSources = 256;

struct CombineSources {
  unsigned long long address[kMostSources];
};

} // namespace mgc::cuda
