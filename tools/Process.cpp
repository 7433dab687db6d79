// See Process.h.
#include "tools/Process.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

void mgc::tools::prepareProcess() {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number)
    if (::fcntl(number, F_GETFD) < 0)
      (void)::open("/dev/null",
                   number == STDOUT_FILENO ? O_RDONLY : O_RDWR); // takes this number, the lowest free
  std::signal(SIGXFSZ, SIG_IGN);
}

void mgc::tools::limitSpinning(char **argv) {
  constexpr const char *kSpins = "GOMP_SPINCOUNT", *kPolicy = "OMP_WAIT_POLICY";
  if (std::getenv(kSpins) || std::getenv(kPolicy) || ::setenv(kSpins, "1000", 0) != 0)
    return;
  // By its own path: the process would be called "exe" else, in ps and where the system says what it killed.
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error)
    ::execv(path.c_str(), argv); // where that is not possible, the run is as good without
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
