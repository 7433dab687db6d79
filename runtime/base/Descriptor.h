// An open file, socket or pipe.
#pragma once

#include <cerrno>
#include <sys/file.h>
#include <unistd.h>
#include <utility>

namespace mgc {

// Closed with the object.
class Descriptor {
public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor &&other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0)
      ::close(number_);
  }
  int number() const { return number_; }
  bool isOpen() const { return number_ >= 0; }
  int release() { return std::exchange(number_, -1); }
  void close() { *this = Descriptor(); }
  // flock(2) for this one alone, as long as it is open. False: somebody else holds it. True too where the file has no locks.
  bool lock() const { return ::flock(number_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; }

private:
  int number_ = -1;
};

} // namespace mgc
