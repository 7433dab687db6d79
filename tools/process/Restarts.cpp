// See Restarts.h.
#include "tools/process/Restarts.h"

#include "tools/process/Process.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace mgc::tools {

namespace {

sigset_t watchedSignals() {
  sigset_t signals = requestsToEnd();
  sigaddset(&signals, SIGCHLD);
  return signals;
}

class Supervisor {
public:
  Supervisor(const char *program, const std::function<int()> &run)
      : program_(program), run_(run), signals_(watchedSignals()) {
    std::signal(SIGCHLD, SIG_DFL); // where it is ignored no child can be waited for
    sigprocmask(SIG_BLOCK, &signals_, &before_);
  }
  ~Supervisor() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

  // The state of the child that has ended, as of waitpid(2).
  int runOnce() {
    const pid_t parent = ::getpid(), child = ::fork();
    if (child < 0) {
      say(stderr, "{}: no process starts: {} (see ulimit -u)\n", program_, std::strerror(errno));
      return W_EXITCODE(1, 0);
    }
    if (child == 0)
      beChild(parent);
    for (int state = 0;;) {
      int signal = 0;
      sigwait(&signals_, &signal);
      if (signal != SIGCHLD) {
        isToEnd_ = true;
        ::kill(child, signal);
      } else if (::waitpid(child, &state, WNOHANG) == child) {
        return state;
      }
    }
  }
  bool isToEnd() const { return isToEnd_; }

private:
  [[noreturn]] void beChild(pid_t parent) {
    sigprocmask(SIG_SETMASK, &before_, nullptr);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) // killed meanwhile
      std::_Exit(1);
    std::exit(run_());
  }

  const char *const program_;
  const std::function<int()> &run_;
  const sigset_t signals_;
  sigset_t before_{};
  bool isToEnd_ = false;
};

// A program that is killed by a signal ends with 128 and more, as shells say it.
int codeOf(int state) { return WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state); }

std::string describe(int state) {
  return WIFSIGNALED(state) ? fmt::format("was killed by signal {} ({})", WTERMSIG(state), ::strsignal(WTERMSIG(state)))
                            : fmt::format("ended with code {}", WEXITSTATUS(state));
}

} // namespace

int runWithRestarts(const char *program, int64_t restarts, const std::function<int()> &run) {
  if (restarts == 0)
    return run();
  Supervisor supervisor(program, run);
  for (int64_t restart = 1;; ++restart) {
    const int state = supervisor.runOnce();
    const bool isCrash = WIFSIGNALED(state) || WEXITSTATUS(state) == 1;
    if (!isCrash || supervisor.isToEnd() || restart > restarts)
      return codeOf(state);
    say(stderr, "{}: the run {}; restart {} of {}\n", program, describe(state), restart, restarts);
  }
}

} // namespace mgc::tools
