// The options of a layout: what `mgc compile` takes as flags, model.json as the keys of "mgc", and what is written of them
// into the program. A row is all that is said of an option besides its use; the command line, its help, docs/options.md and
// docs/model.schema.json are made of the rows.
#pragma once

#include "frontend/layout/Searched.h"

#include <limits>
#include <variant>

namespace mgc::frontend {

template <typename T> using OptionField = std::optional<T> LayoutOptions::*;

// A whole number, a switch, a word, words, whole numbers or a number.
using AnyOptionField =
    std::variant<OptionField<int64_t>, OptionField<bool>, OptionField<std::string>,
                 OptionField<std::vector<std::string>>, OptionField<std::vector<int64_t>>, OptionField<double>>;
// A member of a resolved layout, most often a field of mg.training.
using ResolvedField =
    std::variant<std::monostate, int64_t TrainingSettings::*, bool TrainingSettings::*, double TrainingSettings::*,
                 std::string TrainingSettings::*, std::vector<std::string> TrainingSettings::*,
                 plan::DType TrainingSettings::*, plan::Optimizer TrainingSettings::*,
                 RecomputeGranularity TrainingSettings::*, RecomputeMethod TrainingSettings::*, bool Layout::*>;

// Whether a run may go on from a checkpoint of a plan with another value of an option.
enum class OnResume {
  free,   // yes: it changes where and when numbers are computed, and their rounding
  noted,  // yes, and a line says so: precision
  refused // only with --ignore-config: it changes what is learned
};

struct LayoutOption {
  std::string flag; // "--tp"
  AnyOptionField field;
  std::vector<std::string> aliases = {}; // Megatron-LM's: of its flags, or of the arguments it prints
  int64_t least = 1, most = std::numeric_limits<int64_t>::max();  // range of a number
  int mostValues = std::numeric_limits<int>::max();               // length of a list
  std::vector<std::string> (*words)(const Supported &) = nullptr; // possible words
  std::string (*whyNot)(const std::string &word) = nullptr; // it is not possible, of a word that Megatron-LM knows
  std::string_view orFile = "";                             // behind the words in a message: what else there may be
  std::string help = {};
  std::optional<int64_t> chosen = {}; // a number that is taken where nothing is given; of words the first
  std::string standard = {};          // the default otherwise, for people
  std::string reason = {};            // why it is taken, where the row knows
  bool hasNegation = false;           // a switch that has --no-.. too
  // Defaults of the model that do not count where this is given and differs from the model's own; of a switch with --no-.., where it is
  // off.
  std::vector<AnyOptionField> replaces = {};
  bool orAuto = false; // a number that may be kAuto, written "auto", which --memory chooses
  // Values that a search of layouts tries; null: it takes what stands where nothing is given. A number may be kAuto: it is searched alone.
  std::vector<int64_t> (*searched)(const SearchSpace &space, const LayoutOptions &chosen) = nullptr;
  std::vector<std::string> (*searchedWords)(const SearchSpace &space, const LayoutOptions &chosen) = nullptr;
  bool isSearchedCut = false;  // the layers of chunks, which a search cuts; kAutoCut: it cuts them alone
  bool isEstimated = true;     // planner/search knows what it costs: a search may have it
  ResolvedField training = {}; // the field of mg.training
  ResolvedField ofBlocks = {}; // the same of a field that blocks are made with and no pass reads; its name is key()

  OnResume onResume = OnResume::free;
  ResolvedField compared = {}; // the resolved value that a checkpoint keeps, where `training` and `ofBlocks` have none

  bool takesAuto() const {
    return orAuto || searched || isSearchedCut;
  } // as a flag; with `searched` alone it is for a search
  std::string key() const;      // "cp_comm_type", of model.json
  std::string negation() const; // "--no-sp"
  std::string standardOf(const Supported &supported) const;
  // For people and for checkpoints; empty: the row has no resolved value, or mgrun compares it by itself.
  std::string valueIn(const Layout &layout) const;
};

// The name in mg.training; empty: none.
std::string_view nameOf(const ResolvedField &field);

// In the order in which people read them.
const std::vector<LayoutOption> &layoutOptions();
const LayoutOption &optionOf(const AnyOptionField &field);

// A flag that stands for an option with a value.
struct OptionShorthand {
  std::string flag;
  std::string of, value; // "--dtype", "bf16"
};
// Several flags that stand for a number of one option may be given: the greatest number counts.
const std::vector<OptionShorthand> &optionShorthands();

// A flag whose words stand for 0, 1, .. of an option. It is read where one of `beside`, which are shorthands, is given, and counts more.
struct OptionWords {
  std::string flag, of;
  std::vector<std::string> words, beside;
};
const std::vector<OptionWords> &optionWords();

bool isGiven(const LayoutOptions &options);
// Whether the option is kAuto, or kAutoCut.
bool isOpen(const LayoutOption &option, const LayoutOptions &options);
// The options that are open.
LayoutOptions openOf(const LayoutOptions &options);
// Whether a search has to choose some: one that is open, and is not left to --memory by itself.
bool leavesToSearch(const LayoutOptions &options);
// The defaults that count beside the flags.
LayoutOptions defaultsBeside(const LayoutOptions &flags, LayoutOptions defaults);
// `flags`, and where they are silent defaultsBeside() them.
LayoutOptions either(LayoutOptions flags, const LayoutOptions &defaults);
// "--tp 2 --sp": all that is given.
std::string flagsOf(const LayoutOptions &options);
// The same of what is given and is not in `before`.
std::string changedFlags(const LayoutOptions &before, const LayoutOptions &options);

} // namespace mgc::frontend
