// See LineTokenizer.h.
#include "tools/translate/LineTokenizer.h"

#include "tools/flags/FlagChecks.h"

namespace mgc::tools {

static std::string fileOf(const MegatronLine &line, const std::vector<std::string> &flags) {
  const LineFlag *flag = line.last(flags);
  return flag && !flag->values.empty() ? flag->values.front() : "";
}

static std::unique_ptr<Tokenizer> opened(const TokenizerFiles &files) {
  auto tokenizer = openTokenizer(files);
  return tokenizer.isOk() ? tokenizer.take() : nullptr;
}

bool isNullTokenizer(const MegatronLine &line) { return fileOf(line, {"--tokenizer-type"}) == "NullTokenizer"; }

std::unique_ptr<Tokenizer> tokenizerOf(const MegatronLine &line) {
  TokenizerFiles files;
  files.model = fileOf(line, {"--tokenizer-model", "--tokenizer-name-or-path"});
  files.vocabulary = fileOf(line, {"--vocab-file"}), files.merges = fileOf(line, {"--merge-file"});
  if (isNullTokenizer(line)) {
    constexpr int64_t kMost = 1 << 30;
    std::string size = fileOf(line, {"--vocab-size"});
    if (!wholeNumber(1, kMost)(size).empty())
      return nullptr;
    files.type = "NullTokenizer", files.vocabularySize = std::stoll(size) + 1;
    return opened(files);
  }
  if (files.model.empty() && (files.vocabulary.empty() || files.merges.empty()))
    return nullptr;
  if (files.model.empty())
    files.type = "GPT2BPETokenizer";
  return opened(files);
}

} // namespace mgc::tools
