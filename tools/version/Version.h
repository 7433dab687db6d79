// The output of `--version` of every tool: what was built, from which commit, how, and by what it computes.
#pragma once

#include <string>
#include <vector>

namespace mgc::tools {

// "mgrun of mgc 0.1.0, commit 0123456789ab, Release build by clang 22.1.0" and a line for each library, as
// "oneDNN 2.6.3": fmt, and those that the tool names.
std::string versionText(const std::string &tool, const std::vector<std::string> &libraries);

// Versions of the JSON library and of the command line's library: headers, as they were compiled in.
std::string jsonLibrary();
std::string commandLineLibrary();

} // namespace mgc::tools
