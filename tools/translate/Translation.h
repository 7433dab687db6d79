// mgc translate: a command line of Megatron-LM -> the model it describes, the commands that do the same training, and what
// becomes of each flag (docs/megatron-lm.md).
#pragma once

#include "frontend/layout/Layout.h"
#include "tools/commands/TranslateFlags.h"
#include "tools/translate/Draft.h"

#include <nlohmann/json.hpp>

namespace mgc::tools {

using CommandWords = std::vector<std::string>; // "mgc", "compile", ..

struct Translation {
  Draft draft;
  nlohmann::ordered_json config;           // null: the model was given, or the line does not describe one
  std::string model;                       // the file that mgc compile takes
  std::vector<CommandWords> preprocess;    // none or one: for texts that are not token ids yet
  std::vector<CommandWords> commands;      // mgc compile, mgrun
  std::string problem;                     // why mgc compile or mgrun would refuse; empty: they would not
  bool isWhole() const;                    // no flag is unsupported, or needs a value
  std::vector<std::string> unread() const; // flags that need a value
};
Result<Translation> translate(const TranslateFlags &flags, const frontend::Supported &supported);

// For people; for programs, as JSON.
std::string textOf(const Translation &translation);
std::string jsonOf(const Translation &translation);

// Writes the config.json into the folder of -o. Another one stays, and none comes to weights, but by
// force.
Status writeConfig(const Translation &translation, bool force);

// Runs the commands one after the other, up to the first that fails, and gives its exit code. The last one takes the place of this
// program.
Result<int> runCommands(const Translation &translation);

} // namespace mgc::tools
