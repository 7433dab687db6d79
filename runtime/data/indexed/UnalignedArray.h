// Numbers that lie in the bytes of a file, at any address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace mgc {

template <typename T> class UnalignedArray {
public:
  UnalignedArray() = default;
  // `bytes` live as long as this does.
  UnalignedArray(const std::byte *bytes, int64_t size) : bytes_(bytes), size_(size) {}
  explicit UnalignedArray(std::span<const T> values)
      : UnalignedArray(reinterpret_cast<const std::byte *>(values.data()), std::ssize(values)) {}

  int64_t size() const { return size_; }
  T operator[](int64_t i) const {
    T value;
    std::memcpy(&value, bytes_ + i * int64_t(sizeof(T)), sizeof value);
    return value;
  }

private:
  const std::byte *bytes_ = nullptr;
  int64_t size_ = 0;
};

} // namespace mgc
