// The options of a layout (frontend/layout/Options.h) as flags.
#pragma once

#include "frontend/layout/Options.h"

#include <CLI/CLI.hpp>

namespace mgc::tools {

// `supported`: whose names the help lists. The flags are set when `app` parses.
void addLayoutFlags(CLI::App &app, frontend::LayoutOptions &layout, const frontend::Supported &supported);

// "tp=4,sp=false": keys as in a file of --config.
Result<frontend::LayoutOptions> parseLayoutKeys(const std::string &text, const frontend::Supported &supported);

// "Context parallel ranks: .. (default: 1)".
std::string helpOf(const frontend::LayoutOption &option, const frontend::Supported &supported);

} // namespace mgc::tools
