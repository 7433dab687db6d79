// RunFile: the options of a run, in the folder of its --save, as mgrun --config reads them.
#pragma once

#include "runtime/base/Status.h"

#include <string>

namespace mgc {

inline constexpr const char *kRunFile = "run.toml";
inline constexpr std::string_view kRunFileBegins = "# Options of a run, by mgrun --save";

class RunFile {
public:
  RunFile() = default;
  // `text` begins with kRunFileBegins; empty: there is no file to write. One that is there and is not as mgrun wrote it is a user's:
  // it stays, and `note` says so, unless `force`.
  RunFile(const std::string &folder, std::string text, bool force, std::string &note);
  Status write(); // once; the folder is there

private:
  std::string path_, text_; // text_: empty when there is nothing to write
};

} // namespace mgc
