// mgc-data: makes the files that mgrun --data-path reads, puts some together, says what is in one.
// Exit code: 0 all well, 1 an error, 2 wrong usage, 130 ended by Ctrl-C or SIGTERM: the same call goes on.
#include "runtime/base/Cores.h"
#include "runtime/base/File.h"
#include "runtime/base/OutputFile.h"
#include "runtime/data/preprocess/Preprocess.h"
#include "tools/ShowData.h"
#include "tools/flags/Completion.h"
#include "tools/flags/FlagChecks.h"
#include "tools/flags/Usage.h"
#include "tools/process/Process.h"
#include "tools/version/Version.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fmt/ranges.h>

namespace {

using namespace mgc;
using namespace mgc::tools;

std::atomic<bool> stopRequested{false};

int fail(const Status &status) {
  say(stderr, "mgc-data: {}\n", status.message());
  return 1;
}

int leave(const Status &status) { return status.isOk() ? 0 : fail(status); }

// --- preprocess -------------------------------------------------------------------------------------------------

struct PreprocessFlags {
  PreprocessOptions options;
  bool keepsOrder = false, omitsSpecial = false;
};

// The option --tokenizer-model.
CLI::Option *addTokenizer(CLI::App &app, TokenizerFiles &files) {
  std::vector<std::string> types;
  std::string help = "What reads the texts; else by the name of --tokenizer-model.";
  for (const TokenizerType &type : tokenizerTypes()) {
    types.emplace_back(type.name);
    help += fmt::format(" {}: {}.", type.name, type.what);
  }
  app.add_option("--tokenizer-type", files.type, help)->check(CLI::IsMember(types));
  return app.add_option("--tokenizer-model", files.model, "Its file or folder")->check(CLI::ExistingPath);
}

void addPreprocess(CLI::App &app, PreprocessFlags &flags) {
  PreprocessOptions &options = flags.options;
  app.add_option("--input", options.inputs, "Files of JSON lines: an object per line")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--output-prefix", options.outputPrefix, "Files are PREFIX_KEY_document.bin and .idx")
      ->required()
      ->check(notEmpty());
  app.add_option("--json-keys", options.keys,
                 "Fields of the object, each for files of its own: a text or a list of texts");
  CLI::Option *model = addTokenizer(app, options.tokenizer);
  CLI::Option *vocabulary =
      app.add_option("--vocab-file", options.tokenizer.vocabulary, "vocab.json of GPT2BPETokenizer")
          ->check(CLI::ExistingFile);
  CLI::Option *merges = app.add_option("--merge-file", options.tokenizer.merges, "merges.txt of GPT2BPETokenizer")
                            ->check(CLI::ExistingFile)
                            ->needs(vocabulary);
  vocabulary->needs(merges)->excludes(model);
  app.add_option("--vocab-size", options.tokenizer.vocabularySize, "Of NullTokenizer")->transform(wholeNumber(1));
  app.add_flag("--append-eod", options.appendsEnd, "Put the tokenizer's end token behind each document");
  app.add_option("--eod-token", options.endToken, "That token, where the tokenizer does not say it")
      ->needs("--append-eod");
  app.add_flag("--tokenizer-hf-no-include-special-tokens", flags.omitsSpecial,
               "Without the tokens that the tokenizer puts around each text");
  app.add_flag("--split-sentences", options.splitsSentences, "Each sentence is a sequence (PREFIX_KEY_sentence)");
  app.add_option("--workers", options.workers, "Threads; else one for each core")->transform(wholeNumber(1, 4096));
  app.add_option("--partitions", options.partitions,
                 "Order of Megatron-LM's --partitions: line i in part i modulo this, one part behind the other")
      ->transform(wholeNumber(1, 1 << 20));
  app.add_flag("--keep-sequential-samples", flags.keepsOrder, "With --partitions: the lines keep their order");
  app.add_flag("--restart", options.restarts, "Begin anew, instead of going on where a run was ended");
}

// One line, about each second, that writes over itself on a screen.
void showProgress(const PreprocessProgress &progress) {
  static auto last = std::chrono::steady_clock::now();
  const auto now = std::chrono::steady_clock::now();
  if (now - last < std::chrono::seconds(1))
    return;
  last = now;
  const double part = progress.allBytes ? 100.0 * double(progress.bytes) / double(progress.allBytes) : 100;
  say(stderr, "{:5.1f} %  {} documents  {} tokens\n", part, progress.documents, progress.tokens);
}

int runPreprocess(PreprocessFlags &flags) {
  PreprocessOptions &options = flags.options;
  options.special = !flags.omitsSpecial;
  if (flags.keepsOrder)
    options.partitions = 1;
  const Result<PreprocessSummary> summary = preprocess(options, stopRequested, showProgress);
  if (!summary.isOk())
    return fail(summary.status());
  const PreprocessProgress &total = summary->total;
  if (summary->interrupted) {
    say(stderr, "mgc-data: ended after {} documents; the same call goes on\n", total.documents);
    return 130;
  }
  say(stdout, "{} documents, {} tokens in {:.1f} s{}: {}\n", total.documents, total.tokens, total.seconds,
      summary->resumed ? ", after an earlier run" : "", fmt::join(summary->prefixes, ", "));
  if (total.tokens == 0)
    say(stderr, "mgc-data: no text gave a token, so no training can read these files\n");
  return leave(checkOutput());
}

// --- merge, info ------------------------------------------------------------------------------------------------

struct MergeFlags {
  std::vector<std::string> inputs;
  std::string folder, output;
};

// Prefixes of all pairs in a folder, by name, as Megatron-LM's merge_datasets.py takes them.
Result<std::vector<std::string>> prefixesIn(const std::string &folder) {
  std::vector<std::string> prefixes;
  const std::error_code error = forEachEntry(folder, [&](const auto &entry) {
    if (const std::string path = entry.path().string(); path.ends_with(".idx"))
      prefixes.push_back(prefixOf(path));
  });
  if (error || prefixes.empty())
    return errorf("--input {}: {}, expected a folder with .bin and .idx files", folder,
                  error ? error.message() : "has no .idx");
  std::ranges::sort(prefixes);
  return prefixes;
}

std::string prefixMeant(const std::string &path) {
  const FoundPrefix found = findPrefix(path);
  if (!found.note.empty())
    say(stderr, "mgc-data: {}\n", found.note);
  return found.prefix;
}

bool isOneOf(const std::vector<std::string> &prefixes, const std::string &prefix) {
  return std::ranges::any_of(prefixes, [&](const std::string &other) {
    return other == prefix || isSameFile(other + ".bin", prefix + ".bin") ||
           isSameFile(other + ".idx", prefix + ".idx");
  });
}

void stopAtRequests() {
  const sigset_t requests = requestsToEnd();
  for (int signal = 1; signal < NSIG; ++signal)
    if (sigismember(&requests, signal) == 1)
      std::signal(signal, [](int) { stopRequested = true; });
}

Status merge(const MergeFlags &flags) {
  std::vector<std::string> prefixes;
  for (const std::string &input : flags.inputs) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(input, ignored)) {
      prefixes.push_back(prefixMeant(input));
      continue;
    }
    MGC_ASSIGN(all, prefixesIn(input));
    prefixes.insert(prefixes.end(), all.begin(), all.end());
  }
  MGC_ASSIGN(first, IndexedTokens::open(prefixes.front()));
  const std::string output = prefixOf(flags.output);
  if (isOneOf(prefixes, output))
    return errorf("--output-prefix {}: is one of the inputs, expected another", output);
  const auto exists = [&](const char *ending) {
    std::error_code ignored;
    return std::filesystem::exists(output + ending, ignored);
  };
  const bool isOfEndedCommit = exists(".idx.part"); // its index, of which IndexedWriter.h says when it is placed
  if (exists(".bin") && !exists(".idx") && !isOfEndedCommit)
    return errorf("{}.bin: has no {}.idx beside it, so it may be another's; expected another "
                  "--output-prefix, or the file moved away",
                  output, output);
  if (!isInteger(first.type()))
    return errorf("{}: its tokens are {}, expected integers", first.indexPath(), toString(first.type()));
  MGC_ASSIGN(writer, IndexedWriter::create(output, first.type()));
  for (const std::string &prefix : prefixes) {
    const Result<IndexedTokens> files = IndexedTokens::open(prefix);
    if (Status added = files.isOk() ? writer.append(*files) : files.status(); !added.isOk()) {
      writer.discard();
      return added;
    }
  }
  MGC_TRY(writer.commit());
  const WrittenSizes &sizes = writer.sizes();
  say(stdout, "{}: {} documents, {} sequences, {} tokens of {} files\n", output, sizes.documents, sizes.sequences,
      sizes.tokens, prefixes.size());
  return Status::ok();
}

Status describe(const std::string &path) {
  MGC_ASSIGN(files, IndexedTokens::open(prefixMeant(path)));
  int64_t longest = 0, empty = 0;
  for (int64_t i = 0; i < files.sequences(); ++i) {
    longest = std::max<int64_t>(longest, files.lengths()[i]);
    empty += files.lengths()[i] == 0;
  }
  say(stdout, "{}\n  type       {}\n  documents  {}\n  sequences  {}{}\n  tokens     {}\n  longest    {} tokens\n{}",
      files.prefix(), toString(files.type()), files.documents(), files.sequences(),
      empty ? fmt::format(", {} of them empty", empty) : "", files.tokens(), longest,
      files.hasModes() ? "  modes      one for each sequence\n" : "");
  return Status::ok();
}

// --- show -------------------------------------------------------------------------------------------------------

struct ShowFlags {
  ShowOptions options;
  std::string learn;
};

void addShow(CLI::App &app, ShowFlags &flags) {
  ShowOptions &options = flags.options;
  ChatOptions &chats = options.reading.chats;
  flags.learn = kSftLearnNames[size_t(chats.form.learn)];
  app.add_option("data", options.data,
                 ".jsonl of texts or conversations, as mgrun --data, or the prefix of .bin and .idx")
      ->required()
      ->check(notEmpty());
  addTokenizer(app, options.reading.tokenizerFiles)->required();
  app.add_option("--count", options.samples, "Samples")->transform(wholeNumber(1));
  app.add_option("--seq", options.length, "Tokens of a sequence")->transform(wholeNumber(1, 1 << 24));
  app.add_option("--seed", options.seed, "Of the order of samples, as mgrun's");
  app.add_flag("--packed", options.isPacked, "As a plan of packed documents (--reset-position-ids) takes them");
  app.add_option("--chat-template", chats.templateFile, "As mgrun's")->check(CLI::ExistingFile);
  app.add_option("--chat-template-kwargs", chats.variables, "As mgrun's");
  app.add_option("--sft-learn", flags.learn, "As mgrun's")
      ->check(CLI::IsMember(std::vector<std::string>(kSftLearnNames.begin(), kSftLearnNames.end())));
  app.add_option("--sft-ignore-fields", chats.form.ignored, "As mgrun's")->delimiter(',');
  app.add_flag("--json", options.isJson, "A line of JSON for each sample");
}

Status runShow(ShowFlags &flags) {
  flags.options.reading.chats.form.learn =
      SftLearn(std::ranges::find(kSftLearnNames, flags.learn) - kSftLearnNames.begin());
  flags.options.reading.reading.stop = &stopRequested;
  return showSamples(flags.options);
}

int printCompletion(const CLI::App &app, const std::string &shell) {
  const auto noOthers = [](const CLI::Option &) { return std::vector<std::string>(); };
  const Result<std::string> script = completionScript(app, shell, noOthers);
  if (!script.isOk())
    return fail(script.status());
  say(stdout, "{}", *script);
  return leave(checkOutput());
}

} // namespace

int main(int argc, char **argv) {
  prepareProcess("mgc-data", 128);
  ignoreClosedPipes();
  CLI::App app("Makes the indexed files of token ids that mgrun --data-path reads (docs/data.md).");
  app.name("mgc-data");
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default();
  app.set_version_flag("--version", versionText("mgc-data", {commandLineLibrary()}));
  PreprocessFlags preprocessFlags;
  preprocessFlags.options.workers = static_cast<int>(availableCores().size());
  CLI::App *preprocessApp =
      app.add_subcommand("preprocess", "JSON lines to .bin and .idx, as preprocess_data.py of Megatron-LM");
  addPreprocess(*preprocessApp, preprocessFlags);
  MergeFlags mergeFlags;
  CLI::App *mergeApp = app.add_subcommand("merge", "Several .bin and .idx to one");
  mergeApp->add_option("--input", mergeFlags.inputs, "Prefixes in their order, or folders")->required();
  mergeApp->add_option("--output-prefix", mergeFlags.output, "Of the new files")->required()->check(notEmpty());
  ShowFlags showFlags;
  CLI::App *showApp =
      app.add_subcommand("show", "Samples as a training reads them: text, ids, what is learned, documents");
  addShow(*showApp, showFlags);
  std::vector<std::string> described;
  CLI::App *infoApp = app.add_subcommand("info", "What is in .bin and .idx; checks them");
  infoApp->add_option("prefix", described, "Prefixes of files")->required();
  std::string shell;
  CLI::App *completionApp = addCompletion(app, shell);
  if (!isCommandLine(app, {argv + 1, argv + argc}))
    return 2;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return leaveWith(app, error);
  }
  if (completionApp->parsed())
    return printCompletion(app, shell);
  if (preprocessApp->parsed()) {
    stopAtRequests();
    return runPreprocess(preprocessFlags);
  }
  if (showApp->parsed())
    stopAtRequests();
  Status status = mergeApp->parsed() ? merge(mergeFlags) : showApp->parsed() ? runShow(showFlags) : Status::ok();
  for (const std::string &path : described)
    if (Status found = describe(path); !found.isOk())
      status = found;
  if (!status.isOk() && stopRequested) {
    fail(status);
    return 130;
  }
  return leave(status.isOk() ? checkOutput() : status);
}
