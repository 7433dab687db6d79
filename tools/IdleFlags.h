// Flags of mgrun that were given and would change nothing in this run: a mistake that a training would hide.
#pragma once

#include "runtime/train/Training.h"

#include <functional>
#include <vector>

namespace mgc::tools {

// Whether the user gave a flag, as "--min-lr".
using IsGiven = std::function<bool(const char *flag)>;

// Refuses all such flags at once, each with the reason.
Status verifyEffect(const TrainingOptions &options, const IsGiven &isGiven);

// Flags that have an effect, but hardly the one that was meant: a text for people about each.
std::vector<std::string> doubtsAbout(const TrainingOptions &options);

} // namespace mgc::tools
