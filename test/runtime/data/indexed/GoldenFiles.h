// Results of Megatron-LM on small files: test/golden/{indexed,gpt,sampler}, see the README of each.
#pragma once

#include "runtime/base/Json.h"
#include "runtime/data/indexed/SplitBounds.h"
#include "test/Places.h"
#include "test/runtime/TensorFiles.h"

namespace mgc::test {

inline const std::string kGolden = testFile("golden/");

inline nlohmann::json goldenJson(const std::string &name) {
  std::ifstream file(kGolden + name);
  EXPECT_TRUE(file.good()) << name;
  return nlohmann::json::parse(file);
}

inline Safetensors goldenTensors(const std::string &name) {
  Result<Safetensors> file = Safetensors::open(kGolden + name);
  EXPECT_TRUE(isOk(file)) << name;
  return file.take();
}

inline std::vector<int64_t> integersOf(const TensorView &tensor) {
  std::vector<int64_t> values(static_cast<size_t>(tensor.elements()));
  convertToI64(tensor, 0, tensor.elements(), values.data());
  return values;
}
inline std::vector<int64_t> integersOf(const Safetensors &file, const std::string &name) {
  const TensorView *tensor = file.find(name);
  EXPECT_NE(tensor, nullptr) << name;
  return tensor ? integersOf(*tensor) : std::vector<int64_t>();
}

// Words of --data-path: the files among them are golden ones.
inline std::vector<std::string> inGolden(std::vector<std::string> words) {
  for (std::string &word : words)
    if (word.find('/') != std::string::npos)
      word = kGolden + word;
  return words;
}

template <typename Array> std::vector<int64_t> asIntegers(const Array &array) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < static_cast<int64_t>(array.size()); ++i)
    values.push_back(static_cast<int64_t>(array[i]));
  return values;
}

} // namespace mgc::test
