// See IndexedWriter.h.
#include "runtime/data/indexed/IndexedWriter.h"

#include <algorithm>
#include <array>
#include <limits>

namespace mgc {

Result<IndexedWriter> IndexedWriter::create(const std::string &prefix, ElementType type) {
  if (!indexCodeOf(type))
    return errorf("{}.idx: an index cannot name the type {}", prefix, toString(type));
  MGC_ASSIGN(bin, AtomicFile::create(prefix + ".bin"));
  return IndexedWriter(prefix, type, std::move(bin));
}

template <typename T> static void store(std::span<const int32_t> tokens, std::byte *out) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const T value = static_cast<T>(tokens[i]);
    std::memcpy(out + i * sizeof(T), &value, sizeof value);
  }
}

Status IndexedWriter::addSequence(std::span<const int32_t> tokens) {
  if (type_ == ElementType::I32)
    return addRaw(std::as_bytes(tokens));
  constexpr int32_t most = std::numeric_limits<uint16_t>::max();
  if (const auto wrong = std::ranges::find_if(tokens, [](int32_t t) { return t < 0 || t > most; });
      wrong != tokens.end() || type_ != ElementType::U16)
    return errorf("{}.bin: token {} does not fit the type {}", prefix_,
                  wrong != tokens.end() ? *wrong : int32_t(0), toString(type_));
  scratch_.resize(tokens.size() * sizeof(uint16_t));
  store<uint16_t>(tokens, scratch_.data());
  return addRaw(scratch_);
}

Status IndexedWriter::addRaw(std::span<const std::byte> elements) {
  const int64_t count = std::ssize(elements) / sizeInBytes(type_);
  if (count > std::numeric_limits<int32_t>::max())
    return errorf("{}.idx: sequence {} has {} tokens, expected at most {}", prefix_, sequences(), count,
                  std::numeric_limits<int32_t>::max());
  lengths_.push_back(static_cast<int32_t>(count));
  tokens_ += count;
  return bin_.write(elements);
}

Status IndexedWriter::append(const IndexedTokens &other) {
  if (other.type() != type_)
    return errorf("{}: has tokens of type {}, but {} is of type {}; expected files of one type",
                  other.indexPath(), toString(other.type()), prefix_ + ".bin", toString(type_));
  if (sequences() > 0 && other.sequences() > 0 && other.hasModes() != !modes_.empty())
    return errorf("{}: {} modes of sequences, but the files before {}; expected all with modes, or none",
                  other.indexPath(), other.hasModes() ? "has" : "has no",
                  modes_.empty() ? "have none" : "have some");
  const int64_t before = sequences();
  std::vector<std::byte> bytes;
  for (int64_t i = 0; i < other.sequences(); ++i) {
    bytes.resize(static_cast<size_t>(other.lengths()[i] * sizeInBytes(type_)));
    MGC_TRY(other.readRaw(i, 0, bytes));
    MGC_TRY(addRaw(bytes));
    if (other.hasModes())
      modes_.push_back(other.modes()[i]);
  }
  for (int64_t i = 1; i < other.documentIndices().size(); ++i)
    documents_.push_back(before + other.documentIndices()[i]);
  return Status::ok();
}

template <typename T> static Status writeAll(AtomicFile &file, const std::vector<T> &values) {
  return file.write(std::as_bytes(std::span(values)));
}

Status IndexedWriter::writeIndex(AtomicFile &file) const {
  const std::array<uint64_t, 1> version = {kIndexVersion};
  const std::array<uint64_t, 2> counts = {lengths_.size(), documents_.size()};
  const std::array code = {static_cast<std::byte>(*indexCodeOf(type_))};
  MGC_TRY(file.write(kIndexMagic));
  MGC_TRY(file.write(std::as_bytes(std::span(version))));
  MGC_TRY(file.write(std::span<const std::byte>(code)));
  MGC_TRY(file.write(std::as_bytes(std::span(counts))));
  MGC_TRY(writeAll(file, lengths_));
  int64_t offset = 0;
  for (const int32_t length : lengths_) {
    MGC_TRY(file.write(std::as_bytes(std::span(&offset, 1))));
    offset += length * sizeInBytes(type_);
  }
  MGC_TRY(writeAll(file, documents_));
  return writeAll(file, modes_);
}

// The index comes last: without it nobody reads the tokens.
Status IndexedWriter::commit() {
  MGC_ASSIGN(index, AtomicFile::create(prefix_ + ".idx"));
  MGC_TRY(writeIndex(index));
  MGC_TRY(index.finish());
  MGC_TRY(bin_.finish());
  MGC_TRY(bin_.place());
  return index.commit();
}

} // namespace mgc
