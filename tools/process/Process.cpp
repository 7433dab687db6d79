// See Process.h.
#include "tools/process/Process.h"

#include "runtime/base/MachineMemory.h"

#include <algorithm>
#include <alloca.h>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <limits>
#include <malloc.h>
#include <sys/resource.h>
#include <system_error>
#include <unistd.h>

namespace {

const char *programName = "";

// Reserves this thread's stack: else the system may lack the address space when the stack grows, which is a signal.
__attribute__((noinline)) void reserveStack() {
  constexpr rlim_t kCommon = 8 << 20, kInUse = 512 << 10;
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur <= 2 * kInUse)
    return;
  auto *lowest = static_cast<volatile char *>(alloca(std::min(limit.rlim_cur, kCommon) - kInUse));
  *lowest = 0;
}

void verifyAddressSpace(int64_t leastMebibytes) {
  const int64_t free = mgc::freeAddressSpace();
  if (free >= leastMebibytes << 20) {
    if (free < std::numeric_limits<int64_t>::max()) {
      mallopt(M_ARENA_MAX, 1); // one more takes 64 MiB of address space for each thread
      reserveStack();
    }
    return;
  }
  fmt::print(stderr,
             "{}: {} MiB of address space are left by the limits of this process (ulimit -v, -d), expected {} or "
             "more: limits {} KiB higher\n",
             programName, free >> 20, leastMebibytes, (leastMebibytes << 10) - (free >> 10));
  std::_Exit(1);
}

// An uncaught exception; another than these is a mistake in this program, and leaves a core.
[[noreturn]] void terminated() {
  try {
    if (std::current_exception())
      std::rethrow_exception(std::current_exception());
  } catch (const std::bad_alloc &) {
    mgc::tools::leaveWithoutMemory("an allocation failed");
  } catch (const std::system_error &error) {
    if (error.code() == std::errc::resource_unavailable_try_again)
      mgc::tools::leaveWithoutMemory("a thread does not start (see ulimit -u, too)");
    std::fputs(error.what(), stderr);
  } catch (const std::exception &error) {
    std::fputs(error.what(), stderr);
  } catch (...) {
  }
  std::abort();
}

} // namespace

void mgc::tools::leaveWithoutMemory(const char *cause) {
  for (const char *part : {programName, ": the system gives no more memory: ", cause,
                           "; see what is free, ulimit -v and the limits of the control group\n"})
    (void)!::write(STDERR_FILENO, part, std::strlen(part));
  std::_Exit(1);
}

void mgc::tools::prepareProcess(const char *program, int64_t leastMebibytes) {
  programName = program;
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number)
    if (::fcntl(number, F_GETFD) < 0)
      (void)::open("/dev/null",
                   number == STDOUT_FILENO ? O_RDONLY : O_RDWR); // takes this number, the lowest free
  std::signal(SIGXFSZ, SIG_IGN);
  if (std::getenv(
          "HYDI_CONTROL_FD")) // by which Hydra, MPICH's mpirun, tells the others that a process has died: the store does
    std::signal(SIGUSR1, SIG_IGN);
  std::set_terminate(terminated);
  verifyAddressSpace(leastMebibytes);
}

void mgc::tools::verifyStack(int64_t leastKibibytes) {
  const int64_t kibibytes = mgc::softLimit(RLIMIT_STACK) >> 10;
  if (kibibytes >= leastKibibytes)
    return;
  fmt::print(stderr, "{}: the stack of this process may have {} KiB (ulimit -s), expected {} or more\n", programName,
             kibibytes, leastKibibytes);
  std::_Exit(1);
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

sigset_t mgc::tools::requestsToEnd() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    struct sigaction action{};
    if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
      sigaddset(&signals, signal);
  }
  return signals;
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
