// See LineTokenizer.h.
#include "tools/translate/LineTokenizer.h"

namespace mgc::tools {

static std::string fileOf(const MegatronLine &line, const std::vector<std::string> &flags) {
  const LineFlag *flag = line.last(flags);
  return flag && !flag->values.empty() ? flag->values.front() : "";
}

std::unique_ptr<Tokenizer> tokenizerOf(const MegatronLine &line) {
  TokenizerFiles files;
  files.model = fileOf(line, {"--tokenizer-model", "--tokenizer-name-or-path"});
  files.vocabulary = fileOf(line, {"--vocab-file"}), files.merges = fileOf(line, {"--merge-file"});
  if (files.model.empty() && (files.vocabulary.empty() || files.merges.empty()))
    return nullptr;
  if (files.model.empty())
    files.type = "GPT2BPETokenizer";
  auto opened = openTokenizer(files);
  return opened.isOk() ? opened.take() : nullptr;
}

} // namespace mgc::tools
