// See TextLines.h.
#include "runtime/data/TextLines.h"

#include "runtime/base/Cores.h"
#include "runtime/data/preprocess/Preprocess.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace mgc {

namespace {

class NamedData final : public DataSource {
public:
  // In what the data say of themselves, `shown` stands in the place of `hidden`.
  NamedData(std::unique_ptr<DataSource> data, std::string hidden, std::string shown)
      : data_(std::move(data)), hidden_(std::move(hidden)), shown_(std::move(shown)) {}
  Status batch(int64_t step, GlobalBatch &out) override { return data_->batch(step, out); }
  std::string describe() const override { return renamed(data_->describe()); }
  std::string describeBatch(int64_t step) override { return renamed(data_->describeBatch(step)); }
  std::optional<double> epochsOf(int64_t steps) const override { return data_->epochsOf(steps); }

private:
  std::string renamed(std::string text) const {
    for (size_t at = 0; (at = text.find(hidden_, at)) != std::string::npos; at += shown_.size())
      text.replace(at, hidden_.size(), shown_);
    return text;
  }
  std::unique_ptr<DataSource> data_;
  std::string hidden_, shown_;
};

} // namespace

static constexpr const char *kPrefix = "/lines";

std::string TextLines::prefix() const { return folder_ + kPrefix + "_text_document"; }

std::unique_ptr<DataSource> TextLines::named(std::unique_ptr<DataSource> data,
                                             const std::string &path) const {
  return std::make_unique<NamedData>(std::move(data), prefix(), path);
}

TextLines::~TextLines() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

CorpusOptions TextLines::corpus() const {
  CorpusOptions corpus;
  corpus.files.perSplit[static_cast<size_t>(Split::train)].prefixes = {prefix()};
  return corpus;
}

Result<std::unique_ptr<TextLines>> tokenizeLines(const std::string &path, const TokenizerFiles &tokenizer,
                                                 bool appendsEnd) {
  std::error_code error;
  std::string folder = (std::filesystem::temp_directory_path(error) / "mgc-lines-XXXXXX").string();
  if (error || !::mkdtemp(folder.data()))
    return errorf("{}: cannot be made, for the tokens of {}: {}; TMPDIR names another place", folder, path,
                  std::strerror(errno));
  auto lines = std::make_unique<TextLines>(folder);
  PreprocessOptions options;
  options.inputs = {path}, options.outputPrefix = folder + kPrefix, options.tokenizer = tokenizer;
  options.appendsEnd = appendsEnd;
  options.workers = static_cast<int>(availableCores().size());
  const std::atomic<bool> never = false;
  MGC_ASSIGN(summary, preprocess(options, never, [](const PreprocessProgress &) {}));
  if (summary.total.tokens == 0)
    return errorf("{}: has no tokens, expected texts", path);
  return lines;
}

} // namespace mgc
