// The file of --config, in TOML: keys are names of flags without dashes.
//   in:  lr = 1e-3, data-path = ["0.3", "a", "0.7", "b"], sp = false; below [mgc] and [mgrun] the keys of one tool alone
//   out: keys and values in their order
#pragma once

#include "runtime/base/Status.h"

#include <string>
#include <vector>

namespace mgc::tools {

inline constexpr std::string_view kConfigFlag = "--config";
inline constexpr const char *kConfigHelp =
    "File (.toml) with flags as keys, which hold where the command line does not have them (docs/configuration.md)";

struct ConfigEntry {
  std::string key; // "lr"; below a section of another program "training.steps"
  std::vector<std::string> values;
};

// `tool`: "mgc" or "mgrun"; what stands below the other one's name is left out. An error names the file and the line.
Result<std::vector<ConfigEntry>> readConfig(const std::string &path, const std::string &tool);

// A line for each entry, which readConfig reads as the same; a comment for one that the format cannot hold.
std::string configText(const std::vector<ConfigEntry> &entries);

} // namespace mgc::tools
