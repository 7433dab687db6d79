// See BatchFile.h.
#include "runtime/data/BatchFile.h"

#include "runtime/base/Json.h"

#include <algorithm>
#include <fmt/ranges.h>

namespace mgc {

Result<BatchFile> BatchFile::open(const std::string &path, const BatchShape &shape) {
  MGC_ASSIGN(file, Safetensors::open(path));
  return BatchFile(path, std::move(file), shape);
}

Status BatchFile::verifyNames(std::initializer_list<std::string_view> known) const {
  for (const auto &[name, tensor] : file_.tensors())
    if (std::ranges::find(known, name) == known.end())
      return errorf("{}: tensor {} is not read; expected some of {}", path_, printable(name), fmt::join(known, ", "));
  return Status::ok();
}

Result<TensorFile> BatchFile::tensor(const char *name) const {
  const TensorView *view = file_.find(name);
  MGC_TRY(verify(name, view).at(where(name)));
  if (view->shape[0] != steps())
    return errorf("{} has {} steps, {} {}, expected equal", where(name), view->shape[0], kIds, steps());
  return TensorFile::open(file_.file(), *view);
}

Result<TensorFile> BatchFile::floats(const char *name, std::span<const int64_t> sample, int64_t most) const {
  const TensorView *view = file_.find(name);
  std::string expected = fmt::format("floats [{} steps, 1 to {} images, {}]", steps(), most, fmt::join(sample, ", "));
  if (!view)
    return errorf("{}: missing, expected {}", where(name), expected);
  const std::vector<int64_t> &found = view->shape;
  const bool fits = isFloat(view->type) && found.size() == sample.size() + 2 && found[0] == steps() && found[1] >= 1 &&
                    found[1] <= most && std::ranges::equal(std::span(found).subspan(2), sample);
  if (!fits)
    return errorf("{}: found {} {}, expected {}", where(name), toString(view->type), shapeToString(found), expected);
  return TensorFile::open(file_.file(), *view);
}

Result<TokenReader> BatchFile::reader(const char *name, ValueRange range) const {
  MGC_ASSIGN(opened, tensor(name));
  TokenReader reader(where(name), std::move(opened), std::move(range));
  MGC_TRY(reader.scan());
  return reader;
}

Result<int64_t> numberOfBatch(int64_t first, const BatchShape &shape, int64_t batches) {
  if (first % shape.samples == 0)
    return first / shape.samples % batches;
  return errorf("the file has batches of {} samples, none of which begins with sample {}; expected a multiple of {}: a "
                "plan of the global batch size that the training had before",
                shape.samples, first, shape.samples);
}

// An encoder reads the ids, and the mask is of them.
int64_t BatchFile::lengthOf(const char *name) const {
  const bool ofEncoder = shape_.hasPairs && (name == std::string_view(kIds) || name == std::string_view(kMask));
  return ofEncoder ? shape_.encoderLength : shape_.length;
}

Status BatchFile::verify(const char *name, const TensorView *tensor) const {
  const int64_t length = lengthOf(name);
  const std::string expected = fmt::format("integers [steps, {}, {}]", shape_.samples, length);
  if (!tensor)
    return errorf("missing, expected {}", expected);
  const std::vector<int64_t> &found = tensor->shape;
  if (isInteger(tensor->type) && found.size() == 3 && found[0] >= 1 && found[1] == shape_.samples && found[2] == length)
    return Status::ok();
  return errorf("found {} {}, expected {}: global batch size and {} of the plan", toString(tensor->type),
                shapeToString(found), expected,
                !shape_.hasPairs          ? "sequence length"
                : length == shape_.length ? "the decoder's sequence length"
                                          : "the encoder's sequence length");
}

} // namespace mgc
