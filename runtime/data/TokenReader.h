// Integers of a data file, read piece by piece and checked: tokens, labels, types of tokens.
#pragma once

#include "runtime/base/File.h"
#include "runtime/io/Tensor.h"

#include <functional>
#include <memory>
#include <string>

namespace mgc {

// Where the elements of a tensor lie in a file. Training reads them as it goes: a mapping would end the process
// when somebody truncates the file.
struct TensorFile {
  std::shared_ptr<const FileReader> file;
  int64_t offset = 0; // bytes
  ElementType type{};
  int64_t elements = 0;

  // `tensor` lies in `mapped`.
  static Result<TensorFile> open(const MappedFile &mapped, const TensorView &tensor);
  // At most kPiece elements.
  static constexpr int64_t kPiece = 2048;
  Status read(int64_t begin, int64_t count, int64_t *out) const;
  // Any number of elements.
  Status readAll(int64_t begin, int64_t count, int64_t *out) const;
  // For a tensor of floats.
  Status readFloats(int64_t begin, int64_t count, float *out) const;
};

// A file's beginning is checked before training, so that what is wrong does not show in step 5000; of a large file so many
// elements. Batches check the rest as they come.
inline constexpr int64_t kScannedElements = int64_t(1) << 28;

// The values that are allowed, 0 to below - 1.
struct ValueRange {
  int64_t below = 0;
  bool mayBeIgnored = false; // kIgnoredLabel is allowed too
  std::string reason;        // for messages: "the model's vocabulary has 100 tokens"

  static ValueRange tokens(int64_t vocabulary);
  static ValueRange labels(int64_t vocabulary);
  static ValueRange types(int64_t tokenTypes);
  bool has(int64_t value) const;
  std::string describe() const; // "-100 (ignored) or 0 to 99: the model's vocabulary has 100 tokens"
};

// Reads elements of a tensor in pieces and checks each.
class TokenReader {
public:
  TokenReader(std::string name, TensorFile tensor, ValueRange range)
      : name_(std::move(name)), tensor_(std::move(tensor)), range_(std::move(range)) {}

  int64_t size() const { return tensor_.elements; }
  const std::string &name() const { return name_; }

  // A function that is called with each value of a scan, besides the check that the value is allowed.
  using Visit = std::function<Status(int64_t position, int64_t value)>;

  // `out` null: the values are only checked.
  Status read(int64_t begin, int64_t count, int32_t *out, const Visit &visit = nullptr) const;
  Status scan(const Visit &visit = nullptr) const;

private:
  std::string name_;
  TensorFile tensor_;
  ValueRange range_;
};

} // namespace mgc
