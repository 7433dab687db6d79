// See TokenFiles.h.
#include "runtime/data/TokenFiles.h"

#include "runtime/base/File.h"
#include "runtime/data/indexed/IndexedTokens.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fmt/ranges.h>

namespace mgc {

namespace {

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

Result<ElementType> typeOfIndex(const BinFile &bin) {
  MGC_ASSIGN(files, IndexedTokens::open(prefixOf(bin.path)));
  const std::string where = files.indexPath();
  if (!isInteger(files.type()))
    return errorf("{}: says that the tokens are {}, expected integers", where, toString(files.type()));
  if (files.tokens() * sizeInBytes(files.type()) != files.bytes())
    return errorf("{}: has {} tokens of {} bytes, but {} has {} bytes: they are not of one pair", where, files.tokens(),
                  sizeInBytes(files.type()), bin.path, files.bytes());
  return files.type();
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
    return errorf("{}: has tokens of {}, but {} bytes, which is no multiple of {}: is it cut off? --bin-type {} "
                  "reads all but the last bytes",
                  bin.path, fitting[0]->name, file.size(), sizeInBytes(fitting[0]->type), fitting[0]->name);
  return errorf("{}: can be read as any of {}: all tokens are below {} then. Expected --bin-type with the type "
                "it was written as, or the {} that Megatron-LM writes beside it",
                bin.path, names(fitting), bin.vocabulary, indexPathOf(bin.path));
}

} // namespace

std::string indexPathOf(const std::string &binPath) {
  return std::filesystem::path(binPath).replace_extension(".idx").string();
}

std::string tokenizerIn(const std::string &checkpoint) {
  std::error_code ignored;
  for (const char *name : {"tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "merges.txt", "spiece.model",
                           "sentencepiece.bpe.model", "tekken.json"})
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
  MGC_ASSIGN(indexed, typeOfIndex(bin));
  if (bin.type.empty())
    return indexed;
  MGC_ASSIGN(named, typeNamed(bin.type));
  if (named != indexed)
    return errorf("--bin-type {}: {} says that {} has {}; leave the flag out", bin.type, indexPathOf(bin.path),
                  bin.path, toString(indexed));
  return indexed;
}

} // namespace mgc
