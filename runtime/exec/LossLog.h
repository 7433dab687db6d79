// LossLog: the numbers of each step in a file, one JSON object per line, on disk after each, so that a run can be watched.
#pragma once

#include "runtime/exec/Training.h"

#include <cstdio>
#include <memory>

namespace mgc {

class LossLog {
public:
  Status open(const std::string &path);
  Status write(const TrainingStep &step); // nothing where no file is open

private:
  Status fail() const;
  struct Close {
    void operator()(std::FILE *file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

} // namespace mgc
