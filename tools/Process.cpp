// See Process.h.
#include "tools/Process.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

void mgc::tools::prepareProcess() {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number)
    if (::fcntl(number, F_GETFD) < 0)
      (void)::open("/dev/null", O_RDWR); // takes the lowest number that is free: this one
  std::signal(SIGXFSZ, SIG_IGN);
}

void mgc::tools::ignoreClosedPipes() { std::signal(SIGPIPE, SIG_IGN); }

void mgc::tools::write(std::FILE *stream, const std::string &text) {
  (void)std::fwrite(text.data(), 1, text.size(), stream);
}

mgc::Status mgc::tools::checkOutput() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0)
    return Status::ok();
  return errorf("standard output: cannot be written: {}", std::strerror(errno));
}
