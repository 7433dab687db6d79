// A test of the plugin on a device: the first GPU that the driver sees, real or a stand-in (test/emulate/cuda). Main.cpp opens it.
#pragma once

#include "runtime/device/Plugin.h"

#include <bit>
#include <cstring>
#include <gtest/gtest.h>

namespace mgc::test {

// The error's message where there is one: EXPECT_EQ(errorOf(..), "").
inline std::string errorOf(const Status &status) { return status.isOk() ? "" : status.message(); }
template <typename T> std::string errorOf(const Result<T> &result) { return errorOf(result.status()); }

template <typename T> T must(Result<T> result) {
  EXPECT_EQ(errorOf(result), "");
  if (!result.isOk())
    throw std::runtime_error(result.status().message());
  return result.take();
}

// Upper half of the f32, to nearest even; of numbers only.
inline uint16_t bf16Of(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return uint16_t((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
inline float floatOf(uint16_t value) { return std::bit_cast<float>(uint32_t(value) << 16); }

const plugin::Plugin &cuda();
const plugin::PluginDevice &device();

class CudaTest : public testing::Test {
protected:
  // Through pinned memory, and waited for.
  template <typename T> void upload(mgc_address to, const std::vector<T> &values) {
    const auto bytes = int64_t(values.size() * sizeof(T));
    const auto pinned = must(device().allocateHost(bytes));
    std::memcpy(pinned.data(), values.data(), bytes);
    ASSERT_EQ(errorOf(stream.copyIn(to, pinned.data(), bytes)), "");
    ASSERT_EQ(errorOf(stream.synchronize()), "");
  }
  template <typename T> plugin::DeviceBuffer uploaded(const std::vector<T> &values) {
    auto buffer = must(device().allocate(int64_t(values.size() * sizeof(T))));
    upload(buffer.address(), values);
    return buffer;
  }
  template <typename T> std::vector<T> download(mgc_address from, int64_t count) {
    const int64_t bytes = count * int64_t(sizeof(T));
    const auto pinned = must(device().allocateHost(bytes));
    EXPECT_EQ(errorOf(stream.copyOut(pinned.data(), from, bytes)), "");
    EXPECT_EQ(errorOf(stream.synchronize()), "");
    std::vector<T> values(count);
    std::memcpy(values.data(), pinned.data(), bytes);
    return values;
  }

  plugin::Stream stream = must(device().makeStream());
};

// The kernels of TestKernels.ptx.
plugin::Module testModule();

} // namespace mgc::test
