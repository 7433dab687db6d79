// See LineReader.h.
#include "runtime/data/preprocess/LineReader.h"

#include "runtime/io/Decompress.h"

#include <algorithm>

namespace mgc {

Result<LineReader> LineReader::open(const std::vector<std::string> &paths) {
  LineReader reader;
  for (const std::string &path : paths) {
    MGC_ASSIGN(file, openDecompressed(path));
    reader.files_.push_back(std::move(file));
  }
  return reader;
}

LineReader LineReader::of(FileReader file) {
  LineReader reader;
  reader.files_.push_back(std::move(file));
  return reader;
}

int64_t LineReader::bytes() const {
  int64_t bytes = 0;
  for (const FileReader &file : files_)
    bytes += file.size();
  return bytes;
}

int64_t LineReader::bytesBefore(const LinePosition &position) const {
  int64_t bytes = position.offset;
  for (int64_t i = 0; i < position.file; ++i)
    bytes += files_[static_cast<size_t>(i)].size();
  return bytes;
}

const std::string &LineReader::pathOf(const LinePosition &position) const {
  return files_[static_cast<size_t>(position.file)].path();
}

// Where the next line begins; none where `text` may end within this one. `isAll`: nothing follows the text.
static std::optional<size_t> behindLine(std::string_view text, size_t begin, bool isAll) {
  const size_t end = text.find_first_of("\r\n", begin);
  if (end == std::string_view::npos)
    return isAll && begin < text.size() ? std::optional(text.size()) : std::nullopt;
  if (text[end] == '\n')
    return end + 1;
  if (end + 1 == text.size())
    return isAll ? std::optional(text.size()) : std::nullopt; // LF may follow
  return end + 1 + (text[end + 1] == '\n');
}

Result<std::optional<LineBlock>> LineReader::read(const LinePosition &from, int64_t bytes) const {
  LinePosition begin = from;
  while (begin.file < std::ssize(files_) && begin.offset >= files_[static_cast<size_t>(begin.file)].size())
    begin = {begin.file + 1, 0, 0, begin.lines};
  if (begin.file == std::ssize(files_))
    return std::optional<LineBlock>();
  const FileReader &file = files_[static_cast<size_t>(begin.file)];
  LineBlock block{begin, begin, {}};
  for (size_t done = 0; done == 0; bytes *= 2) {
    const int64_t size = std::min(bytes, file.size() - begin.offset);
    block.text.resize(static_cast<size_t>(size));
    MGC_TRY(file.read(begin.offset, std::as_writable_bytes(std::span(block.text))));
    block.end = begin;
    const bool isAll = begin.offset + size == file.size();
    while (const auto next = behindLine(block.text, done, isAll))
      done = *next, ++block.end.line, ++block.end.lines;
    block.end.offset += static_cast<int64_t>(done);
    block.text.resize(done);
  }
  return std::optional(std::move(block));
}

Status forEachLine(const LineBlock &block, const std::function<Status(std::string_view line, int64_t number)> &visit) {
  int64_t number = block.begin.line;
  size_t begin = 0;
  while (const auto next = behindLine(block.text, begin, true)) {
    std::string_view line = std::string_view(block.text).substr(begin, *next - begin);
    while (line.ends_with('\n') || line.ends_with('\r'))
      line.remove_suffix(1);
    MGC_TRY(visit(line, number++));
    begin = *next;
  }
  return Status::ok();
}

} // namespace mgc
