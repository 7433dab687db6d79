// The flags of mgrun, from the rows of RunOptions.h.
//   in:  the command line's words
//   out: the options of a training
#pragma once

#include "runtime/train/RunOptions.h"

#include <CLI/CLI.hpp>

namespace mgc::tools {

// "--save-interval", "--persistent-save-interval": what a row is called on the command line.
std::vector<std::string> flagsOf(const RunOption &row);

void addRunFlags(CLI::App &app, TrainingOptions &options);
// Words of a row's range, for completion.
std::vector<std::string> proposedWords(const CLI::Option &option);
// The text of RunFile.h: the options that were parsed.
std::string runFileText(const CLI::App &app);
// --data-path and its like; an error is one of usage. `notes`: for people, where other files are taken than those that it names.
Status readCorpusFlags(TrainingOptions &options, std::vector<std::string> &notes);
// Reads what flags name (files, a launcher's variables), and completes the options by it; all but `page`, `findStepWork` and
// `verifyModel`, which the program knows.
Status readRunFlags(TrainingOptions &options);

// Options that have an effect, but hardly the one that was meant: a text for people about each.
std::vector<std::string> doubtsAbout(const TrainingOptions &options);

} // namespace mgc::tools
