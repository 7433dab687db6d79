// The mgrun binary: flags, exit codes, output, Ctrl-C.
#include "test/Places.h"
#include "test/runtime/exec/Bundle.h"

#include <csignal>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace mgc::test {
namespace {

class Tool {
public:
  Tool(const Bundle &bundle, std::vector<std::string> arguments) : bundle_(bundle) {
    arguments.insert(arguments.begin(), builtFile("bin/mgrun"));
    std::vector<char *> pointers;
    for (std::string &argument : arguments)
      pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    const std::string out = bundle.path("stdout"), err = bundle.path("stderr");
    child_ = fork();
    if (child_ != 0)
      return;
    dup2(open(out.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600), STDOUT_FILENO);
    dup2(open(err.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600), STDERR_FILENO);
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  void interrupt() const { kill(child_, SIGINT); }
  int exitCode() const {
    int status = 0;
    waitpid(child_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  bool waitForError(const std::string &text) const {
    for (int i = 0; i < 3000 && bundle_.read("stderr").find(text) == std::string::npos; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return bundle_.read("stderr").find(text) != std::string::npos;
  }

private:
  const Bundle &bundle_;
  pid_t child_;
};

int run(const Bundle &bundle, std::vector<std::string> arguments) {
  return Tool(bundle, std::move(arguments)).exitCode();
}

TEST(RunTool, trainsAndSums) {
  const Bundle bundle;
  const std::string log = bundle.path("log.jsonl"), out = bundle.path("out");
  ASSERT_EQ(run(bundle, {bundle.folder(), "--mock-data", "--train-iters", "3", "--lr", "0.01", "--log", log, "--save",
                         out, "--log-interval", "1"}),
            0)
      << bundle.read("stderr");
  const std::string summary = bundle.read("stdout"), progress = bundle.read("stderr");
  EXPECT_EQ(summary.find("3 steps: loss "), 0u) << summary;
  EXPECT_NE(summary.find("tokens/s\nlog       " + log + "\nweights   " + out + "\n"), std::string::npos) << summary;
  for (const char *line : {"step 0: loss ", "step 1: loss ", "step 2: loss "})
    EXPECT_NE(progress.find(line), std::string::npos) << progress;
  EXPECT_EQ(progress.find('\r'), std::string::npos) << "no progress bar without a terminal";
  EXPECT_TRUE(std::filesystem::exists(out + "/model.safetensors"));
}

TEST(RunTool, readsTheRatesFromAList) {
  const Bundle bundle;
  const std::string rates = bundle.path("rates.json"), log = bundle.path("log.jsonl");
  std::ofstream(rates) << "[0.125, 0.5]";
  ASSERT_EQ(run(bundle, {bundle.folder(), "--mock-data", "--train-iters", "2", "--lr-list", rates, "--log", log}), 0)
      << bundle.read("stderr");
  EXPECT_NE(bundle.read("log.jsonl").find("\"lr\":0.125"), std::string::npos);
  EXPECT_NE(bundle.read("log.jsonl").find("\"lr\":0.5"), std::string::npos);
  for (const char *bad : {"{}", "[1, \"a\"]", "[", "[-1]", "[]"}) {
    std::ofstream(rates) << bad;
    EXPECT_EQ(run(bundle, {bundle.folder(), "--mock-data", "--lr-list", rates}), 1) << bad;
    EXPECT_NE(bundle.read("stderr").find(rates), std::string::npos) << bundle.read("stderr");
  }
}

TEST(RunTool, printsTheProfile) {
  const Bundle bundle;
  const std::string trace = bundle.path("trace.json");
  ASSERT_EQ(run(bundle, {bundle.folder(), "--mock-data", "--train-iters", "3", "--profile", "--trace", trace,
                         "--trace-steps", "1"}),
            0)
      << bundle.read("stderr");
  const std::string out = bundle.read("stdout");
  for (const char *text : {"\ntrace     ", "profile of 2 steps after the first, of one step and one of 4 ranks with ",
                           "calls        ms   share            rate  bound  waits ms  kind        kernel\n",
                           "  row kernel  ", "  collective  ", "  transfer    send and receive\n",
                           "\nbetween instructions ", "\nidle ", " GFLOP/s, memory ", " of the bound\n"})
    EXPECT_NE(out.find(text), std::string::npos) << text << " in:\n" << out;
  EXPECT_EQ(run(bundle, {bundle.folder(), "--mock-data", "--trace-steps", "1"}), 2) << "needs --trace";
}

TEST(RunTool, exitCodesTellErrorsFromUsage) {
  const Bundle bundle;
  EXPECT_EQ(run(bundle, {"--help"}), 0);
  EXPECT_EQ(run(bundle, {}), 2);
  EXPECT_EQ(run(bundle, {bundle.folder()}), 2) << "neither --data nor --mock-data";
  EXPECT_EQ(run(bundle, {bundle.folder(), "--mock-data", "--no-such-flag"}), 2);
  EXPECT_EQ(run(bundle, {bundle.folder(), "--mock-data", "--train-iters", "many"}), 2);
  EXPECT_EQ(run(bundle, {bundle.folder(), "--mock-data", "--adam-beta1", "2"}), 1);
  EXPECT_NE(bundle.read("stderr").find("mgrun: --adam-beta1 = 2"), std::string::npos) << bundle.read("stderr");
}

TEST(RunTool, interruptFinishesTheStepAndSaves) {
  const Bundle bundle;
  const std::string out = bundle.path("out");
  const Tool tool(bundle, {bundle.folder(), "--mock-data", "--train-iters", "1000000000", "--lr", "0", "--save", out,
                           "--log-interval", "1000"});
  ASSERT_TRUE(tool.waitForError("step 0: ")) << bundle.read("stderr");
  tool.interrupt();
  EXPECT_EQ(tool.exitCode(), 130) << bundle.read("stderr");
  EXPECT_NE(bundle.read("stdout").find("(interrupted): loss "), std::string::npos) << bundle.read("stdout");
  EXPECT_TRUE(std::filesystem::exists(out + "/model.safetensors"));
}

} // namespace
} // namespace mgc::test
