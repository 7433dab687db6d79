// See TextLines.h.
#include "runtime/data/TextLines.h"

#include "runtime/base/Cores.h"
#include "runtime/data/preprocess/Preprocess.h"

#include <filesystem>

namespace mgc {

Result<std::shared_ptr<const IndexedTokens>> tokenizeLines(const std::string &path, const TokenizerFiles &tokenizer,
                                                           bool appendsEnd, const std::atomic<bool> *stop) {
  MGC_ASSIGN(folder, temporaryFolder().at(path));
  PreprocessOptions options;
  options.inputs = {path}, options.outputPrefix = path, options.unnamedIn = folder;
  options.remedyOfKeys = "--sft reads conversations, and prompts with completions (docs/data.md); mgc-data preprocess "
                         "--json-keys NAME reads texts of another name";
  options.tokenizer = tokenizer, options.appendsEnd = appendsEnd;
  options.workers = static_cast<int>(availableCores().size());
  const std::atomic<bool> never = false;
  MGC_ASSIGN(summary, preprocess(options, stop ? *stop : never, [](const PreprocessProgress &) {}));
  if (summary.interrupted)
    return stoppedWhileReading(path);
  if (summary.total.tokens == 0)
    return errorf("{}: has no tokens, expected texts", path);
  return summary.unnamed.front();
}

Result<std::shared_ptr<const IndexedTokens>> TokenizedLines::of(const std::string &path,
                                                                const TokenizerFiles &tokenizer, bool appendsEnd,
                                                                const std::atomic<bool> *stop) {
  std::shared_ptr<const IndexedTokens> &file = files_[path];
  if (!file)
    MGC_SET(file, tokenizeLines(path, tokenizer, appendsEnd, stop));
  return file;
}

} // namespace mgc
