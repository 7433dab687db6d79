// See TokenFiles.h.
#include "runtime/data/TokenFiles.h"

#include "runtime/base/File.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fmt/ranges.h>

namespace mgc {

namespace {

static_assert(std::endian::native == std::endian::little, "index files are little-endian");

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr int64_t kHeaderBytes = 34; // magic, version u64, type u8, sequences u64, document indices u64
// By the number that the .idx has for it.
constexpr std::array kIndexTypes = {ElementType::U8,  ElementType::I8,  ElementType::I16, ElementType::I32,
                                    ElementType::I64, ElementType::F64, ElementType::F32, ElementType::U16};

// As --bin-type calls them. `holds` tokens below this; u32 is i32 for all tokens that there are.
struct BinType {
  std::string_view name;
  ElementType type;
  int64_t holds;
  bool isCandidate;
};
constexpr BinType kBinTypes[] = {{"u8", ElementType::U8, 1 << 8, true},
                                 {"u16", ElementType::U16, 1 << 16, true},
                                 {"i32", ElementType::I32, int64_t(1) << 31, true},
                                 {"u32", ElementType::U32, int64_t(1) << 32, false},
                                 {"i64", ElementType::I64, INT64_MAX, true}};

template <typename T> T numberAt(std::span<const std::byte> bytes, size_t offset) {
  T number;
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

// The sum of the sequences' lengths, read in pieces: there may be hundreds of millions of sequences.
Result<int64_t> sumOfLengths(const FileReader &file, int64_t sequences) {
  std::array<int32_t, 1 << 14> piece;
  int64_t tokens = 0;
  for (int64_t done = 0; done < sequences; done += int64_t(piece.size())) {
    const auto part = std::span(piece).first(std::min<size_t>(piece.size(), size_t(sequences - done)));
    MGC_TRY(file.read(kHeaderBytes + done * int64_t(sizeof(int32_t)), std::as_writable_bytes(part)));
    for (const int32_t length : part) {
      if (length < 0 || __builtin_add_overflow(tokens, length, &tokens))
        return errorf("{}: sequence {} has the length {}, expected 0 or more", file.path(), done, length);
    }
  }
  return tokens;
}

Status checkHeader(const FileReader &file, std::span<const std::byte> header) {
  if (std::memcmp(header.data(), kMagic.data(), kMagic.size()) != 0)
    return errorf("{}: does not begin with MMIDIDX, as an index of Megatron-LM does; where it is none, move "
                  "it away and name "
                  "the type of the tokens with --bin-type",
                  file.path());
  if (const auto version = numberAt<uint64_t>(header, 9); version != 1)
    return errorf("{}: has version {}, expected 1", file.path(), version);
  const auto type = numberAt<uint8_t>(header, 17);
  if (type < 1 || type > kIndexTypes.size())
    return errorf("{}: names type {}, expected 1 to {}", file.path(), type, kIndexTypes.size());
  const auto sequences = numberAt<uint64_t>(header, 18), documents = numberAt<uint64_t>(header, 26);
  const auto most = uint64_t(file.size()) / 8; // of either: a pointer of 8 bytes each
  if (sequences > most || documents > most ||
      kHeaderBytes + 12 * int64_t(sequences) + 8 * int64_t(documents) > file.size())
    return errorf("{}: says that it has {} sequences and {} document indices, which do not fit its {} bytes",
                  file.path(), sequences, documents, file.size());
  return Status::ok();
}

Result<ElementType> typeOfIndex(const BinFile &bin, const FileReader &data) {
  MGC_ASSIGN(index, readTokenIndex(indexPathOf(bin.path)));
  const std::string where = indexPathOf(bin.path);
  if (!isInteger(index.type))
    return errorf("{}: says that the tokens are {}, expected integers", where, toString(index.type));
  if (index.tokens * sizeInBytes(index.type) != data.size())
    return errorf("{}: has {} tokens of {} bytes, but {} has {} bytes: they are not of one pair", where,
                  index.tokens, sizeInBytes(index.type), bin.path, data.size());
  return index.type;
}

Result<ElementType> typeNamed(const std::string &name) {
  const auto *row = std::ranges::find(kBinTypes, std::string_view(name), &BinType::name);
  if (row == std::end(kBinTypes))
    return errorf("data type \"{}\" is unknown, expected u8, u16, i32, u32 or i64", name);
  return row->type;
}

// Whether its first tokens, read so, are all in the vocabulary. A file that is cut off in a token fits, too: nothing tells that
// it is of another type.
Result<bool> fits(const FileReader &file, ElementType type, int64_t vocabulary) {
  constexpr int64_t most = 16 << 20, pieceBytes = 1 << 16;
  const int64_t each = sizeInBytes(type), tokens = std::min(file.size() / each, most);
  std::vector<std::byte> bytes(pieceBytes);
  std::vector<int64_t> values(pieceBytes / each);
  for (int64_t done = 0; done < tokens; done += int64_t(values.size())) {
    const int64_t count = std::min<int64_t>(tokens - done, int64_t(values.size()));
    const auto part = std::span(bytes).first(size_t(count * each));
    MGC_TRY(file.read(done * each, part));
    convertToI64({type, {count}, part}, 0, count, values.data());
    if (std::any_of(values.begin(), values.begin() + count,
                    [&](int64_t token) { return token < 0 || token >= vocabulary; }))
      return false;
  }
  return tokens > 0;
}

Result<ElementType> onlyTypeThatFits(const BinFile &bin, const FileReader &file) {
  std::vector<const BinType *> candidates, fitting;
  for (const BinType &type : kBinTypes)
    if (type.isCandidate && type.holds >= bin.vocabulary)
      candidates.push_back(&type);
  for (const BinType *type : candidates) {
    MGC_ASSIGN(isFitting, fits(file, type->type, bin.vocabulary));
    if (isFitting)
      fitting.push_back(type);
  }
  if (fitting.size() == 1 && file.size() % sizeInBytes(fitting[0]->type) == 0)
    return fitting[0]->type;
  const auto names = [](const std::vector<const BinType *> &types) {
    std::vector<std::string_view> all;
    for (const BinType *type : types)
      all.push_back(type->name);
    return fmt::format("{}", fmt::join(all, ", "));
  };
  if (fitting.empty())
    return errorf("{}: has {} bytes, which are tokens of a vocabulary of {} as none of {}; --bin-type names "
                  "another type, and what is wrong with it is said then",
                  bin.path, file.size(), bin.vocabulary, names(candidates));
  if (fitting.size() == 1)
    return errorf(
        "{}: has tokens of {}, but {} bytes, which is no multiple of {}: is it cut off? --bin-type {} "
        "reads all but the last bytes",
        bin.path, fitting[0]->name, file.size(), sizeInBytes(fitting[0]->type), fitting[0]->name);
  return errorf(
      "{}: can be read as any of {}: all tokens are below {} then. Expected --bin-type with the type "
      "it was written as, or the {} that Megatron-LM writes beside it",
      bin.path, names(fitting), bin.vocabulary, indexPathOf(bin.path));
}

} // namespace

std::string indexPathOf(const std::string &binPath) {
  return std::filesystem::path(binPath).replace_extension(".idx").string();
}

Result<TokenIndex> readTokenIndex(const std::string &path) {
  MGC_ASSIGN(file, FileReader::open(path));
  if (file.size() < kHeaderBytes)
    return errorf("{}: has {} bytes, expected at least {}: the header of an index of Megatron-LM", path,
                  file.size(), kHeaderBytes);
  std::array<std::byte, kHeaderBytes> header;
  MGC_TRY(file.read(0, header));
  MGC_TRY(checkHeader(file, header));
  const auto sequences = int64_t(numberAt<uint64_t>(header, 18));
  MGC_ASSIGN(tokens, sumOfLengths(file, sequences));
  return TokenIndex{kIndexTypes[numberAt<uint8_t>(header, 17) - 1], sequences, tokens};
}

std::string tokenizerIn(const std::string &checkpoint) {
  std::error_code ignored;
  for (const char *name : {"tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "merges.txt",
                           "spiece.model", "sentencepiece.bpe.model", "tekken.json"})
    if (const auto file = std::filesystem::path(checkpoint) / name;
        std::filesystem::is_directory(checkpoint, ignored) && std::filesystem::exists(file, ignored))
      return file.string();
  return "";
}

Result<ElementType> elementTypeOf(const BinFile &bin) {
  MGC_ASSIGN(file, FileReader::open(bin.path));
  if (file.size() == 0)
    return errorf("{}: is empty", bin.path);
  std::error_code ignored;
  const bool isIndexed = std::filesystem::exists(indexPathOf(bin.path), ignored);
  if (!isIndexed)
    return bin.type.empty() ? onlyTypeThatFits(bin, file) : typeNamed(bin.type);
  MGC_ASSIGN(indexed, typeOfIndex(bin, file));
  if (bin.type.empty())
    return indexed;
  MGC_ASSIGN(named, typeNamed(bin.type));
  if (named != indexed)
    return errorf("--bin-type {}: {} says that {} has {}; leave the flag out", bin.type,
                  indexPathOf(bin.path), bin.path, toString(indexed));
  return indexed;
}

} // namespace mgc
