// See TextLines.h.
#include "runtime/data/TextLines.h"

#include "runtime/base/Cores.h"
#include "runtime/data/preprocess/Preprocess.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace mgc {

static constexpr const char *kPrefix = "/lines";

TextLines::~TextLines() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

CorpusOptions TextLines::corpus() const {
  CorpusOptions corpus;
  corpus.files.perSplit[static_cast<size_t>(Split::train)].prefixes = {folder_ + kPrefix + "_text_document"};
  return corpus;
}

Result<std::unique_ptr<TextLines>> tokenizeLines(const std::string &path, const TokenizerFiles &tokenizer) {
  std::error_code error;
  std::string folder = (std::filesystem::temp_directory_path(error) / "mgc-lines-XXXXXX").string();
  if (error || !::mkdtemp(folder.data()))
    return errorf("{}: cannot be made, for the tokens of {}: {}; TMPDIR names another place", folder, path,
                  std::strerror(errno));
  auto lines = std::make_unique<TextLines>(folder);
  MGC_ASSIGN(opened, openTokenizer(tokenizer));
  PreprocessOptions options;
  options.inputs = {path}, options.outputPrefix = folder + kPrefix, options.tokenizer = tokenizer;
  options.appendsEnd = opened->endToken().has_value();
  options.workers = static_cast<int>(availableCores().size());
  const std::atomic<bool> never = false;
  MGC_ASSIGN(summary, preprocess(options, never, [](const PreprocessProgress &) {}));
  if (summary.total.tokens == 0)
    return errorf("{}: has no tokens, expected texts", path);
  return lines;
}

} // namespace mgc
