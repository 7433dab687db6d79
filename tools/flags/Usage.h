// Wrong usage of a program, said to whoever typed it.
#pragma once

#include "runtime/base/Status.h"
#include "tools/flags/ForeignFlags.h"

namespace mgc::tools {

// All long names: "--tp".
std::vector<std::string> longNamesOf(const CLI::App &app);

// Says that the first word is no command of the program, or that flags are none of that command, with what is near. The flags of the
// command `sorted` are left to sortFlags.
bool isCommandLine(const CLI::App &app, const std::vector<std::string> &words, std::string_view sorted = {});

// Prints the help that was asked for, or what is wrong with the flags, of which some may be of a file of --config; the exit code:
// 0, 1 where nothing can be printed, 2.
int leaveWith(const CLI::App &app, const CLI::ParseError &end, const SortedFlags &sorted = {});

// The error of flags, with a line that says which of those that it names are of the file of --config.
Status withConfig(const Status &error, const std::string &config, const std::vector<std::string> &ofConfig);

} // namespace mgc::tools
