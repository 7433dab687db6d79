// See Translation.h.
#include "tools/translate/Translation.h"

#include "frontend/Load.h"
#include "runtime/base/File.h"
#include "tools/commands/Flags.h"
#include "tools/translate/LineRules.h"
#include "tools/translate/LineSorter.h"
#include "tools/translate/LineTokenizer.h"
#include "tools/translate/RunOfLine.h"

#include <algorithm>
#include <filesystem>
#include <fmt/ranges.h>

namespace mgc::tools {

namespace {

namespace fs = std::filesystem;

// The words that are translated, and the model, where one is given.
struct Sources {
  std::string model;
  std::vector<std::string> words;
};

// A folder, or a file that begins as JSON does, is a model.
Result<bool> isModel(const std::string &path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored) || path.ends_with(".json"))
    return true;
  constexpr int64_t kMost = 64 << 20;
  MGC_ASSIGN(text, readFile(path, kMost));
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != text.npos && text[begin] == '{';
}

Result<Sources> sourcesOf(const TranslateFlags &flags) {
  Sources sources;
  for (const std::string &path : flags.sources) {
    MGC_ASSIGN(isOfModel, isModel(path));
    if (isOfModel && !sources.model.empty())
      return errorf("{} and {} are two models, expected one", sources.model, path);
    if (isOfModel) {
      sources.model = path;
      continue;
    }
    MGC_ASSIGN(words, wordsOfFile(path));
    if (words.empty())
      return errorf("{}: is empty, expected flags of Megatron-LM", path);
    sources.words.insert(sources.words.end(), words.begin(), words.end());
  }
  sources.words.insert(sources.words.end(), flags.line.begin(), flags.line.end());
  if (sources.words.empty())
    return errorf("there is no line to translate, expected a file of flags, or flags behind --: mgc translate -- "
                  "--num-layers 24 ..");
  return sources;
}

// Other programs of Megatron-LM than that of decoders.
std::string problemOfProgram(const std::string &program) {
  constexpr std::string_view kDecoders = "pretrain_gpt.py";
  const bool isOther = program.starts_with("pretrain_") && program != kDecoders;
  return isOther ? fmt::format("{} trains another model than a decoder: mgc translate MODEL -- .. takes the model from "
                               "a config.json",
                               program)
                 : "";
}

class Translator {
public:
  Translator(const TranslateFlags &flags, const frontend::Supported &supported)
      : flags_(flags), supported_(supported) {}

  Result<Translation> run() {
    MGC_ASSIGN(sources, sourcesOf(flags_));
    MGC_SET(line_, lineOf(sources.words));
    std::optional<frontend::ModelFile> file;
    LineModel made;
    if (sources.model.empty()) {
      made = modelOf(line_);
      MGC_TRY(loadMade(made, file));
    } else {
      MGC_SET(file, asOptional(frontend::loadModel(sources.model)));
      result_.model = sources.model;
    }
    const frontend::ModelDescription *model = file ? &file->model : nullptr;
    result_.draft = sortLine({line_, model, sources.model.empty() ? &made : nullptr, supported_});
    result_.draft.assumed = made.assumed;
    applyRules(result_.draft, line_, model);
    writeCommands();
    if (result_.problem.empty())
      result_.problem = fmt::format("{}", fmt::join(result_.draft.problems, "; "));
    if (file && result_.problem.empty())
      result_.problem = problemOfLayout(*file);
    if (result_.problem.empty())
      result_.problem = problemOfRun(result_.draft);
    return std::move(result_);
  }

private:
  const TranslateFlags &flags_;
  const frontend::Supported &supported_;
  MegatronLine line_;
  Translation result_;

  static Result<std::optional<frontend::ModelFile>> asOptional(Result<frontend::ModelFile> file) {
    MGC_TRY(file.status());
    return std::optional(file.take());
  }

  std::string inFolder(const std::string &name) const {
    return flags_.output.empty() ? name : (fs::path(flags_.output) / name).string();
  }

  // The model that the line describes; a problem, where that is none.
  Status loadMade(const LineModel &made, std::optional<frontend::ModelFile> &file) {
    result_.model = inFolder("config.json");
    result_.problem = problemOfProgram(line_.program);
    if (result_.problem.empty() && !made.problems.empty())
      result_.problem =
          fmt::format("the line describes no model: {}; mgc translate MODEL -- .. takes it from a config.json",
                      fmt::join(made.problems, ", "));
    if (!result_.problem.empty())
      return Status::ok();
    result_.config = made.config;
    auto loaded = frontend::parseModel(made.config.dump(), "config.json");
    if (loaded.isOk())
      file = loaded.take();
    else
      result_.problem = loaded.status().message();
    return Status::ok();
  }

  CommandWords commandOf(std::string_view tool, CommandWords words) const {
    for (const CommandOption &option : result_.draft.options)
      if (option.tool == tool)
        words.insert(words.end(), option.words.begin(), option.words.end());
    return words;
  }
  void writeCommands() {
    const auto isOfTexts = [](const CommandOption &option) { return option.tool == kPreprocess; };
    if (std::ranges::any_of(result_.draft.options, isOfTexts)) {
      CommandWords words =
          commandOf(kPreprocess, {"mgc-data", "preprocess", "--input", "TEXTS.jsonl", "--output-prefix", "TEXTS"});
      if (const LineFlag *size = line_.last({"--vocab-size"}); size && isNullTokenizer(line_))
        if (const auto tokenizer = tokenizerOf(line_))
          words.insert(words.end(), {size->name, std::to_string(tokenizer->vocabulary())});
      words.emplace_back("--append-eod");
      result_.preprocess.push_back(std::move(words));
    }
    CommandWords compile = commandOf(kCompile, {"mgc", "compile", result_.model});
    compile.insert(compile.end(), {"-o", inFolder("plan")});
    result_.commands.push_back(std::move(compile));
    result_.commands.push_back(commandOf(kRun, {"mgrun", inFolder("plan")}));
  }

  std::string problemOfLayout(const frontend::ModelFile &file) const {
    const CommandWords &compile = result_.commands.front();
    const Result<CompileFlags> parsed = parseCompileFlags({compile.begin() + 2, compile.end()}, supported_);
    if (!parsed.isOk())
      return parsed.status().message();
    const auto layout = frontend::resolveLayout(file.model, parsed->layout, file.defaults, supported_);
    return layout.isOk() ? "" : layout.status().message();
  }
};

} // namespace

bool Translation::isWhole() const {
  return std::ranges::none_of(draft.flags, [](const TranslatedFlag &flag) {
    return flag.group == FlagGroup::unsupported || flag.group == FlagGroup::needsValue;
  });
}

std::vector<std::string> Translation::unread() const {
  std::vector<std::string> flags;
  for (const TranslatedFlag &flag : draft.flags)
    if (flag.group == FlagGroup::needsValue)
      flags.push_back(fmt::format("{} ({})", flag.flag.name, flag.text));
  return flags;
}

Result<Translation> translate(const TranslateFlags &flags, const frontend::Supported &supported) {
  return Translator(flags, supported).run();
}

} // namespace mgc::tools
