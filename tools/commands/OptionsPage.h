// The reference of the layout's options, made of their table.
#pragma once

#include "frontend/layout/Options.h"

namespace mgc::tools {

// docs/options.md: Markdown.
std::string optionsPage(const frontend::Supported &supported);
// docs/model.schema.json: what "mgc" of a model.json or config.json may hold (JSON Schema 2020-12).
std::string optionsSchema(const frontend::Supported &supported);
// tools/flags/layout-flags.json: the names of all options, for mgrun to know.
std::string layoutFlagNames();

} // namespace mgc::tools
