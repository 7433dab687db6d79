#include "tools/commands/Flags.h"

#include "tools/commands/LayoutFlags.h"
#include "tools/commands/TranslateFlags.h"
#include "tools/flags/Completion.h"
#include "tools/flags/ConfigFile.h"
#include "tools/flags/FlagChecks.h"
#include "tools/flags/Usage.h"
#include "tools/process/Process.h"

using namespace mgc;
using namespace mgc::tools;

namespace {

void addTuning(CLI::App &app, CompileFlags &flags) {
  CLI::Option *tune = app.add_flag("--tune-products{0}", flags.tuneThreads,
                                   "Measure on this machine how to compute each matrix product; =THREADS: with so "
                                   "many of a rank (0, the default: the cores here over the ranks)");
  tune->transform(wholeNumber(0, 1024))->excludes(app.get_option("--compile-to"));
  app.add_option("--tune-cache", flags.tuneCache,
                 "File that remembers what was measured (default: mgc/products.json in $XDG_CACHE_HOME or ~/.cache)")
      ->check(notEmpty())
      ->needs(tune);
}

std::function<void(const std::vector<std::string> &)> readExplained(std::vector<ExplainedOptions> &explained,
                                                                    const frontend::Supported &supported) {
  return [&](const std::vector<std::string> &texts) {
    for (const std::string &text : texts) {
      const Result<frontend::LayoutOptions> options = parseLayoutKeys(text, supported);
      if (!options.isOk())
        throw CLI::ValidationError(kExplainFlag, options.status().message());
      explained.push_back({text, *options});
    }
  };
}

// A number, or one that may be missing. `start`: of the help.
CLI::Option *addImbalance(CLI::App &app, auto &imbalance, const std::string &start) {
  return app
      .add_option(kImbalanceFlag, imbalance,
                  start + " where the fullest rank has so many times the mean of experts' rows (1: as many as all)")
      ->transform(finiteNumber(1, 1e9));
}

constexpr const char *kSearchGroup = "Search";

void addAuto(CLI::App &app, AutoFlags &flags, const frontend::Supported &supported) {
  constexpr int64_t kMostDevices = 1 << 24, kMostLayouts = 100, kMostSizes = 32;
  CLI::App &group = *app.add_option_group(kSearchGroup);
  group
      .add_flag(kAutoFlag, flags.isOn,
                "Search the fastest layout that fits, as predicted, docs/planner.md; flags that are given are "
                "fixed. --tp auto in its place searches tp alone, and so with each option that has the value auto; "
                "--auto split, which is --stages auto, the cut of a given pipeline. Without -o it is printed alone")
      ->disable_flag_override();
  addList<int64_t>(
      group, kDevicesFlag, [&flags](std::vector<int64_t> devices) { flags.devices = std::move(devices); },
      "With a search: devices, a rank each; several numbers, 64,128,256: the best layout of each (default: --world, or "
      "--tp, --cp, --pp and --dp multiplied)",
      wholeNumber(1, kMostDevices), kMostSizes);
  group
      .add_option(kTopFlag, flags.top, "With a search: so many layouts, the fastest, are compiled, proved and printed")
      ->transform(wholeNumber(1, kMostLayouts))
      ->capture_default_str();
  group
      .add_flag(kWhyFlag, flags.why,
                "With a search: for each option that was searched the best layout with another value, by a search each")
      ->disable_flag_override();
  group
      .add_option_function<std::vector<std::string>>(kExplainFlag, readExplained(flags.explained, supported),
                                                     "With a search: the best layout with these options, tp=4,pp=8, "
                                                     "how much slower it is than the first, and why; "
                                                     "several are each a layout")
      ->type_size(1)
      ->expected(1, CLI::detail::expected_max_vector_size);
  group
      .add_flag(kParetoFlag, flags.pareto,
                "With a search: the fastest layouts within less and less memory, by a search each")
      ->disable_flag_override();
  group
      .add_flag(kSensitivityFlag, flags.sensitivity,
                "With a search: whether the layouts come in another order where links, products, attention or memory "
                "are slower or faster than the machine says")
      ->disable_flag_override();
  addImbalance(group, flags.imbalance, "With a search: steps");
  group.add_flag("--json", flags.json, "With a search: machine-readable")->disable_flag_override();
  group
      .add_option("--html", flags.html,
                  "With a search: file (.html) for all of it as a page to look at in a browser too")
      ->check(notEmpty());
  group
      .add_option("--train-samples", flags.trainSamples,
                  "With a search: sequences of a whole training, whose days and device-hours are printed")
      ->transform(wholeNumber(1));
}

void addCompile(CLI::App &app, CompileFlags &flags, const frontend::Supported &supported) {
  app.add_option("model", flags.model, "Hugging Face config.json, model.json (or a folder with one), or .mlir")
      ->required()
      ->check(notEmpty());
  app.add_option("-o,--output", flags.output, "Folder of the plan")->check(notEmpty());
  app.add_option(std::string(kConfigFlag), flags.config, kConfigHelp)->check(notEmpty());
  addLayoutFlags(app, flags.layout, supported);
  addAuto(app, flags.automatic, supported);
  app.add_option("--target-cpu", flags.cpu,
                 "Kernels for this CPU alone: native, x86-64-v3, x86-64-v4, znver4, ... (default: for AVX2 and "
                 "AVX-512, chosen at load)")
      ->check(notEmpty());
  app.add_option("--rules", flags.rules, "A JSON placement table that replaces Megatron-LM's: {\"f\": [\"tp\"], ...}")
      ->check(notEmpty());
  app.add_flag_callback(
         "--no-near-layouts", [&flags] { flags.triesNeighbours = false; },
         "Where the plan does not fit the machine's memory, try no others that might")
      ->disable_flag_override();
  auto *evaluation =
      app.add_flag("--evaluation", flags.evaluation,
                   "Beside the plan, in its folder evaluation, one that computes the loss alone, on which mgrun "
                   "evaluates between steps")
          ->disable_flag_override();
  auto *rampup =
      app.add_option("--rampup-batch-size", flags.rampup,
                     "Beside the plan, in its folders batch-SIZE, those of smaller batches, through which mgrun "
                     "--rampup-batch-size goes: START, START + INCREMENT, .. below the global batch")
          ->type_name("START INCREMENT SAMPLES")
          ->expected(3)
          ->transform(wholeNumber(1));
  app.add_flag("--force", flags.force, "Replace files in the way of -o that mgc did not write")
      ->disable_flag_override();
  app.add_flag_callback(
         "--no-fusion", [&] { flags.fusion = false; }, "Every operation between the products is a kernel of its own")
      ->disable_flag_override();
  auto *phases = app.add_option_group("Phases");
  phases->add_option("--compile-from", flags.from, "Phase the .mlir is in, fuse or earlier (default: what it says)")
      ->check(notEmpty());
  phases
      ->add_option("--compile-to", flags.to,
                   "Stop after this phase and write its IR, or its text after fuse, to -o FILE or standard output")
      ->excludes(evaluation)
      ->excludes(rampup)
      ->check(notEmpty());
  phases
      ->add_option("--dump-phases", flags.dump, "Folder for the IR after every phase, and the text of those after fuse")
      ->check(notEmpty());
  addTuning(app, flags);
}

void addExplain(CLI::App &app, ExplainFlags &flags) {
  CLI::Option *plan = app.add_option("plan", flags.plan, "Folder of the plan")->check(notEmpty());
  CLI::Option *json = app.add_flag("--json", flags.json, "Machine-readable");
  CLI::Option *schedule =
      app.add_flag("--schedule{rows}", flags.schedule,
                   "Print the order of tasks alone, one row per stage, as mgc compile --schedule FILE reads it; "
                   "=csv: as PyTorch does")
          ->check(CLI::IsMember({"rows", "csv"}))
          ->excludes(json);
  CLI::Option *width =
      app.add_option("--width", flags.width, "Columns of the schedule's picture (default: the terminal's, else 120)")
          ->transform(wholeNumber(20));
  CLI::Option *machine =
      app.add_option("--machine", flags.machine,
                     "Predict the step on this machine: its name (h100, ..; an unknown one lists all) or a machine "
                     "file, docs/cost.md (default: by the plan's target)")
          ->check(notEmpty());
  CLI::Option *stack =
      app.add_option(
             "--stack", flags.stack,
             "Predict the step as this stack would compute it: its name (megatron-2024, ..; an unknown one lists "
             "all) or a stack file, docs/cost.md (default: mgc, our own)")
          ->check(notEmpty())
          ->excludes(schedule);
  addImbalance(app, flags.imbalance, "Predict the step")->excludes(schedule);
  CLI::Option *html = app.add_option("--html", flags.html,
                                     "File (.html) for all of it as a page to look at in a browser, instead of text")
                          ->check(notEmpty())
                          ->excludes(json)
                          ->excludes(schedule)
                          ->excludes(width)
                          ->excludes(stack);
  app.add_flag("--force", flags.force, "Let --html replace a file that is no page of mgc")->needs(html);
  app.add_flag("--print", flags.print,
               "Print the file of --machine, or of --stack, alone, without a plan: a copy to change and give to "
               "--machine or --stack")
      ->disable_flag_override()
      ->excludes(plan)
      ->excludes(json)
      ->excludes(schedule)
      ->excludes(width)
      ->excludes(html);
}

void addCompare(CLI::App &app, CompareFlags &flags) {
  constexpr int kMostRuns = 10; // the page has as many colours
  app.add_option("logs", flags.logs, "Files of mgrun --log")->required()->expected(1, kMostRuns)->check(notEmpty());
  CLI::Option *html =
      app.add_option("--html", flags.html, "File (.html) for a page with the curves of all runs, instead of text")
          ->check(notEmpty());
  app.add_flag("--force", flags.force, "Let --html replace a file that is no page of mgc")
      ->disable_flag_override()
      ->needs(html);
}

} // namespace

// "--auto split" is "--stages auto": a flag, and what may stand behind it, is no option of the parser's.
static void spellOutSplit(std::vector<std::string> &words) {
  const std::string split = "split", cut = frontend::optionOf(&frontend::LayoutOptions::stages).flag;
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i] == fmt::format("{}={}", kAutoFlag, split)) {
      words[i] = fmt::format("{}={}", cut, frontend::kAutoCut);
    } else if (words[i] == kAutoFlag && i + 1 < words.size() && words[i + 1] == split) {
      words[i] = cut;
      words[i + 1] = frontend::kAutoCut;
    }
}

// The words of a command behind its name, without flags that only Megatron-LM has.
static Status takeForeign(const CLI::App &command, std::vector<std::string> &words, CompileFlags &flags,
                          SortedFlags &sorted) {
  MGC_SET(sorted, sortFlags(command, {words.begin() + 1, words.end()}, Tool::mgc));
  for (const std::string &note : sorted.notes)
    say(stderr, "mgc: {}\n", note);
  flags.facts = std::move(sorted.facts);
  flags.ofConfig = sorted.ofConfig;
  words.resize(1);
  std::ranges::move(sorted.words, std::back_inserter(words));
  return Status::ok();
}

bool mgc::tools::isSearch(const CompileFlags &flags) {
  return flags.automatic.isOn || frontend::leavesToSearch(flags.layout);
}

std::string mgc::tools::searchText(const CompileFlags &flags) {
  return flags.automatic.isOn ? kAutoFlag : frontend::flagsOf(frontend::openOf(flags.layout));
}

// Flags of a search do nothing without one.
static Status verifySearch(const CLI::App &compile, const CompileFlags &flags) {
  if (isSearch(flags))
    return Status::ok();
  for (const CLI::Option *option : compile.get_option_group(kSearchGroup)->get_options())
    if (option->count() > 0)
      return errorf("{} requires {}, or auto as the value of an option that is searched: --tp auto", option->get_name(),
                    kAutoFlag);
  return Status::ok();
}

static ProposedWords proposedWords(const frontend::Supported &supported, const PhaseNames &phases) {
  return [&](const CLI::Option &option) -> std::vector<std::string> {
    const auto &rows = frontend::layoutOptions();
    const auto isRow = [&](const frontend::LayoutOption &row) { return option.check_name(row.flag); };
    if (const auto row = std::ranges::find_if(rows, isRow); row != rows.end() && row->words)
      return row->words(supported);
    std::vector<std::string> words;
    if (option.check_name("--compile-from") || option.check_name("--compile-to"))
      words = phases.modules;
    if (option.check_name("--compile-to"))
      words.insert(words.end(), phases.texts.begin(), phases.texts.end());
    return words;
  };
}

static int printCompletion(const CLI::App &app, const std::string &shell, const ProposedWords &words) {
  const Result<std::string> script = completionScript(app, shell, words);
  if (script.isOk())
    say(stdout, "{}", *script);
  const Status printed = script.isOk() ? checkOutput() : script.status();
  if (!printed.isOk())
    say(stderr, "mgc: {}\n", printed.message());
  return printed.isOk() ? 0 : 1;
}

Parsed mgc::tools::parseFlags(int argc, char **argv, const std::string &version, const frontend::Supported &supported,
                              const PhaseNames &phases) {
  Parsed parsed;
  CLI::App app("mgc: compiles a transformer and a layout into checked plans for every rank", "mgc");
  app.require_subcommand(1);
  app.set_version_flag("--version", version);
  auto *compile = app.add_subcommand("compile", "Compile a model into a plan");
  addCompile(*compile, parsed.flags.compile, supported);
  auto *explain =
      app.add_subcommand("explain", "Say what a plan does: layout, memory, traffic, schedule, predicted time");
  addExplain(*explain, parsed.flags.explain);
  auto *compare =
      app.add_subcommand("compare", "Compare runs by their logs: losses, gradient norms, tokens per second");
  addCompare(*compare, parsed.flags.compare);
  auto *options = app.add_subcommand("options", "Print the reference of the layout's options (docs/options.md)");
  auto *schema = options->add_flag("--schema", parsed.flags.schema, "The JSON schema of model.json's \"mgc\" instead");
  options
      ->add_flag("--model", parsed.flags.vocabulary,
                 "The fields of a model's description instead (docs/model-vocabulary.md)")
      ->excludes(schema);
  options->add_flag("--names", parsed.flags.names, "The names of all options instead, as JSON")->excludes(schema);
  TranslateFlags ofTranslate; // for completion: mgc starts another program, which reads them
  addTranslateFlags(
      *app.add_subcommand(std::string(kTranslate), "Translate a command line of Megatron-LM (docs/megatron-lm.md)"),
      ofTranslate);
  std::string shell;
  auto *completion = addCompletion(app, shell);
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!isCommandLine(app, words, compile->get_name())) {
    parsed.exitCode = 2;
    return parsed;
  }
  SortedFlags sorted;
  if (!words.empty() && words.front() == compile->get_name()) {
    spellOutSplit(words);
    if (const Status taken = takeForeign(*compile, words, parsed.flags.compile, sorted); !taken.isOk()) {
      say(stderr, "mgc compile: {}\n", taken.message());
      parsed.exitCode = 2;
      return parsed;
    }
  }
  try {
    std::ranges::reverse(words); // as the parser wants them
    app.parse(std::move(words));
  } catch (const CLI::ParseError &error) {
    parsed.exitCode = leaveWith(app, error, sorted);
    return parsed;
  }
  if (completion->parsed())
    parsed.exitCode = printCompletion(app, shell, proposedWords(supported, phases));
  parsed.flags.command = explain->parsed()   ? Flags::Command::explain
                         : compare->parsed() ? Flags::Command::compare
                         : options->parsed() ? Flags::Command::options
                                             : Flags::Command::compile;
  if (explain->parsed() && parsed.flags.explain.plan.empty() && !parsed.flags.explain.print) {
    say(stderr, "mgc explain: PLAN is missing: the folder of the plan\n");
    parsed.exitCode = 2;
  }
  if (const Status search = verifySearch(*compile, parsed.flags.compile); compile->parsed() && !search.isOk()) {
    say(stderr, "mgc compile: {}\n", search.message());
    parsed.exitCode = 2;
  } else if (compile->parsed() && parsed.flags.compile.output.empty() && parsed.flags.compile.to.empty() &&
             !isSearch(parsed.flags.compile)) {
    say(stderr, "mgc compile: -o PLAN/ is missing: the folder to write the plan to\n");
    parsed.exitCode = 2;
  }
  return parsed;
}

Result<CompileFlags> mgc::tools::parseCompileFlags(std::vector<std::string> words,
                                                   const frontend::Supported &supported) {
  CompileFlags flags;
  CLI::App app;
  addCompile(app, flags, supported);
  try {
    std::ranges::reverse(words);
    app.parse(std::move(words));
  } catch (const CLI::ParseError &error) {
    return errorf("{}", error.what());
  }
  return flags;
}
