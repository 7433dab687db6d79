// Writes PREFIX.bin and PREFIX.idx (IndexFormat.h), sequence by sequence, in memory that does not grow with them.
#pragma once

#include "runtime/data/indexed/IndexedTokens.h"
#include "runtime/data/indexed/PartFile.h"

#include <optional>
#include <vector>

namespace mgc {

// How much of the files is written.
struct WrittenSizes {
  int64_t sequences = 0, documents = 0, tokens = 0;
  bool operator==(const WrittenSizes &) const = default;
};

// Neither file has its name before commit(). The output of a run that ended early stays in PREFIX.*.part, and may be
// continued. commit() has four steps, between which a run may die; an index never stands next to tokens that are not
// its own:
//
//                                .bin.part  .bin  .idx
//   1. write the index to a part     x      old   old
//   2. remove the index before       x      old
//   3. place the tokens                     new
//   4. place the index                      new   new
class IndexedWriter {
public:
  // `type`: one that an index can name. `resume`: what sync() of an earlier run gave.
  static Result<IndexedWriter> create(const std::string &prefix, ElementType type, const WrittenSizes &resume = {});

  // Files without names, on the file system of `folder`, which finishUnnamed() alone may end. `prefix`: their name in messages.
  static Result<IndexedWriter> createUnnamed(const std::string &prefix, const std::string &folder, ElementType type);

  ElementType type() const { return type_; }
  const WrittenSizes &sizes() const { return sizes_; }
  // A sequence of the document that is open.
  Status addSequence(std::span<const int32_t> tokens);
  // The same, as elements of type().
  Status addRaw(std::span<const std::byte> elements);
  Status endDocument();
  // All sequences and documents of files of the same type. In an index without documents each sequence is one.
  Status append(const IndexedTokens &other);
  Result<WrittenSizes> sync(); // all of it is on disk
  Status commit();
  // commit() of an earlier run that has written and synced all `sizes`, from where that run ended; nothing if it was done.
  static Status finishCommit(const std::string &prefix, ElementType type, const WrittenSizes &sizes);
  Result<IndexedTokens> finishUnnamed(const std::string &folder); // all that was written
  void discard();                                                 // removes the parts

private:
  IndexedWriter(std::string prefix, ElementType type, const WrittenSizes &sizes, std::optional<PartFile> bin,
                PartFile lengths, PartFile documents)
      : prefix_(std::move(prefix)), type_(type), sizes_(sizes), bin_(std::move(bin)), lengths_(std::move(lengths)),
        documents_(std::move(documents)) {}
  Status writeIndex(PartFile &file);

  std::string prefix_;
  ElementType type_;
  WrittenSizes sizes_;
  std::optional<PartFile> bin_;  // none: an earlier commit() has placed it
  PartFile lengths_, documents_; // i32 of each sequence; i64, the sequences up to the end of each document
  std::vector<int8_t> modes_;    // empty, or one for each sequence
  std::vector<std::byte> scratch_;
};

// `tokens` as elements of `type`, behind those of `out`; an error where one does not fit.
Status appendElements(ElementType type, std::span<const int32_t> tokens, std::vector<std::byte> &out);

} // namespace mgc
