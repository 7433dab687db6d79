// BatchFile: a .safetensors file of whole batches, whose tensors are integers [steps, samples, positions].
#pragma once

#include "runtime/data/BatchShape.h"
#include "runtime/data/Data.h"
#include "runtime/data/TokenReader.h"
#include "runtime/io/Safetensors.h"

#include <initializer_list>
#include <span>
#include <string_view>

namespace mgc {

// Names of its tensors, those of transformers.
inline constexpr const char *kIds = "input_ids", *kLabels = "labels", *kPositions = "position_ids",
                            *kMask = "attention_mask", *kTypes = "token_type_ids", *kDecoderIds = "decoder_input_ids",
                            *kPixels = "pixel_values";

// The number of the file's batch, of `batches`, that begins with the sample `first` of a training, which goes through
// them again and again. An error: none does, as the training had batches of another size before.
Result<int64_t> numberOfBatch(int64_t first, const BatchShape &shape, int64_t batches);

class BatchFile {
public:
  static Result<BatchFile> open(const std::string &path, const BatchShape &shape);
  const std::string &path() const { return path_; }
  bool has(const char *name) const { return file_.find(name) != nullptr; }
  std::string where(const char *name) const { return fmt::format("{}: {}", path_, name); }
  // Refuses other names: a name that is not read may be misspelt.
  Status verifyNames(std::initializer_list<std::string_view> known) const;
  int64_t steps() const { return file_.find(kIds)->shape[0]; } // once kIds is open
  Result<TensorFile> tensor(const char *name) const;
  // Floats of [steps, n, a sample's sizes], n from 1 to `most`; once kIds is open.
  Result<TensorFile> floats(const char *name, std::span<const int64_t> sample, int64_t most) const;
  Result<TokenReader> reader(const char *name, ValueRange range) const;

private:
  BatchFile(std::string path, Safetensors file, const BatchShape &shape)
      : path_(std::move(path)), file_(std::move(file)), shape_(shape) {}
  int64_t lengthOf(const char *name) const;
  Status verify(const char *name, const TensorView *tensor) const;

  std::string path_;
  Safetensors file_;
  BatchShape shape_;
};

// The batches of a file, again and again.
class BatchFileData : public DataSource {
public:
  std::string describeBatch(int64_t first) override {
    return fmt::format("{}: batch {}", path_, first / shape_.samples % steps_);
  }
  std::optional<double> epochsOf(int64_t samples) const override {
    return double(samples) / double(shape_.samples * steps_);
  }

protected:
  BatchFileData(const BatchFile &file, const plan::Plan &plan)
      : path_(file.path()), steps_(file.steps()), shape_(plan) {}
  std::string where(const char *name, int64_t step, int64_t sample) const {
    return fmt::format("{}: {}: step {}, sample {}", path_, name, step, sample);
  }
  const std::string path_;
  const int64_t steps_;
  const BatchShape shape_;
};

} // namespace mgc
