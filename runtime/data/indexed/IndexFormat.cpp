// See IndexFormat.h.
#include "runtime/data/indexed/IndexFormat.h"

#include "runtime/data/indexed/UnalignedArray.h"

#include <algorithm>
#include <array>
#include <bit>

namespace mgc {

static_assert(std::endian::native == std::endian::little, "index files are little-endian");

// By the number that the .idx has for it, from 1.
static constexpr std::array kIndexTypes = {ElementType::U8,  ElementType::I8,  ElementType::I16, ElementType::I32,
                                           ElementType::I64, ElementType::F64, ElementType::F32, ElementType::U16};

Result<IndexHeader> parseIndexHeader(const std::string &path, std::span<const std::byte> bytes, int64_t fileSize) {
  if (std::ssize(bytes) < kIndexHeaderBytes)
    return errorf("{}: has {} bytes, expected at least {}: the header of an index of Megatron-LM", path, bytes.size(),
                  kIndexHeaderBytes);
  const auto numberAt = [&](int64_t offset) { return UnalignedArray<uint64_t>(bytes.data() + offset, 1)[0]; };
  if (std::memcmp(bytes.data(), kIndexMagic.data(), kIndexMagic.size()) != 0)
    return errorf("{}: does not begin with MMIDIDX, as an index of Megatron-LM does; where it is none, move "
                  "it away and name the type of the tokens with --bin-type",
                  path);
  if (numberAt(9) != kIndexVersion)
    return errorf("{}: has version {}, expected {}", path, numberAt(9), kIndexVersion);
  const auto type = static_cast<uint8_t>(bytes[17]);
  if (type < 1 || type > kIndexTypes.size())
    return errorf("{}: names type {}, expected 1 to {}", path, type, kIndexTypes.size());
  const uint64_t sequences = numberAt(18), documents = numberAt(26);
  const auto most = static_cast<uint64_t>(fileSize) / 8; // limit of both: each entry is a number of 8 bytes
  IndexHeader header{kIndexTypes[type - 1], static_cast<int64_t>(sequences), static_cast<int64_t>(documents)};
  if (sequences > most || documents > most || header.modesAt() > fileSize)
    return errorf("{}: says that it has {} sequences and {} document indices, which do not fit its {} bytes", path,
                  sequences, documents, fileSize);
  header.hasModes = sequences > 0 && fileSize - header.modesAt() == header.sequences;
  return header;
}

std::optional<uint8_t> indexCodeOf(ElementType type) {
  const auto *row = std::ranges::find(kIndexTypes, type);
  if (row == kIndexTypes.end())
    return std::nullopt;
  return static_cast<uint8_t>(1 + (row - kIndexTypes.begin()));
}

ElementType indexTypeFor(int64_t vocabulary) {
  constexpr int64_t kBelow = 65'500; // Megatron-LM's DType.optimal_dtype
  return vocabulary < kBelow ? ElementType::U16 : ElementType::I32;
}

} // namespace mgc
