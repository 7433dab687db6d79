// See TextCache.h. A line for each text, [text, is it a pair, its line, shortened answers, begin and end of each learned part ..], and a last one with the
// checksum of those before.
#include "runtime/data/chat/TextCache.h"

#include "runtime/base/Checksum.h"

namespace mgc {

static Result<LineText> lineOf(std::string_view line) {
  MGC_ASSIGN(json, parseJson(line));
  LineText out;
  const bool isText =
      json.is_array() && json.size() >= 4 && json.size() % 2 == 0 && json[0].is_string() && json[1].is_boolean() &&
      std::all_of(json.begin() + 2, json.end(), [](const auto &number) { return number.is_number_unsigned(); });
  if (!isText)
    return errorf("no text");
  out.chat.text = json[0].get<std::string>(), out.isPair = json[1].get<bool>(), out.line = json[2].get<int64_t>();
  out.chat.shortened = json[3].get<int64_t>();
  for (size_t i = 4; i < json.size(); i += 2)
    out.chat.learned.push_back({json[i].get<uint32_t>(), json[i + 1].get<uint32_t>()});
  return out;
}

std::optional<std::vector<LineText>> TextCache::load() const {
  const Result<MappedFile> file = MappedFile::open(path_);
  if (!file.isOk())
    return std::nullopt;
  const std::string_view text = file->text(), ending = text.substr(text.size() - std::min<size_t>(text.size(), 9));
  Checksum checksum;
  checksum.add(text.substr(0, text.size() - ending.size()));
  if (ending != checksum.text() + "\n")
    return std::nullopt;
  std::vector<LineText> texts;
  for (size_t at = 0, end = 0; at < text.size() - ending.size(); at = end + 1) {
    end = text.find('\n', at);
    Result<LineText> line = lineOf(text.substr(at, end - at));
    if (!line.isOk())
      return std::nullopt;
    texts.push_back(line.take());
  }
  return texts;
}

Status TextCache::prepare() const {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  return AtomicFile::create(path_).status();
}

Status TextCache::save(const std::vector<LineText> &texts) const {
  MGC_ASSIGN(file, AtomicFile::create(path_));
  Checksum checksum;
  for (const LineText &text : texts) {
    nlohmann::json line = {text.chat.text, text.isPair, text.line, text.chat.shortened};
    for (const TextRange &part : text.chat.learned)
      line.push_back(part.begin), line.push_back(part.end);
    const std::string written = line.dump() + "\n";
    checksum.add(written);
    MGC_TRY(file.write(written));
  }
  MGC_TRY(file.write(checksum.text() + "\n"));
  return file.commit();
}

} // namespace mgc
