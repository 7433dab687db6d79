// See StateReader.h.
#include "runtime/checkpoint/StateReader.h"

#include "runtime/base/Json.h"
#include "runtime/base/Problems.h"

#include <algorithm>
#include <filesystem>

namespace mgc {

namespace {

using nlohmann::json;

// Where the file's chunk of the tensor lies, as PyTorch writes it.
Result<std::vector<int64_t>> offsetsOf(const json &info, const std::string &name, size_t dims) {
  const auto entry = info.find(name);
  const bool isThere =
      entry != info.end() && entry->is_object() && entry->contains(kSavedOffsets) && (*entry)[kSavedOffsets].is_array();
  std::vector<int64_t> offsets;
  if (isThere)
    for (const json &offset : (*entry)[kSavedOffsets])
      if (const std::optional<int64_t> value = jsonSize(offset))
        offsets.push_back(*value);
  if (offsets.size() != dims || !isThere)
    return errorf("{} of tensor \"{}\" is {}, expected {{\"{}\": [..]}} with {} numbers", kShardingInfo,
                  printable(name), entry == info.end() ? "missing" : printable(entry->dump()), kSavedOffsets, dims);
  return offsets;
}

} // namespace

// --- A tensor ------------------------------------------------------------------------------------------------

int64_t ChunkedTensor::readFrom(const Chunk &chunk, int64_t begin, int64_t count, float *out) const {
  const Box &box = chunk.box;
  int64_t inner = 1,
          left = begin; // elements of one index of the dimension; the index of the dimensions from here outwards
  int64_t inBox = 0, boxInner = 1; // the element in the chunk
  int64_t together = 1;            // elements of the chunk from it on that follow each other in the tensor
  bool isWhole = true;             // the dimensions behind this one are all in the box
  for (size_t dim = shape_.size(); dim-- > 0;) {
    const int64_t index = left % shape_[dim] - box.offsets[dim];
    if (index < 0 || index >= box.sizes[dim])
      return 0;
    inBox += index * boxInner;
    if (isWhole)
      together = (box.sizes[dim] - index) * inner - begin % inner;
    isWhole &= box.sizes[dim] == shape_[dim];
    left /= shape_[dim];
    inner *= shape_[dim];
    boxInner *= box.sizes[dim];
  }
  const int64_t read = std::min(count, together);
  convertToF32(chunk.view, inBox, read, out);
  return read;
}

// Neighbours lie in one chunk or in the next, mostly.
void ChunkedTensor::read(int64_t begin, int64_t count, float *out) const {
  size_t chunk = 0;
  for (int64_t done = 0; done < count;) {
    const int64_t read = readFrom(chunks_[chunk], begin + done, count - done, out + done);
    done += read;
    if (done < count)
      chunk = (chunk + 1) % chunks_.size();
  }
}

std::string ChunkedTensor::verify() const {
  if (!checkedProduct(shape_))
    return fmt::format("shape {} is too large", shapeToString(shape_));
  std::vector<Box> boxes;
  for (const Chunk &chunk : chunks_) {
    if (chunk.view.type != type())
      return fmt::format("has chunks of {} and of {}, expected one type", toString(type()), toString(chunk.view.type));
    boxes.push_back(chunk.box);
  }
  return cover(boxes, shape_)
             ? ""
             : fmt::format("its {} chunks overlap or leave elements of {} out", boxes.size(), shapeToString(shape_));
}

// --- A checkpoint --------------------------------------------------------------------------------------------

Status StateReader::add(const Safetensors &file) {
  const auto found = file.metadata().find(kShardingInfo);
  if (found == file.metadata().end())
    return errorf("the header has no {}, expected a file of a checkpoint", kShardingInfo);
  Result<json> info = parseJson(found->second);
  if (!info.isOk() || !info->is_object())
    return errorf("{}: {}", kShardingInfo, info.isOk() ? "expected an object" : info.status().message());
  for (const auto &[name, view] : file.tensors()) {
    MGC_ASSIGN(offsets, offsetsOf(*info, name, view.shape.size()));
    const auto [entry, isNew] = tensors_.try_emplace(name);
    ChunkedTensor &tensor = entry->second;
    if (isNew)
      tensor.shape_.resize(offsets.size());
    if (offsets.size() != tensor.shape_.size())
      return errorf("tensor \"{}\" has {} dimensions, in another file {}", printable(name), offsets.size(),
                    tensor.shape_.size());
    for (size_t dim = 0; dim < offsets.size(); ++dim) {
      int64_t end;
      if (__builtin_add_overflow(offsets[dim], view.shape[dim], &end))
        return errorf("tensor \"{}\": its chunk at {} of {} is too large", printable(name), shapeToString(offsets),
                      shapeToString(view.shape));
      tensor.shape_[dim] = std::max(tensor.shape_[dim], end);
    }
    tensor.chunks_.push_back({{std::move(offsets), view.shape}, view});
  }
  return Status::ok();
}

Result<StateReader> StateReader::open(const std::string &folder, const CheckpointRecord &record) {
  StateReader reader;
  reader.path_ = folder;
  reader.listed_ = record.files;
  Problems problems;
  for (const CheckpointFile &listed : record.files) {
    const std::string path = (std::filesystem::path(folder) / listed.name).string();
    std::error_code error;
    const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path, error));
    if (!problems.expect(!error && bytes == listed.bytes, "{}: {}, expected {} bytes", path,
                         error ? error.message() : fmt::format("has {} bytes", bytes), listed.bytes))
      continue;
    Result<Safetensors> file = Safetensors::open(path);
    const Status added = file.isOk() ? reader.add(*file).at(path) : file.status();
    if (problems.expect(added.isOk(), "{}", added.isOk() ? "" : added.message()))
      reader.files_.push_back(file.take());
  }
  if (problems.empty())
    for (const auto &[name, tensor] : reader.tensors_)
      if (const std::string wrong = tensor.verify(); !wrong.empty())
        problems.add("{}: tensor \"{}\": {}", folder, printable(name), wrong);
  if (!problems.empty())
    return errorf("{}: is not whole; expected another checkpoint\n{}", folder, problems.text());
  return reader;
}

Status StateReader::verifyFile(size_t number) const {
  Checksum checksum;
  checksum.add(files_[number].file().bytes());
  if (checksum.text() == listed_[number].checksum)
    return Status::ok();
  return errorf("{}: has the checksum {}, {} says {}: it was edited or damaged; expected another checkpoint",
                files_[number].path(), checksum.text(), CheckpointRecord::kFile, listed_[number].checksum);
}

const ChunkedTensor *StateReader::find(const std::string &name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

} // namespace mgc
