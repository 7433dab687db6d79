// Files of tensors that tests write, and the numbers of tensors that they read.
#pragma once

#include "runtime/io/Safetensors.h"
#include "test/runtime/TempDir.h"

namespace mgc::test {

template <typename T> constexpr ElementType kElementTypeOf = ElementType::I64;
template <> inline constexpr ElementType kElementTypeOf<float> = ElementType::F32;
template <> inline constexpr ElementType kElementTypeOf<int32_t> = ElementType::I32;

class TensorWriter {
public:
  template <typename T>
  TensorWriter &add(const std::string &name, const std::vector<int64_t> &shape, const std::vector<T> &values,
                    ElementType type = kElementTypeOf<T>) {
    specs_.push_back({name, type, shape});
    const auto bytes = std::as_bytes(std::span(values));
    data_.insert(data_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  // Returns the path.
  std::string write(const std::string &path) const {
    Result<SafetensorsWriter> writer = SafetensorsWriter::create(path, specs_);
    EXPECT_TRUE(isOk(writer));
    if (writer.isOk()) {
      EXPECT_TRUE(isOk(writer->write(data_)));
      EXPECT_TRUE(isOk(writer->commit()));
    }
    return path;
  }

private:
  std::vector<TensorSpec> specs_;
  std::vector<std::byte> data_;
};

inline std::vector<float> floatsOf(const TensorView &tensor) {
  std::vector<float> values(size_t(tensor.elements()));
  convertToF32(tensor, 0, tensor.elements(), values.data());
  return values;
}

} // namespace mgc::test
