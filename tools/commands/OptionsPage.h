// The reference of the layout's options, made of their table.
#pragma once

#include "frontend/layout/Options.h"

namespace mgc::tools {

// docs/options.md: Markdown.
std::string optionsPage(const frontend::Supported &supported);
// docs/model.schema.json: what "mgc" of a model.json or config.json may hold (JSON Schema 2020-12).
std::string optionsSchema(const frontend::Supported &supported);
// The names of all options, as JSON: part of tools/flags/tool-flags.json.
std::string layoutFlagNames();

} // namespace mgc::tools
