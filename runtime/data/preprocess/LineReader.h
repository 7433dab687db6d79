// Text files, perhaps compressed (Decompress.h), one after the other, as blocks of whole lines. Lines end at LF, CR LF or a lone CR.
#pragma once

#include "runtime/base/File.h"

#include <functional>
#include <optional>
#include <vector>

namespace mgc {

struct LinePosition {
  int64_t file = 0, offset = 0; // file and place of the next byte
  int64_t line = 0;             // its number in the file
  int64_t lines = 0;            // number of lines before it, over all files
  bool operator==(const LinePosition &) const = default;
};

struct LineBlock {
  LinePosition begin, end;
  std::string text;
};

class LineReader {
public:
  static Result<LineReader> open(const std::vector<std::string> &paths);
  static LineReader of(FileReader file);
  int64_t bytes() const; // total size of the files
  int64_t bytesBefore(const LinePosition &position) const;
  const std::string &pathOf(const LinePosition &position) const;
  // The block of about so many bytes from `begin` on; more where a line is longer. None: the files end.
  Result<std::optional<LineBlock>> read(const LinePosition &begin, int64_t bytes) const;

private:
  std::vector<FileReader> files_;
};

// Calls visit(line, number) for each line of a block, without its end.
Status forEachLine(const LineBlock &block, const std::function<Status(std::string_view line, int64_t number)> &visit);

} // namespace mgc
