// Restarts: a program that starts itself again after a crash.
#pragma once

#include <cstdint>
#include <functional>

namespace mgc::tools {

// run()'s exit code. With restarts run() is in a child process, which is started again, at most `restarts` times, after a
// signal killed it or it ended with 1. Requests to end go on to the child, which ends too when this process is killed. Call
// before this process has threads.
int runWithRestarts(const char *program, int64_t restarts, const std::function<int()> &run);

} // namespace mgc::tools
