// See BlockEncoder.h.
#include "runtime/data/preprocess/BlockEncoder.h"

#include "runtime/tokenizers/Sentences.h"

namespace mgc {

Result<EncodedBlock> BlockEncoder::encode(const LineBlock &block, int64_t partition) {
  EncodedBlock out(options_.keys.size());
  MGC_TRY(forEachLine(block, [&](std::string_view line, int64_t number) -> Status {
    const int64_t ofAll = block.begin.lines + number - block.begin.line;
    if (ofAll % options_.partitions != partition)
      return Status::ok();
    Status read = readJsonLine(line, options_.keys, options_.remedyOfKeys, texts_);
    for (size_t key = 0; read.isOk() && key < texts_.size(); ++key)
      read = addDocument(texts_[key], out[key]);
    return std::move(read).at(fmt::format("line {}", number + 1));
  }));
  return out;
}

Status BlockEncoder::addDocument(const LineTexts &texts, EncodedTexts &out) {
  const size_t before = out.lengths.size();
  const auto add = [&](std::span<const int32_t> ids) {
    out.lengths.push_back(static_cast<int32_t>(ids.size()));
    return appendElements(type_, ids, out.elements);
  };
  const auto encode = [&](std::string_view text) -> Status {
    ids_.clear();
    MGC_TRY(encoder_->encode(text, options_.special, ids_));
    return ids_.empty() ? Status::ok() : add(ids_);
  };
  for (const std::string &text : texts) {
    if (!options_.splitsSentences)
      MGC_TRY(encode(text));
    else
      for (const std::string_view sentence : sentencesOf(text))
        MGC_TRY(encode(sentence));
  }
  if (end_ && out.lengths.size() > before) {
    MGC_TRY(appendElements(type_, std::span(&*end_, 1), out.elements));
    ++out.lengths.back();
  }
  out.sequences.push_back(static_cast<int32_t>(out.lengths.size() - before));
  return Status::ok();
}

} // namespace mgc
