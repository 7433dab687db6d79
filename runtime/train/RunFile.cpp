// See RunFile.h.
#include "runtime/train/RunFile.h"

#include "runtime/base/Checksum.h"
#include "runtime/base/File.h"
#include "runtime/base/OutputFile.h"

namespace mgc {

namespace {

constexpr std::string_view kSeal = "# checksum ", kSealEnds = "; where it is edited, it stays\n";

// With a second line that tells whether it was edited since.
std::string sealed(std::string text) {
  Checksum checksum;
  checksum.add(text);
  text.insert(text.find('\n') + 1, fmt::format("{}{}{}", kSeal, checksum.text(), kSealEnds));
  return text;
}

// Whether it is as mgrun wrote it.
bool isUnedited(const std::string &path) {
  constexpr int64_t kMostBytes = int64_t(1) << 20;
  const Result<std::string> found = readFile(path, kMostBytes);
  if (!found.isOk() || !found->starts_with(kRunFileBegins))
    return false;
  std::string text = *found;
  const size_t seal = text.find(kSeal), end = text.find(kSealEnds);
  if (seal == text.npos || end == text.npos || end < seal)
    return false;
  return sealed(text.erase(seal, end + kSealEnds.size() - seal)) == *found;
}

} // namespace

RunFile::RunFile(const std::string &folder, std::string text, bool force, std::string &note)
    : path_((std::filesystem::path(folder) / kRunFile).string()), text_(std::move(text)) {
  if (text_.empty() || force || !isThere(path_) || isUnedited(path_))
    return;
  note = fmt::format("--save {}: the options of this run are not written: {} is not by mgrun, or was edited, and stays",
                     folder, path_);
  text_.clear();
}

Status RunFile::write() {
  if (text_.empty())
    return Status::ok();
  MGC_TRY(writeFileAtomically(path_, sealed(text_)));
  text_.clear();
  return Status::ok();
}

} // namespace mgc
