// The command line of mgc, parsed into plain structs.
#pragma once

#include "frontend/layout/Layout.h"
#include "model/ModelFlags.h"

namespace mgc::tools {

inline constexpr std::string_view kTranslate = "translate"; // the command that is a program of its own

// Flags of the search, which are mgrun's to answer too.
inline constexpr const char *kAutoFlag = "--auto", *kDevicesFlag = "--devices", *kTopFlag = "--top",
                            *kWhyFlag = "--why", *kExplainFlag = "--explain", *kParetoFlag = "--pareto",
                            *kSensitivityFlag = "--sensitivity", *kImbalanceFlag = "--load-imbalance";

// --explain: options of a layout, as the text has them: "tp=4,pp=8".
struct ExplainedOptions {
  std::string text;
  frontend::LayoutOptions options;
};

// --auto, and the flags that are read beside it, or where an option is `auto`.
struct AutoFlags {
  bool isOn = false;
  std::vector<int64_t> devices;            // --devices; empty: as many as the layout's flags say
  int64_t top = 5;                         // --top: how many layouts are compiled and printed
  bool why = false;                        // --why: the best layout with another value of each option
  bool pareto = false;                     // --pareto: the fastest layouts within less memory
  bool sensitivity = false;                // --sensitivity: the order of the layouts on machines that differ
  std::vector<ExplainedOptions> explained; // --explain
  std::optional<double> imbalance;         // --load-imbalance: see StepAssumptions
  bool json = false;                       // --json
  std::string html;                        // --html: file for the page; empty: none
  int64_t trainSamples = 0;                // --train-samples; 0: how long a training takes is not asked for
};

struct CompileFlags {
  std::string model;  // config.json, model.json, a folder with one, or .mlir
  std::string output; // PLAN/
  frontend::LayoutOptions layout;
  std::vector<frontend::GivenModelFlag> facts; // facts of the model, as Megatron-LM's flags say them
  std::string config;                          // --config; the flags have what it says
  std::vector<std::string> ofConfig;           // flags that come from it
  std::string rules;                           // --rules F: a placement table
  std::string cpu;                             // --target-cpu; empty: kernels for every level
  bool force = false;                          // --force: replace a plan.json that is none of ours
  bool fusion = true;                          // --no-fusion
  AutoFlags automatic;
  bool evaluation = false;     // --evaluation
  bool triesNeighbours = true; // where the plan does not fit the machine
  std::vector<int64_t> rampup; // --rampup-batch-size: three numbers, or none
  std::string tuneThreads;     // --tune-products; empty: no tuning, 0: as many as a rank has here
  std::string tuneCache;       // --tune-cache; empty: the default one
  std::string from, to, dump;  // --compile-from, --compile-to, --dump-phases
};

struct ExplainFlags {
  std::string plan; // folder; empty with --print alone
  bool json = false;
  std::string schedule; // --schedule: "rows" or "csv"; empty: everything else
  int64_t width = 0;    // columns of the schedule; 0: those of the terminal
  std::string machine;  // --machine: name or file; empty: by the plan's target
  std::string stack;    // --stack: name or file; empty: our own
  double imbalance = 1; // --load-imbalance: see StepAssumptions
  bool print = false;   // --print: the machine's or the stack's file alone; the plan is empty
  std::string html;     // --html: file for the page; empty: text or JSON
  bool force = false;   // --force: the page replaces a file of another kind
};

struct CompareFlags {
  std::vector<std::string> logs;
  std::string html;   // --html: file for the page; empty: text
  bool force = false; // --force: the page replaces a file of another kind
};

struct Flags {
  enum class Command { compile, explain, compare, options } command = Command::compile;
  CompileFlags compile;
  ExplainFlags explain;
  CompareFlags compare;
  bool schema = false, vocabulary = false, names = false; // flags of `mgc options`
};

// Parses; on --help or a usage error prints it and gives the exit code (0 or 2) instead.
struct Parsed {
  Flags flags;
  int exitCode = -1; // >= 0: leave with it
};
// Names of phases, for completion.
struct PhaseNames {
  std::vector<std::string> modules, texts; // phases that give a module; phases after them, which print
};
// `version`: what --version prints.
Parsed parseFlags(int argc, char **argv, const std::string &version, const frontend::Supported &supported,
                  const PhaseNames &phases);

// Whether a search chooses options of the layout: --auto, or --tp auto.
bool isSearch(const CompileFlags &flags);
// These flags: "--auto", "--tp auto --mbs auto".
std::string searchText(const CompileFlags &flags);

// The words of mgc compile behind its name; an error says what is wrong with them.
Result<CompileFlags> parseCompileFlags(std::vector<std::string> words, const frontend::Supported &supported);

} // namespace mgc::tools
