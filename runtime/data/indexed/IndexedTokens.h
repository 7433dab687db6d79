// Token sequences of a pair of files, PREFIX.bin and PREFIX.idx (IndexFormat.h).
//   in:  the prefix
//   out: lengths, documents and tokens of the sequences; an error where the two files contradict each other
#pragma once

#include "runtime/base/File.h"
#include "runtime/data/indexed/IndexFormat.h"
#include "runtime/data/indexed/UnalignedArray.h"

namespace mgc {

// The index is mapped. Tokens are read as they are needed: a mapping would end the process when somebody truncates the file.
class IndexedTokens {
public:
  // Checks every length, offset and document: in a second for some hundred millions of sequences.
  static Result<IndexedTokens> open(const std::string &prefix);
  // Files of other paths, which need them no longer once they are open. `prefix` is their name in messages.
  static Result<IndexedTokens> open(const std::string &prefix, const std::string &indexPath,
                                    const std::string &tokensPath);

  const std::string &prefix() const { return prefix_; }
  std::string indexPath() const { return prefix_ + ".idx"; }
  std::string tokensPath() const { return prefix_ + ".bin"; }
  ElementType type() const { return header_.type; }
  int64_t sequences() const { return header_.sequences; }
  int64_t documents() const { return std::max<int64_t>(0, header_.documentIndices - 1); }
  int64_t tokens() const { return tokens_; }
  int64_t bytes() const { return bin_.size(); } // size of the .bin
  const FileReader &tokensFile() const { return bin_; }
  bool hasModes() const { return header_.hasModes; }

  const UnalignedArray<int32_t> &lengths() const { return lengths_; }
  const UnalignedArray<int64_t> &offsets() const { return offsets_; }
  const UnalignedArray<int64_t> &documentIndices() const { return documents_; }
  const UnalignedArray<int8_t> &modes() const { return modes_; }
  uint64_t digestOfLengths() const { return digest_; }

  // Elements [begin, begin + out.size()) of a sequence, as they are in the file. The range lies inside: asserted.
  Status readRaw(int64_t sequence, int64_t begin, std::span<std::byte> out) const;
  // The same as token ids; an error where one is below 0 or not below `vocabulary`.
  Status read(int64_t sequence, int64_t begin, int64_t vocabulary, std::span<int32_t> out) const;

private:
  IndexedTokens(std::string prefix, IndexHeader header, MappedFile index, FileReader bin);
  Status verify();

  std::string prefix_;
  IndexHeader header_;
  MappedFile index_;
  FileReader bin_;
  UnalignedArray<int32_t> lengths_;
  UnalignedArray<int64_t> offsets_, documents_;
  UnalignedArray<int8_t> modes_;
  int64_t tokens_ = 0;
  uint64_t digest_ = 0;
};

// A prefix as people write it: with or without ".bin" or ".idx" at its end.
std::string prefixOf(const std::string &path);

// The prefix of the files that a path names, with "_text_document" behind it or without, as the tools that write them put it there.
struct FoundPrefix {
  std::string prefix;
  std::string note = {}; // for people, where it is another than the path's
};
FoundPrefix findPrefix(const std::string &path);

} // namespace mgc
