// See TokenReader.h.
#include "runtime/data/TokenReader.h"

#include "runtime/data/Data.h"

#include <algorithm>
#include <array>

namespace mgc {

Result<TensorFile> TensorFile::open(const MappedFile &mapped, const TensorView &tensor) {
  MGC_ASSIGN(file, FileReader::open(mapped.path()));
  return TensorFile{std::make_shared<const FileReader>(std::move(file)), tensor.data.data() - mapped.bytes().data(),
                    tensor.type, tensor.elements()};
}

Status TensorFile::read(int64_t begin, int64_t count, int64_t *out) const {
  std::array<std::byte, kPiece * sizeof(int64_t)> bytes;
  const std::span<std::byte> part(bytes.data(), size_t(count * sizeInBytes(type)));
  MGC_TRY(file->read(offset + begin * sizeInBytes(type), part));
  convertToI64({type, {count}, part}, 0, count, out);
  return Status::ok();
}

Status TensorFile::readAll(int64_t begin, int64_t count, int64_t *out) const {
  for (int64_t done = 0; done < count; done += kPiece)
    MGC_TRY(read(begin + done, std::min(count - done, kPiece), out + done));
  return Status::ok();
}

Status TensorFile::readFloats(int64_t begin, int64_t count, float *out) const {
  std::array<std::byte, kPiece * sizeof(double)> bytes;
  for (int64_t done = 0; done < count; done += kPiece) {
    const int64_t piece = std::min(count - done, kPiece);
    const std::span<std::byte> part(bytes.data(), size_t(piece * sizeInBytes(type)));
    MGC_TRY(file->read(offset + (begin + done) * sizeInBytes(type), part));
    convertToF32({type, {piece}, part}, 0, piece, out + done);
  }
  return Status::ok();
}

ValueRange ValueRange::tokens(int64_t vocabulary) {
  return {vocabulary, false, fmt::format("the model's vocabulary has {} tokens", vocabulary)};
}

ValueRange ValueRange::labels(int64_t vocabulary) {
  ValueRange range = tokens(vocabulary);
  range.mayBeIgnored = true;
  return range;
}

ValueRange ValueRange::types(int64_t tokenTypes) {
  if (tokenTypes == 0)
    return {1, false, "the plan reads no types of tokens"};
  return {tokenTypes, false, fmt::format("the model has {} type{} of tokens", tokenTypes, tokenTypes == 1 ? "" : "s")};
}

bool ValueRange::has(int64_t value) const {
  return (value >= 0 && value < below) || (mayBeIgnored && value == kIgnoredLabel);
}

std::string ValueRange::describe() const {
  return fmt::format("{}0{}: {}", mayBeIgnored ? fmt::format("{} (ignored) or ", kIgnoredLabel) : "",
                     below > 1 ? fmt::format(" to {}", below - 1) : "", reason);
}

Status TokenReader::read(int64_t begin, int64_t count, int32_t *out, const Visit &visit) const {
  std::array<int64_t, TensorFile::kPiece> piece;
  for (int64_t done = 0; done < count; done += int64_t(piece.size())) {
    int64_t part = std::min(count - done, int64_t(piece.size()));
    MGC_TRY(tensor_.read(begin + done, part, piece.data()));
    for (int64_t i = 0; i < part; ++i) {
      if (!range_.has(piece[i]))
        return errorf("{}: {} at position {}, expected {}", name_, piece[i], begin + done + i, range_.describe());
      if (visit)
        MGC_TRY(visit(begin + done + i, piece[i]));
      if (out)
        out[done + i] = int32_t(piece[i]);
    }
  }
  return Status::ok();
}

Status TokenReader::scan(const Visit &visit) const {
  return read(0, std::min(size(), kScannedElements), nullptr, visit);
}

} // namespace mgc
