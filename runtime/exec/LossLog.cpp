// See LossLog.h.
#include "runtime/exec/LossLog.h"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

namespace mgc {

Status LossLog::open(const std::string &path) {
  path_ = path;
  file_.reset(std::fopen(path.c_str(), "w"));
  return file_ ? Status::ok() : fail();
}

Status LossLog::write(const TrainingStep &step) {
  if (!file_)
    return Status::ok();
  nlohmann::ordered_json line = {{"step", step.step},
                                 {"loss", step.result.loss},
                                 {"grad_norm", step.result.gradientNorm},
                                 {"lr", step.lr},
                                 {"tokens", static_cast<int64_t>(step.result.tokens)},
                                 {"seconds", step.seconds}};
  if (step.result.hostSeconds > 0)
    line["host_seconds"] = step.result.hostSeconds;
  const std::string text = line.dump() + "\n";
  const bool written = std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size();
  return written && std::fflush(file_.get()) == 0 ? Status::ok() : fail();
}

Status LossLog::fail() const { return errorf("{}: cannot be written: {}", path_, std::strerror(errno)); }

} // namespace mgc
