// A NumPy .npy file with a 1-D or 2-D array of integers -> a mapped tensor.
#pragma once

#include "runtime/base/File.h"
#include "runtime/io/Tensor.h"

namespace mgc {

// Versions 1.0, 2.0 and 3.0, C order, little-endian integers. Anything else is an error that says how to save it.
class Npy {
public:
  static Result<Npy> open(const std::string &path);
  const std::string &path() const { return file_.path(); }
  const TensorView &tensor() const { return tensor_; }
  const MappedFile &file() const { return file_; }

private:
  explicit Npy(MappedFile file) : file_(std::move(file)) {}
  MappedFile file_;
  TensorView tensor_;
};

} // namespace mgc
