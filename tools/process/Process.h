// Requirements of both programs on their process, whoever started it and however.
#pragma once

#include "runtime/base/Status.h"

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>

namespace mgc::tools {

// Call first, with the name that is on messages. Standard streams that were closed become /dev/null: else the next file
// opened takes their number, and messages go into it. Into that of the output nothing can be written: results that are
// lost are an error. A file over the limit of its size is an error of the write, not a signal. Memory or threads that
// the system does not give are an error that ends the program: less address space than `leastMebibytes` (ulimit -v, -d)
// at once, for libraries do not look at what malloc gives them.
void prepareProcess(const char *program, int64_t leastMebibytes);

// Ends the program with a message where the main thread's stack may not have so much (ulimit -s).
void verifyStack(int64_t leastKibibytes);

// The end where there is no memory: says so, with what is known of the cause, and takes none.
[[noreturn]] void leaveWithoutMemory(const char *cause);

// Begins the program anew, once, with a limit to how long OpenMP's threads spin before they sleep, which libgomp reads
// from the environment when it is loaded. Its own limit is milliseconds: on a machine with other work, a thread that
// waits for one that was put aside then takes its core for as long. The user's own OMP_WAIT_POLICY or GOMP_SPINCOUNT
// stays.
void limitSpinning(char **argv);

// A screen that went away (`| head -1`) must not end a run: the error of the write comes, not the signal.
void ignoreClosedPipes();

// The signals that ask a program to end: SIGINT, SIGTERM, SIGHUP, and SIGUSR1 and SIGUSR2, which Slurm's --signal sends. Not those
// that whoever started the program has it ignore, as nohup does SIGHUP and a shell SIGINT of what runs in the background.
sigset_t requestsToEnd();

// Unlike fmt::print this does not throw when the stream cannot be written.
void write(std::FILE *stream, const std::string &text);
template <typename... Args> void say(std::FILE *stream, fmt::format_string<Args...> format, Args &&...args) {
  write(stream, fmt::format(format, std::forward<Args>(args)...));
}

// Whether all that was written to standard output has arrived.
Status checkOutput();

} // namespace mgc::tools
