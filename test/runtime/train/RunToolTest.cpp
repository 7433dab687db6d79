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

class RunTool : public testing::Test {
protected:
  // The exit code of mgrun with these arguments.
  int run(std::vector<std::string> arguments) const { return Tool(bundle, std::move(arguments)).exitCode(); }
  // The same, of a run of the plan on made-up data.
  int train(std::vector<std::string> flags) const {
    flags.insert(flags.begin(), {bundle.folder(), "--mock-data"});
    return run(std::move(flags));
  }
  std::string errors() const { return bundle.read("stderr"); }

  const Bundle bundle;
};

TEST_F(RunTool, trainsAndSums) {
  const std::string log = bundle.path("log.jsonl"), out = bundle.path("out");
  ASSERT_EQ(train({"--train-iters", "3", "--lr", "0.01", "--log", log, "--save", out, "--log-interval", "1"}), 0)
      << errors();
  const std::string summary = bundle.read("stdout"), progress = errors();
  EXPECT_EQ(summary.find("3 steps: loss "), 0u) << summary;
  EXPECT_TRUE(has(summary, {"tokens/s\nlog       " + log + "\nweights   " + out + "\n"}));
  EXPECT_TRUE(has(progress, {"step 0: loss ", "step 1: loss ", "step 2: loss "}));
  EXPECT_EQ(progress.find('\r'), std::string::npos) << "no progress bar without a terminal";
  EXPECT_TRUE(std::filesystem::exists(out + "/model.safetensors"));
}

TEST_F(RunTool, readsTheRatesFromAList) {
  const std::string rates = bundle.path("rates.json"), log = bundle.path("log.jsonl");
  bundle.write("rates.json", "[0.125, 0.5]");
  ASSERT_EQ(train({"--train-iters", "2", "--lr-list", rates, "--log", log}), 0) << errors();
  EXPECT_TRUE(has(bundle.read("log.jsonl"), {"\"lr\":0.125", "\"lr\":0.5"}));
  for (const char *bad : {"{}", "[1, \"a\"]", "[", "[-1]", "[]"}) {
    bundle.write("rates.json", bad);
    EXPECT_EQ(train({"--lr-list", rates}), 1) << bad;
    EXPECT_TRUE(has(errors(), {rates}));
  }
}

TEST_F(RunTool, printsTheProfile) {
  const std::string trace = bundle.path("trace.json");
  ASSERT_EQ(train({"--train-iters", "3", "--profile", "--trace", trace, "--trace-steps", "1"}), 0) << errors();
  EXPECT_TRUE(has(bundle.read("stdout"),
                  {"\ntrace     ", "profile of 2 steps after the first, of one step and one of 4 ranks with ",
                   "calls        ms   share            rate  bound  waits ms  kind        kernel\n", "  row kernel  ",
                   "  collective  ", "  transfer    send and receive\n", "\nbetween instructions ", "\nidle ",
                   " GFLOP/s, memory ", " of the bound\n"}));
  EXPECT_EQ(train({"--trace-steps", "1"}), 2) << "needs --trace";
}

TEST_F(RunTool, exitCodesTellErrorsFromUsage) {
  EXPECT_EQ(run({"--help"}), 0);
  EXPECT_EQ(run({}), 2);
  EXPECT_EQ(run({bundle.folder()}), 2) << "neither --data nor --mock-data";
  EXPECT_EQ(train({"--no-such-flag"}), 2);
  EXPECT_EQ(train({"--train-iters", "many"}), 2);
  EXPECT_EQ(train({"--adam-beta1", "2"}), 1);
  EXPECT_TRUE(has(errors(), {"mgrun: --adam-beta1 = 2"}));
}

TEST_F(RunTool, interruptFinishesTheStepAndSaves) {
  const std::string out = bundle.path("out");
  const Tool tool(bundle, {bundle.folder(), "--mock-data", "--train-iters", "1000000000", "--lr", "0", "--save", out,
                           "--log-interval", "1000"});
  ASSERT_TRUE(tool.waitForError("step 0: ")) << errors();
  tool.interrupt();
  EXPECT_EQ(tool.exitCode(), 130) << errors();
  EXPECT_TRUE(has(bundle.read("stdout"), {"(interrupted): loss "}));
  EXPECT_TRUE(std::filesystem::exists(out + "/model.safetensors"));
}

} // namespace
} // namespace mgc::test
