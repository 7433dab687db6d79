// Values that somebody has to end: a file's name, a handle of a library, mapped memory.
#pragma once

#include <cstddef>
#include <memory>
#include <sys/mman.h>
#include <utility>

namespace mgc {

// Ends it with Release, once, unless it is T(), which stands for nothing.
template <typename T, auto Release> class Owned {
public:
  Owned() = default;
  explicit Owned(T value) : value_(std::move(value)) {}
  Owned(Owned &&other) noexcept : value_(other.release()) {}
  Owned &operator=(Owned other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Owned() {
    if (value_ != T())
      Release(value_);
  }
  const T &get() const { return value_; }
  T release() { return std::exchange(value_, T()); }

private:
  T value_ = T();
};

struct Unmap {
  size_t bytes = 0;
  void operator()(const std::byte *data) const { ::munmap(const_cast<std::byte *>(data), bytes); }
};
template <typename Byte> using Mapping = std::unique_ptr<Byte, Unmap>; // Byte: std::byte, perhaps const

} // namespace mgc
