// Writes PREFIX.bin and PREFIX.idx (IndexFormat.h), sequence by sequence.
#pragma once

#include "runtime/base/File.h"
#include "runtime/data/indexed/IndexedTokens.h"

#include <vector>

namespace mgc {

// Neither file stands under its name before commit(). Memory: 4 bytes a sequence, 8 a document.
class IndexedWriter {
public:
  // `type`: one that an index can name.
  static Result<IndexedWriter> create(const std::string &prefix, ElementType type);

  ElementType type() const { return type_; }
  // A sequence of the document that is open.
  Status addSequence(std::span<const int32_t> tokens);
  // The same, as elements of type().
  Status addRaw(std::span<const std::byte> elements);
  void endDocument() { documents_.push_back(std::ssize(lengths_)); }
  // All sequences and documents of files of the same type.
  Status append(const IndexedTokens &other);

  int64_t sequences() const { return std::ssize(lengths_); }
  int64_t documents() const { return std::ssize(documents_) - 1; }
  int64_t tokens() const { return tokens_; }
  Status commit();

private:
  IndexedWriter(std::string prefix, ElementType type, AtomicFile bin)
      : prefix_(std::move(prefix)), type_(type), bin_(std::move(bin)) {}
  Status writeIndex(AtomicFile &file) const;

  std::string prefix_;
  ElementType type_;
  AtomicFile bin_;
  std::vector<int32_t> lengths_;
  std::vector<int64_t> documents_ = {0};
  std::vector<int8_t> modes_; // empty, or one for each sequence
  std::vector<std::byte> scratch_;
  int64_t tokens_ = 0;
};

} // namespace mgc
