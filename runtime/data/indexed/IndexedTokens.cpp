// See IndexedTokens.h.
#include "runtime/data/indexed/IndexedTokens.h"

#include "runtime/base/File.h"

#include <algorithm>
#include <bit>
#include <fmt/ranges.h>
#include <vector>

namespace mgc {

std::string prefixOf(const std::string &path) {
  for (const std::string_view ending : {".bin", ".idx"})
    if (path.ends_with(ending))
      return path.substr(0, path.size() - ending.size());
  return path;
}

namespace {

constexpr std::string_view kTextDocument = "_text_document";

// Where one of the two is missing, the other one says which files are meant.
bool isPrefix(const std::string &prefix) { return isThere(prefix + ".idx") || isThere(prefix + ".bin"); }

std::string otherPrefix(const std::string &prefix) {
  return prefix.ends_with(kTextDocument) ? prefix.substr(0, prefix.size() - kTextDocument.size())
                                         : prefix + std::string(kTextDocument);
}

// Prefixes of the folder that begin like this one: of other fields than "text", of sentences.
std::vector<std::string> prefixesLike(const std::string &prefix) {
  const std::filesystem::path path = prefix;
  const std::string name = path.filename().string();
  std::vector<std::string> found;
  forEachEntry(path.has_parent_path() ? path.parent_path().string() : ".", [&](const auto &entry) {
    const std::string other = entry.path().filename().string();
    if (other.starts_with(name) && other.ends_with(".idx") && found.size() < 8)
      found.push_back((path.parent_path() / prefixOf(other)).string());
  });
  std::ranges::sort(found);
  return found;
}

Status verifyPrefix(const std::string &prefix) {
  if (isPrefix(prefix))
    return Status::ok();
  const std::vector<std::string> others = prefixesLike(prefix);
  return errorf("{0}: there is no {0}.idx and {0}.bin, and no {1}.idx and {1}.bin; expected the prefix of two such "
                "files, as mgc-data preprocess prints it{2}",
                prefix, otherPrefix(prefix),
                others.empty() ? "" : fmt::format("\n  near: {}", fmt::join(others, ", ")));
}

} // namespace

FoundPrefix findPrefix(const std::string &path) {
  const std::string prefix = prefixOf(path), other = otherPrefix(prefix);
  if (isPrefix(prefix) || !isPrefix(other))
    return {prefix};
  return {other, fmt::format("{}: takes {}.idx and {}.bin, since there is no {}.idx", path, other, other, prefix)};
}

IndexedTokens::IndexedTokens(std::string prefix, IndexHeader header, MappedFile index, FileReader bin)
    : prefix_(std::move(prefix)), header_(header), index_(std::move(index)), bin_(std::move(bin)) {
  const std::byte *bytes = index_.bytes().data();
  lengths_ = {bytes + header_.lengthsAt(), header_.sequences};
  offsets_ = {bytes + header_.offsetsAt(), header_.sequences};
  documents_ = {bytes + header_.documentsAt(), header_.documentIndices};
  modes_ = {bytes + header_.modesAt(), header_.hasModes ? header_.sequences : 0};
}

Result<IndexedTokens> IndexedTokens::open(const std::string &prefix) {
  MGC_TRY(verifyPrefix(prefix));
  return open(prefix, prefix + ".idx", prefix + ".bin");
}

Result<IndexedTokens> IndexedTokens::open(const std::string &prefix, const std::string &indexPath,
                                          const std::string &tokensPath) {
  MGC_ASSIGN(index, MappedFile::open(indexPath));
  const auto bytes = index.bytes();
  MGC_ASSIGN(header, parseIndexHeader(index.path(), bytes.first(std::min<size_t>(bytes.size(), kIndexHeaderBytes)),
                                      std::ssize(bytes)));
  MGC_ASSIGN(bin, FileReader::open(tokensPath));
  IndexedTokens opened(prefix, header, std::move(index), std::move(bin));
  MGC_TRY(opened.verify());
  return opened;
}

Status IndexedTokens::verify() {
  const std::string where = indexPath();
  const int64_t each = sizeInBytes(type()), size = bin_.size();
  if (const int64_t rest = index_.bytes().size() - header_.modesAt(); rest != 0 && !header_.hasModes)
    return errorf("{}: has {} bytes behind its {} document indices, expected none, or a mode of one byte for "
                  "each of the {} sequences",
                  where, rest, header_.documentIndices, sequences());
  uint64_t digest = static_cast<uint64_t>(sequences());
  for (int64_t i = 0; i < sequences(); ++i) {
    const int64_t length = lengths_[i], offset = offsets_[i];
    if (length < 0 || offset < 0 || offset > size || length > (size - offset) / each)
      return errorf("{}: sequence {} has {} tokens of {} bytes from byte {} on, expected a part of the {} "
                    "bytes of {}: the two files are not of one pair, or one is cut off",
                    where, i, length, each, offset, size, tokensPath());
    tokens_ += length;
    digest = (std::rotl(digest, 23) ^ static_cast<uint64_t>(length)) * 0x9E3779B97F4A7C15u;
  }
  digest_ = digest;
  for (int64_t i = 0, before = 0; i < documents_.size(); before = documents_[i++])
    if (documents_[i] < before || documents_[i] > sequences())
      return errorf("{}: document index {} is {}, expected {} to {}: they ascend up to the number of sequences", where,
                    i, documents_[i], before, sequences());
  if (documents_.size() > 0 && documents_[documents_.size() - 1] != sequences())
    return errorf("{}: the last document index is {}, expected {}, the number of sequences", where,
                  documents_[documents_.size() - 1], sequences());
  return Status::ok();
}

Status IndexedTokens::readRaw(int64_t sequence, int64_t begin, std::span<std::byte> out) const {
  return bin_.read(offsets_[sequence] + begin * sizeInBytes(type()), out);
}

Status IndexedTokens::read(int64_t sequence, int64_t begin, int64_t vocabulary, std::span<int32_t> out) const {
  constexpr int64_t kPiece = 4096;
  const int64_t each = sizeInBytes(type());
  std::array<std::byte, kPiece * sizeof(int64_t)> bytes;
  std::array<int64_t, kPiece> values;
  for (int64_t done = 0; done < std::ssize(out); done += kPiece) {
    const int64_t count = std::min(kPiece, std::ssize(out) - done);
    const auto part = std::span(bytes).first(static_cast<size_t>(count * each));
    MGC_TRY(readRaw(sequence, begin + done, part));
    convertToI64({type(), {count}, part}, 0, count, values.data());
    for (int64_t i = 0; i < count; ++i) {
      if (values[i] < 0 || values[i] >= vocabulary)
        return errorf("{}: sequence {}: token {} is {}, expected 0 to {}: the vocabulary has {} tokens", tokensPath(),
                      sequence, begin + done + i, values[i], vocabulary - 1, vocabulary);
      out[done + i] = static_cast<int32_t>(values[i]);
    }
  }
  return Status::ok();
}

} // namespace mgc
