// See RunFile.h.
#include "runtime/train/RunFile.h"

#include "runtime/base/File.h"
#include "runtime/base/OutputFile.h"

namespace mgc {

RunFile::RunFile(const std::string &folder, std::string text, bool force, std::string &note)
    : path_((std::filesystem::path(folder) / kRunFile).string()), text_(std::move(text)) {
  if (text_.empty() || force || !isThere(path_) || beginsWith(path_, kRunFileBegins))
    return;
  note =
      fmt::format("--save {}: the options of this run are not written: {} is not by mgrun, and stays", folder, path_);
  text_.clear();
}

Status RunFile::write() {
  if (text_.empty())
    return Status::ok();
  MGC_TRY(writeFileAtomically(path_, text_));
  text_.clear();
  return Status::ok();
}

} // namespace mgc
