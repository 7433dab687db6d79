#include "test/emulate/cuda/nccl/Reduce.h"

#include "test/emulate/cuda/ptx/Numbers.h"

#include <algorithm>
#include <nccl.h>
#include <type_traits>

namespace mgc::emulate {
namespace {

using ptx::BFloat;

template <typename T> using Sum = std::conditional_t<std::is_same_v<T, BFloat>, float, T>;

template <typename T, typename Join>
std::vector<char> join(const std::vector<const std::vector<char> *> &parts, Join join) {
  std::vector<char> result(parts[0]->size());
  auto *to = reinterpret_cast<T *>(result.data());
  for (size_t i = 0; i < result.size() / sizeof(T); ++i) {
    auto sum = static_cast<Sum<T>>(reinterpret_cast<const T *>(parts[0]->data())[i]);
    for (size_t part = 1; part < parts.size(); ++part)
      sum = join(sum, static_cast<Sum<T>>(reinterpret_cast<const T *>(parts[part]->data())[i]));
    to[i] = static_cast<T>(sum);
  }
  return result;
}

template <typename T> std::vector<char> reduce(uint32_t op, const std::vector<const std::vector<char> *> &parts) {
  using S = Sum<T>;
  switch (op) {
  case ncclMax:
    return join<T>(parts, [](S a, S b) { return std::max(a, b); });
  case ncclMin:
    return join<T>(parts, [](S a, S b) { return std::min(a, b); });
  default:
    return join<T>(parts, [](S a, S b) { return static_cast<S>(a + b); });
  }
}

} // namespace

bool canReduce(uint32_t type, uint32_t op) {
  const bool isType = type == ncclFloat32 || type == ncclBfloat16 || type == ncclInt32 || type == ncclInt64;
  return isType && (op == ncclSum || op == ncclMax || op == ncclMin);
}

std::vector<char> reduced(uint32_t type, uint32_t op, const std::vector<const std::vector<char> *> &parts) {
  switch (type) {
  case ncclFloat32:
    return reduce<float>(op, parts);
  case ncclBfloat16:
    return reduce<BFloat>(op, parts);
  case ncclInt32:
    return reduce<int32_t>(op, parts);
  default:
    return reduce<int64_t>(op, parts);
  }
}

} // namespace mgc::emulate
