// The format of an .idx: the index of a .bin of token sequences, as Megatron-LM's IndexedDataset has it. Little-endian.
//
//    0  9 bytes  "MMIDIDX\0\0"
//    9  u64      version, 1
//   17  u8       type of the tokens: 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 6 f64, 7 f32, 8 u16
//   18  u64      S, the number of sequences
//   26  u64      D, the number of document indices: documents + 1
//   34  i32[S]   length of each sequence, in tokens
//       i64[S]   where it begins in the .bin, in bytes
//       i64[D]   first sequence of each document; the last is S
//       i8[S]    mode of each sequence; only in multimodal files
#pragma once

#include "runtime/io/Tensor.h"

namespace mgc {

inline constexpr std::string_view kIndexMagic("MMIDIDX\0\0", 9);
inline constexpr uint64_t kIndexVersion = 1;
inline constexpr int64_t kIndexHeaderBytes = 34;

struct IndexHeader {
  ElementType type{};
  int64_t sequences = 0, documentIndices = 0;
  bool hasModes = false; // a byte for each sequence is left behind the document indices

  int64_t lengthsAt() const { return kIndexHeaderBytes; }
  int64_t offsetsAt() const { return lengthsAt() + 4 * sequences; }
  int64_t documentsAt() const { return offsetsAt() + 8 * sequences; }
  int64_t modesAt() const { return documentsAt() + 8 * documentIndices; }
};

// `bytes`: the first kIndexHeaderBytes of the file `path`, or all where it has fewer.
Result<IndexHeader> parseIndexHeader(const std::string &path, std::span<const std::byte> bytes, int64_t fileSize);
// The number of the type in the header; none where an index cannot name it.
std::optional<uint8_t> indexCodeOf(ElementType type);

// The type that Megatron-LM gives a file of token ids below `vocabulary`.
ElementType indexTypeFor(int64_t vocabulary);

} // namespace mgc
