// See RunFlags.h.
#include "tools/run/RunFlags.h"

#include "runtime/base/Cores.h"
#include "runtime/base/File.h"
#include "runtime/base/Json.h"
#include "runtime/train/RunFile.h"
#include "tools/flags/ConfigFile.h"
#include "tools/flags/FlagChecks.h"

namespace mgc::tools {

namespace {

CLI::Validator checkOf(const OptionRange &range) {
  switch (range.kind) {
  case OptionRange::Kind::any:
    return CLI::Validator();
  case OptionRange::Kind::notEmpty:
    return notEmpty();
  case OptionRange::Kind::file:
    return CLI::ExistingFile;
  case OptionRange::Kind::path:
    return CLI::ExistingPath;
  case OptionRange::Kind::whole:
    return wholeNumber(range.least, range.most);
  case OptionRange::Kind::number:
    return finiteNumber(range.lowest, range.highest);
  case OptionRange::Kind::words:
    return CLI::IsMember(range.words);
  }
  return CLI::Validator();
}

// RunFlagMaker: declares a row to CLI11, by the type of its member.
struct RunFlagMaker {
  CLI::App &app;
  TrainingOptions &options;
  const RunOption &row;

  CLI::Option *operator()(SetWord set) const {
    const auto read = [set, &options = options](const std::string &word) { set(options, word); };
    return checked(app.add_option_function<std::string>(row.names, read, row.help));
  }
  CLI::Option *operator()(OptionMember<bool> member) const {
    return app.add_flag(row.names, member(options), row.help);
  }
  CLI::Option *operator()(OptionMember<std::vector<int64_t>> member) const {
    std::vector<int64_t> &values = member(options);
    const std::string &names = row.details.values;
    if (names.empty())
      return addList<int64_t>(
          app, row.names, [&values](std::vector<int64_t> given) { values = std::move(given); }, row.help,
          checkOf(row.range));
    const auto count = static_cast<int>(std::ranges::count(names, ' ')) + 1;
    return checked(app.add_option(row.names, values, row.help)->type_name(names)->expected(count));
  }
  template <typename Value> CLI::Option *operator()(OptionMember<Value> member) const {
    return checked(app.add_option(row.names, member(options), row.help));
  }
  CLI::Option *checked(CLI::Option *option) const {
    return row.range.kind == OptionRange::Kind::any ? option : option->transform(checkOf(row.range));
  }
};

// The schedule counts in samples.
void readSampleFlags(TrainingOptions &training) {
  if (!training.trainSamples)
    return;
  const TypedOptions &typed = training.typed;
  if (!typed.rampup.empty())
    training.rampup = {typed.rampup[0], typed.rampup[1], typed.rampup[2]};
  training.trainIters = *training.trainSamples;
  OptimizerOptions &optimizer = training.optimizer;
  optimizer.bySamples = true;
  optimizer.lrDecay = typed.lrDecaySamples.value_or(0);
  optimizer.lrWarmup = typed.lrWarmupSamples.value_or(0);
  optimizer.lrWsdDecay = typed.lrWsdDecaySamples.value_or(0);
}

Result<std::vector<double>> readRates(const std::string &path) {
  MGC_ASSIGN(text, readFile(path, 64 << 20));
  MGC_ASSIGN(json, parseJson(text).at(path));
  if (!json.is_array() || json.empty())
    return errorf("{}: expected a JSON array of one learning rate per step", path);
  std::vector<double> rates;
  for (const nlohmann::json &rate : json) {
    if (!rate.is_number() || rate.get<double>() < 0)
      return errorf("{}: element {} is {}, expected a number that is not negative", path, rates.size(), rate.dump());
    rates.push_back(rate.get<double>());
  }
  return rates;
}

int64_t warmupOf(const TrainingOptions &training, double fraction) {
  const int64_t decay = training.optimizer.lrDecay;
  return std::llround(fraction * static_cast<double>(decay > 0 ? decay : training.scheduleLength()));
}

Result<BlendWords> blendOf(std::string_view flag, const std::vector<std::string> &words,
                           std::vector<std::string> &notes) {
  MGC_ASSIGN(blend, parseBlend(flag, words));
  for (std::string &prefix : blend.prefixes) {
    FoundPrefix found = findPrefix(prefix);
    if (!found.note.empty())
      notes.push_back(fmt::format("{} {}", flag, found.note));
    prefix = std::move(found.prefix);
  }
  return blend;
}

} // namespace

std::vector<std::string> flagsOf(const RunOption &row) {
  std::vector<std::string> names = splitAtCommas(row.names);
  for (std::string &name : names)
    name.erase(0, name.find_first_not_of('!'));
  return names;
}

void addRunFlags(CLI::App &app, TrainingOptions &options) {
  for (const RunOption &row : runOptions())
    std::visit(RunFlagMaker{app, options, row}, row.member)->required(!row.names.starts_with('-'));
  for (const RunOption &row : runOptions()) {
    CLI::Option *option = app.get_option(row.flag());
    for (const std::string &flag : row.details.needs)
      option->needs(app.get_option(flag));
    for (const std::string &flag : row.details.excludes)
      option->excludes(app.get_option(flag));
  }
}

std::vector<std::string> proposedWords(const CLI::Option &option) {
  const auto isRow = [&](const RunOption &row) { return option.check_name(row.flag()); };
  const auto row = std::ranges::find_if(runOptions(), isRow);
  return row == runOptions().end() ? std::vector<std::string>() : row->range.words;
}

std::string runFileText(const CLI::App &app) {
  std::vector<ConfigEntry> entries;
  for (const RunOption &row : runOptions()) {
    const CLI::Option *option = app.get_option(row.flag());
    if (option->count() > 0 && !row.details.isOfCommand)
      entries.push_back({row.flag().substr(row.flag().starts_with("--") ? 2 : 0), option->results()});
  }
  return fmt::format("{}: mgrun --config FILE --save OTHER repeats it. Paths are as they were typed.\n{}",
                     kRunFileBegins, configText(entries));
}

Status readCorpusFlags(TrainingOptions &options, std::vector<std::string> &notes) {
  const TypedOptions &typed = options.typed;
  const bool isPerSplit = !typed.dataPaths[size_t(Split::train)].empty();
  if (!isPerSplit && typed.dataPath.empty())
    return Status::ok();
  CorpusFiles &files = options.corpus.files;
  for (const Split split : kSplits) {
    MGC_SET(files.perSplit[size_t(split)],
            blendOf(fmt::format("--{}-data-path", toString(split)), typed.dataPaths[size_t(split)], notes));
  }
  MGC_ASSIGN(blend, blendOf("--data-path", typed.dataPath, notes));
  MGC_ASSIGN(split, parseSplit(typed.split));
  files.blend = std::move(blend), files.split = split;
  return Status::ok();
}

Status readRunFlags(TrainingOptions &options) {
  TypedOptions &typed = options.typed;
  options.timeout = std::chrono::milliseconds(static_cast<int64_t>(typed.timeoutSeconds * 1000));
  if (!typed.lrList.empty()) {
    MGC_SET(options.optimizer.lrList, readRates(typed.lrList));
    options.inputs.push_back({"--lr-list", typed.lrList});
  }
  readSampleFlags(options);
  if (typed.warmupFraction)
    options.optimizer.lrWarmup = warmupOf(options, *typed.warmupFraction);
  using Mode = LaunchFlags::Mode;
  typed.launch.mode = typed.launchBy == "none" ? Mode::none : typed.launchBy == "env" ? Mode::env : Mode::automatic;
  MGC_SET(options.launch, launchOf(typed.launch));
  return Status::ok();
}

std::vector<std::string> doubtsAbout(const TrainingOptions &options) {
  const OptimizerOptions &optimizer = options.optimizer;
  std::vector<std::string> doubts;
  if (optimizer.lrList.empty() && optimizer.lrDecayStyle != "constant" && optimizer.lrDecay > 0 &&
      optimizer.lrDecay < options.scheduleLength())
    doubts.push_back(fmt::format("--lr-decay-{} {} ends before the {} {} of the training: the last {} "
                                 "have the rate --min-lr {}{}",
                                 optimizer.bySamples ? "samples" : "iters", optimizer.lrDecay, options.scheduleLength(),
                                 optimizer.bySamples ? "samples" : "steps",
                                 options.scheduleLength() - optimizer.lrDecay, optimizer.minLr,
                                 optimizer.minLr == 0 ? ", which trains nothing" : ""));
  if (const auto cores = std::ssize(availableCores()); options.threads > cores)
    doubts.push_back(fmt::format("--threads {}: a rank has more threads than the {} cores of this process, and its "
                                 "threads wait for each other; 0 divides the cores over the ranks",
                                 options.threads, cores));
  return doubts;
}

} // namespace mgc::tools
