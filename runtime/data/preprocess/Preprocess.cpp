// See Preprocess.h.
#include "runtime/data/preprocess/Preprocess.h"

#include "runtime/base/Json.h"
#include "runtime/base/OutputFile.h"
#include "runtime/data/preprocess/BlockEncoder.h"
#include "runtime/data/preprocess/WorkerQueue.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

namespace mgc {

namespace {

constexpr int64_t kBlockBytes = 1 << 20;
constexpr auto kSyncInterval = std::chrono::seconds(30); // a run that dies repeats at most so much

using Clock = std::chrono::steady_clock;

// The position of a run, from which it can be continued.
struct RunState {
  int64_t partition = 0;
  LinePosition position;
  std::vector<WrittenSizes> written; // by key
};

// A name in JSON, which has UTF-8 alone: of a file it may be any bytes. Different names stay different.
std::string ascii(std::string_view name) {
  std::string text;
  for (const char c : name)
    if (c >= ' ' && c <= '~' && c != '\\')
      text += c;
    else
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return text;
}

class PreprocessRun {
public:
  PreprocessRun(const PreprocessOptions &options, const std::atomic<bool> &stop,
                const std::function<void(const PreprocessProgress &)> &observer)
      : options_(options), stop_(stop), observer_(observer) {}

  Result<PreprocessSummary> run() {
    MGC_TRY(open());
    while (state_.partition < options_.partitions && !stop_) {
      MGC_TRY(encodePartition());
      if (!stop_)
        ++state_.partition, state_.position = {};
    }
    progress();
    summary_.total = progress_;
    summary_.interrupted = !isAllWritten();
    if (options_.unnamedIn)
      MGC_TRY(summary_.interrupted ? Status::ok() : finishUnnamed());
    else
      MGC_TRY(summary_.interrupted ? save() : commit());
    return summary_;
  }

private:
  std::string statePath() const { return options_.outputPrefix + ".state.json"; }
  bool isAllWritten() const { return state_.partition == options_.partitions; }

  // The state says that all is written before the first file gets its name: a run that dies here goes on here.
  Status commit() {
    if (!writers_.empty())
      MGC_TRY(save());
    for (size_t i = 0; i < summary_.prefixes.size(); ++i)
      MGC_TRY(writers_.empty() ? IndexedWriter::finishCommit(summary_.prefixes[i], type_, state_.written[i])
                               : writers_[i].commit());
    std::error_code ignored;
    std::filesystem::remove(statePath(), ignored);
    removeUnfinished(statePath());
    return Status::ok();
  }

  Status finishUnnamed() {
    for (IndexedWriter &writer : writers_) {
      MGC_ASSIGN(files, writer.finishUnnamed(*options_.unnamedIn));
      summary_.unnamed.push_back(std::make_shared<const IndexedTokens>(std::move(files)));
    }
    return Status::ok();
  }

  Status open() {
    MGC_ASSIGN(tokenizer, openTokenizer(options_.tokenizer));
    MGC_ASSIGN(reader, LineReader::open(options_.inputs));
    MGC_ASSIGN(contents, contentsOf(options_.tokenizer));
    tokenizer_ = std::move(tokenizer), contents_ = std::move(contents), reader_.emplace(std::move(reader));
    type_ = indexTypeFor(tokenizer_->vocabulary());
    MGC_TRY(findEnd());
    state_.written.resize(options_.keys.size());
    MGC_TRY(verifyKeys());
    if (!options_.unnamedIn)
      MGC_TRY(load());
    for (size_t i = 0; i < options_.keys.size(); ++i) {
      const std::string prefix = options_.unnamedIn ? options_.outputPrefix
                                                    : fmt::format("{}_{}_{}", options_.outputPrefix, options_.keys[i],
                                                                  options_.splitsSentences ? "sentence" : "document");
      MGC_TRY(verifyIsNoInput(prefix));
      summary_.prefixes.push_back(prefix);
      if (isAllWritten())
        continue;
      MGC_ASSIGN(writer, options_.unnamedIn ? IndexedWriter::createUnnamed(prefix, *options_.unnamedIn, type_)
                                            : IndexedWriter::create(prefix, type_, state_.written[i]));
      writers_.push_back(std::move(writer));
    }
    if (options_.restarts) { // a run that is killed before its first save leaves no state of another
      std::error_code error;
      std::filesystem::remove(statePath(), error);
      if (error)
        return errorf("{}: cannot be removed: {}", statePath(), error.message());
    }
    progress_.allBytes = reader_->bytes() * options_.partitions;
    began_ = synced_ = Clock::now();
    return Status::ok();
  }

  // Each is part of the names of its files.
  Status verifyKeys() const {
    for (auto key = options_.keys.begin(); key != options_.keys.end(); ++key) {
      if (std::find(options_.keys.begin(), key, *key) != key)
        return errorf("--json-keys: found {} twice, expected each once", printable(*key));
      if (key->find('/') != std::string::npos)
        return errorf("--json-keys {}: is part of the files' names, expected no /", printable(*key));
    }
    return Status::ok();
  }

  Status verifyIsNoInput(const std::string &prefix) const {
    for (const char *ending : {".bin", ".idx"})
      for (const std::string &input : options_.inputs)
        if (!options_.unnamedIn && isSameFile(prefix + ending, input))
          return errorf("--output-prefix {}: {}{} is an input, expected another", options_.outputPrefix, prefix,
                        ending);
    return Status::ok();
  }

  Status findEnd() {
    if (!options_.appendsEnd)
      return Status::ok();
    end_ = options_.endToken ? tokenizer_->idOf(*options_.endToken) : tokenizer_->endToken();
    if (end_)
      return Status::ok();
    if (options_.endToken)
      return errorf("--eod-token {}: the tokenizer has no such token", *options_.endToken);
    return errorf("--append-eod: the tokenizer does not say which token ends a text; expected a tokenizer_config.json "
                  "with eos_token beside {}, or --eod-token TOKEN",
                  options_.tokenizer.model);
  }

  // --- The state in its file ------------------------------------------------------------------------------------

  // All that the result depends on: a run that would write other bytes does not go on with these.
  nlohmann::json identity() const {
    nlohmann::json inputs = nlohmann::json::array();
    for (const std::string &path : options_.inputs) {
      std::error_code ignored;
      inputs.push_back({ascii(path), std::filesystem::file_size(path, ignored),
                        std::filesystem::last_write_time(path, ignored).time_since_epoch().count()});
    }
    nlohmann::json keys = nlohmann::json::array();
    for (const std::string &key : options_.keys)
      keys.push_back(ascii(key));
    nlohmann::json contents = nlohmann::json::array();
    for (const TokenizerContent &content : contents_)
      contents.push_back({ascii(content.path), content.bytes, content.checksum});
    return {{"inputs", inputs},
            {"keys", keys},
            {"tokenizer",
             {ascii(options_.tokenizer.type), ascii(options_.tokenizer.model), ascii(options_.tokenizer.vocabulary),
              ascii(options_.tokenizer.merges), tokenizer_->vocabulary()}},
            {"contents", contents},
            {"end", end_ ? nlohmann::json(*end_) : nlohmann::json()},
            {"special", options_.special},
            {"sentences", options_.splitsSentences},
            {"partitions", options_.partitions}};
  }

  // The differences from the identity of the run that has written the state; empty: there are none.
  std::string differenceFrom(const nlohmann::json &other) const {
    std::string paths, names;
    for (const TokenizerContent &content : contents_)
      paths += fmt::format("{}{}", paths.empty() ? "" : ", ", content.path);
    const std::pair<const char *, std::string> fields[] = {
        {"inputs", "input files"},
        {"keys", "--json-keys"},
        {"tokenizer", "flags of the tokenizer"},
        {"contents", fmt::format("contents of the tokenizer's files ({})", paths)},
        {"end", "token at the end of a document"},
        {"special", "--tokenizer-hf-no-include-special-tokens"},
        {"sentences", "--split-sentences"},
        {"partitions", "--partitions"}};
    const nlohmann::json own = identity();
    for (const auto &[field, name] : fields)
      if (!other.is_object() || other.value(field, nlohmann::json()) != own[field])
        names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
    return names;
  }

  Status save() {
    nlohmann::json written = nlohmann::json::array();
    for (IndexedWriter &writer : writers_) {
      MGC_ASSIGN(sizes, writer.sync());
      written.push_back({sizes.sequences, sizes.documents, sizes.tokens});
    }
    const LinePosition &at = state_.position;
    const nlohmann::json state = {{"format", "mgc preprocess 1"},
                                  {"of", identity()},
                                  {"partition", state_.partition},
                                  {"position", {at.file, at.offset, at.line, at.lines}},
                                  {"written", written}};
    synced_ = Clock::now();
    return writeFileAtomically(statePath(), state.dump(1) + "\n");
  }

  Status load() {
    std::error_code error;
    if (options_.restarts || !std::filesystem::exists(statePath(), error))
      return Status::ok();
    MGC_ASSIGN(text, readFile(statePath(), 1 << 20));
    const Result<nlohmann::json> json = parseJson(text);
    const auto refuse = [&](std::string_view why) {
      return errorf("{}: {}; expected the same call as that of the run that has written it, or --restart, which begins "
                    "anew",
                    statePath(), why);
    };
    if (!json.isOk() || !json->is_object() || json->value("format", nlohmann::json()) != "mgc preprocess 1")
      return refuse("is no state of mgc-data preprocess");
    if (const std::string names = differenceFrom(json->value("of", nlohmann::json())); !names.empty())
      return refuse("is of a run with another value of: " + names);
    const auto numbers = [](const nlohmann::json &list, std::initializer_list<int64_t *> out) {
      bool isGood = list.is_array() && list.size() == out.size();
      for (size_t i = 0; isGood && i < out.size(); ++i) {
        const auto number = jsonSize(list[i]);
        isGood = number.has_value();
        *out.begin()[i] = number.value_or(0);
      }
      return isGood;
    };
    const nlohmann::json written = json->value("written", nlohmann::json());
    LinePosition &at = state_.position;
    bool isGood = numbers(json->value("position", nlohmann::json()), {&at.file, &at.offset, &at.line, &at.lines}) &&
                  numbers(nlohmann::json::array({json->value("partition", nlohmann::json())}), {&state_.partition}) &&
                  state_.partition <= options_.partitions && at.file <= std::ssize(options_.inputs) &&
                  written.is_array() && written.size() == options_.keys.size();
    for (size_t i = 0; isGood && i < written.size(); ++i) {
      WrittenSizes &sizes = state_.written[i];
      isGood = numbers(written[i], {&sizes.sequences, &sizes.documents, &sizes.tokens});
    }
    if (!isGood)
      return refuse("lacks numbers, or has other ones than whole ones");
    summary_.resumed = true;
    return Status::ok();
  }

  // --- Blocks through the workers, in their order ---------------------------------------------------------------

  Status encodePartition() {
    WorkerQueue<LineBlock, EncodedBlock> queue(options_.workers, [this] {
      auto encoder = std::make_shared<BlockEncoder>(options_, *tokenizer_, type_, end_);
      return [this, encoder](const LineBlock &block) { return encoder->encode(block, state_.partition); };
    });
    std::deque<LinePosition> ends; // ends of the blocks in the queue
    LinePosition next = state_.position;
    bool isAll = false;
    while (!stop_ && (!isAll || !ends.empty())) {
      if (!isAll && queue.hasRoom()) {
        MGC_ASSIGN(block, reader_->read(next, kBlockBytes));
        isAll = !block;
        if (block) {
          next = block->end;
          ends.push_back(next);
          queue.push(std::move(*block));
        }
        continue;
      }
      MGC_ASSIGN(encoded, queue.pop().at(reader_->pathOf(ends.front())));
      MGC_TRY(write(encoded));
      state_.position = ends.front();
      ends.pop_front();
      progress();
      if (!options_.unnamedIn && Clock::now() - synced_ > kSyncInterval)
        MGC_TRY(save());
    }
    return Status::ok();
  }

  Status write(const EncodedBlock &block) {
    for (size_t key = 0; key < block.size(); ++key) {
      const EncodedTexts &texts = block[key];
      size_t sequence = 0;
      auto rest = std::span(texts.elements);
      for (const int32_t sequences : texts.sequences) {
        for (int32_t i = 0; i < sequences; ++i) {
          const auto bytes = static_cast<size_t>(texts.lengths[sequence++] * sizeInBytes(type_));
          MGC_TRY(writers_[key].addRaw(rest.first(bytes)));
          rest = rest.subspan(bytes);
        }
        MGC_TRY(writers_[key].endDocument());
      }
    }
    return Status::ok();
  }

  void progress() {
    for (size_t i = 0; i < writers_.size(); ++i)
      state_.written[i] = writers_[i].sizes();
    progress_.documents = state_.written.front().documents;
    progress_.tokens = 0;
    for (const WrittenSizes &sizes : state_.written)
      progress_.tokens += sizes.tokens;
    progress_.bytes = reader_->bytes() * state_.partition + reader_->bytesBefore(state_.position);
    progress_.seconds = std::chrono::duration<double>(Clock::now() - began_).count();
    observer_(progress_);
  }

  const PreprocessOptions &options_;
  const std::atomic<bool> &stop_;
  const std::function<void(const PreprocessProgress &)> &observer_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<TokenizerContent> contents_;
  std::optional<LineReader> reader_;
  std::vector<IndexedWriter> writers_; // none: an earlier run has written all, and has not committed all
  ElementType type_{};
  std::optional<int32_t> end_;
  RunState state_;
  PreprocessProgress progress_;
  PreprocessSummary summary_;
  Clock::time_point began_, synced_;
};

} // namespace

Result<PreprocessSummary> preprocess(const PreprocessOptions &options, const std::atomic<bool> &stop,
                                     const std::function<void(const PreprocessProgress &)> &observer) {
  return PreprocessRun(options, stop, observer).run();
}

} // namespace mgc
