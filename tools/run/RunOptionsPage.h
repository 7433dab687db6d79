// The reference of mgrun's options, made of their table.
#pragma once

#include <string>

namespace mgc::tools {

// docs/run-options.md: Markdown.
std::string runOptionsPage();

} // namespace mgc::tools
