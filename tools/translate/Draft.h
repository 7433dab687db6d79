// A line that is being translated: its flags, each with what becomes of it, and the options that the commands have for them.
#pragma once

#include "tools/flags/ForeignAnswers.h"
#include "tools/translate/MegatronLine.h"

namespace mgc::tools {

struct TranslatedFlag {
  LineFlag flag;
  FlagGroup group = FlagGroup::unsupported;
  std::string text;       // for people
  bool isLeftOut = false; // a command could have it, and goes without
};

inline constexpr std::string_view kCompile = "mgc compile", kRun = "mgrun", kPreprocess = "mgc-data preprocess";

// An option of a command.
struct CommandOption {
  std::string_view tool;           // one of the three above
  std::string name;                // the option's own: "--dtype" of --bf16
  std::vector<std::string> words;  // as the command has it
  std::optional<size_t> flag = {}; // the flag of the line that it stands for; none: added
  bool isInstead = false;          // the nearest to a flag that is not supported: any other of that name counts more
};

struct Draft {
  std::vector<TranslatedFlag> flags;
  std::vector<CommandOption> options;
  std::vector<std::string> assumed;  // for people
  std::vector<std::string> problems; // why the line has no meaning

  const CommandOption *find(std::string_view tool, std::string_view name) const; // the last; null: none
  bool has(std::string_view tool, std::string_view name) const { return find(tool, name) != nullptr; }
  // The first value of that option; empty: there is none.
  std::string valueOf(std::string_view tool, std::string_view name) const;
  // Takes these options out of the commands; the flags that they stand for say why.
  void leaveOut(std::string_view tool, std::string_view name, const std::string &why,
                std::optional<FlagGroup> group = std::nullopt);
  void leaveOut(size_t option, const std::string &why, std::optional<FlagGroup> group = std::nullopt);
  void add(std::string_view tool, const std::vector<std::string> &words); // an option that no flag of the line says
};

} // namespace mgc::tools
