// The options of a run: what mgrun takes as flags. A row is all that is said of an option besides its use. The command
// line, its help, docs/run-options.md, the comparison of ranks, the settings in a checkpoint and the refusal of options that
// would do nothing are made of the rows.
#pragma once

#include "runtime/checkpoint/CheckpointRecord.h"
#include "runtime/train/Training.h"

#include <limits>
#include <variant>

namespace mgc {

template <typename Value> using OptionMember = Value &(*)(TrainingOptions & options);
// Sets a member whose type is an enumeration; the word is one of the range.
using SetWord = void (*)(TrainingOptions &options, const std::string &word);
using RunMember = std::variant<OptionMember<bool>, OptionMember<int>, OptionMember<int64_t>, OptionMember<uint64_t>,
                               OptionMember<double>, OptionMember<std::string>, OptionMember<std::optional<int>>,
                               OptionMember<std::optional<int64_t>>, OptionMember<std::optional<uint64_t>>,
                               OptionMember<std::optional<double>>, OptionMember<std::optional<std::string>>,
                               OptionMember<std::vector<std::string>>, OptionMember<std::vector<int64_t>>, SetWord>;

// OptionRange: which values are accepted.
struct OptionRange {
  enum class Kind { any, notEmpty, file, path, whole, number, words } kind = Kind::any; // file, path: one that exists
  int64_t least = std::numeric_limits<int64_t>::min(),
          most = std::numeric_limits<int64_t>::max(); // bounds of whole
  double lowest = std::numeric_limits<double>::lowest(),
         highest = std::numeric_limits<double>::max(); // bounds of number
  std::vector<std::string> words = {};                 // all, of kind words; of another kind proposals for completion
};

// Agrees: whether the processes of a run must have the same value, and whether the run that goes on from a checkpoint must.
enum class Agrees {
  no,
  elsewhere, // compared in another form: another option's value, the plan's hash, where the run starts, the data of each step
  run,       // yes; a run that goes on may have another
  noted,      // likewise, and says so: when steps are skipped, what is evaluated, precision
  evaluation, // likewise; and validation losses of different values are not compared
  data,       // yes, and so must the run that goes on from a checkpoint
  contents,   // likewise, by the hash of its contents (DataSource::identity): the value is the name of a file
  corpus,     // likewise, where there is --data-path
  optimizer   // likewise; --override-opt-param-scheduler allows other values
};

// IdleWhen: in such a run the option would do nothing.
struct IdleWhen {
  bool (*isSo)(const TrainingOptions &options);
  std::string_view why;
};

// Plans that an option means something for.
enum class PlanKind { any, cpu, bf16Cpu, device };

struct OptionDetails {
  std::vector<std::string> needs = {}, excludes = {}; // flags
  std::vector<IdleWhen> idle = {};
  PlanKind plans = PlanKind::any;
  std::optional<plan::Optimizer> optimizer = {}; // the plans' optimizer that it means something for; none: any
  std::string values = {};                       // names of the whole numbers of a list: as many as there are names
  std::string none = "none", some = {}; // text of no value; of any value, where the value itself is not compared
  std::string (*text)(const TrainingOptions &options) = nullptr; // writes the value; null: the member's
  bool (*absent)(const TrainingOptions &options) = nullptr; // where the option is no setting of the run; null: nowhere
  bool isOfCommand =
      false; // belongs to this command or process alone, and is not among the options that --save writes (RunFile.h)
};

struct RunOption {
  // `agrees` has no default: whoever adds an option says it.
  RunOption(std::string names, RunMember member, OptionRange range, Agrees agrees, std::string help,
            OptionDetails details = {})
      : names(std::move(names)), member(member), range(std::move(range)), agrees(agrees), help(std::move(help)),
        details(std::move(details)) {}
  std::string names; // "--save-interval,--persistent-save-interval"; "!--no-x" turns a switch off
  RunMember member;
  OptionRange range;
  Agrees agrees;
  std::string help;
  OptionDetails details;
  std::string group = {}; // heading in docs/run-options.md

  std::string flag() const { return names.substr(0, names.find(',')); } // the first name
  bool isCompared() const { return agrees != Agrees::no && agrees != Agrees::elsewhere; }
  bool isSwitch() const { return std::holds_alternative<OptionMember<bool>>(member); }
  // The value, for people and to compare; none where the option is no setting of the run.
  std::optional<std::string> textIn(const TrainingOptions &options) const;
  // The member's value alone; empty if a word sets it.
  std::string valueIn(const TrainingOptions &options) const;
};

// In the order of mgrun --help.
const std::vector<RunOption> &runOptions();

// The options of these kinds that are settings of the run, as flags and values.
Settings settingsOf(const TrainingOptions &options, std::initializer_list<Agrees> kinds);

// The first `count` rates of --lr-list.
std::string textOfRates(const TrainingOptions &options, int64_t count);

// Whether the user gave a flag, as "--min-lr".
using IsGiven = std::function<bool(const std::string &flag)>;
// Refuses all given options that would do nothing, each with the reason.
Status verifyEffect(const TrainingOptions &options, const IsGiven &isGiven);

// Lines of RunIdentity and of messages must be short, and have no control characters: the text, or its hash.
std::string shortened(const std::string &text);

} // namespace mgc
