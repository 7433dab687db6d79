// mgrun: trains by a plan, with every rank a thread of this process, or one of several processes; on the CPU or on a device.
// Exit code: 0 all well, 1 an error, 2 wrong usage, 130 ended by Ctrl-C or another
// request to end (after the step that ran, and saved).
#include "model/file/SameModel.h"
#include "plan/cost/Machine.h"
#include "plan/cost/ModelFlops.h"
#include "runtime/comm/mpi/MpiLibrary.h"
#include "runtime/device/Plugin.h"
#include "runtime/kernels/CpuGemm.h"
#include "runtime/train/TrainingOfRank.h"
#include "tools/ProfileTable.h"
#include "tools/RunPage.h"
#include "tools/flags/Completion.h"
#include "tools/flags/Usage.h"
#include "tools/page/Page.h"
#include "tools/process/Process.h"
#include "tools/process/Restarts.h"
#include "tools/run/RunFlags.h"
#include "tools/run/RunOptionsPage.h"
#include "tools/version/Version.h"
#include "tools/watch/RunScreen.h"

#include <csignal>
#include <cstdio>
#include <pthread.h>
#include <thread>

namespace {

using namespace mgc;
using namespace mgc::tools;

// A request may come as several signals: timeout(1) sends its child one and then the whole process group.
constexpr auto kOneRequest = std::chrono::seconds(1);

void waitForAnother(const sigset_t &signals, int &signal) {
  const auto requested = std::chrono::steady_clock::now();
  do
    sigwait(&signals, &signal);
  while (std::chrono::steady_clock::now() - requested < kOneRequest);
}

// Requests to end are blocked in all threads and taken by this one, so that it may lock and wake what it likes.
void watchSignals(Interrupt &interrupt) {
  const sigset_t signals = requestsToEnd();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals, &interrupt] {
    int signal = 0;
    sigwait(&signals, &signal);
    interrupt.request();
    if (interrupt.isTraining()) {
      say(stderr, "\nending after this step; once more, a second from now or later, to end at once\n");
      waitForAnother(signals, signal);
      if (interrupt.abort())
        sigwait(&signals, &signal);
    }
    std::signal(signal, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    raise(signal);
  }).detach();
}

int fail(const Status &status) {
  say(stderr, "mgrun: {}\n", status.message());
  return 1;
}

int failUsage(const Status &status) {
  fail(status);
  return 2;
}

int print(const std::string &text) {
  say(stdout, "{}", text);
  const Status printed = checkOutput();
  return printed.isOk() ? 0 : fail(printed);
}

// No peak is known of CPUs. The description of a GPU is that of its target, whose cards have one peak.
StepWork stepWorkOf(const plan::Plan &plan) {
  StepWork work{cost::modelFlops(plan)};
  const cost::Machine machine = cost::machineOf(plan);
  if (plan.target != plan::Target::cpu && machine.target.starts_with(nameOf(plan.target)))
    work.peakFlops = plan.dtype == plan::DType::bf16 ? machine.flops.bf16 : machine.flops.f32;
  return work;
}

struct NoScreen final : TrainingObserver {
  void began(const TrainingOptions &, const Engine &, const std::string &) override {}
  void stepped(const TrainingStep &) override {}
};

// Rank 0 alone shows something.
Result<TrainingSummary> trainOnScreen(const TrainingOptions &options, Interrupt &interrupt) {
  const Launch &launch = options.launch;
  if (launch.rank != 0) {
    NoScreen screen;
    RunPage page(screen);
    return train(options, page, interrupt);
  }
  if (!launch.isAlone())
    say(stderr, "rank 0 of {} processes ({}), which meet at {}\n", launch.size, launch.by, toString(launch.master));
  for (const std::string &doubt : doubtsAbout(options))
    say(stderr, "mgrun: {}\n", doubt);
  RunScreen screen(options.logInterval, options.typed.timersOf);
  RunPage page(screen);
  return train(options, page, interrupt);
}

// Where no MPI has started this process, or its plugin is missing, a run whose data does not travel over it may do without.
Result<std::unique_ptr<MpiProcess>> startMpi(TrainingOptions &training) {
  Launch &launch = training.launch;
  if (launch.isAlone())
    return std::unique_ptr<MpiProcess>();
  if (launch.mpi == MpiKind::none) {
    training.whyNoMpi = "no launcher of an MPI has started them";
    return std::unique_ptr<MpiProcess>();
  }
  const bool isMasterKnown = launch.isMasterKnown();
  Result<std::unique_ptr<MpiProcess>> mpi = MpiProcess::start(launch, training.timeout);
  if (mpi.isOk())
    training.mpi = mpi->get();
  else if (isMasterKnown)
    training.whyNoMpi = mpi.status().message();
  return mpi.isOk() || !isMasterKnown ? std::move(mpi) : std::unique_ptr<MpiProcess>();
}

struct Ending {
  int code = 0;
  bool haveAllFinished = true; // all processes
};

Ending report(const TrainingOptions &options, Interrupt &interrupt) {
  const Result<TrainingSummary> summary = trainOnScreen(options, interrupt);
  if (!summary.isOk()) {
    if (!summary.status().message().empty()) // else rank 0 has told it
      fail(summary.status());
    return {interrupt.hasEnded() ? 130 : 1, false}; // a save that failed is no end as was asked for
  }
  const bool isShown = options.launch.rank == 0;
  if (isShown)
    say(stdout, "{}", describeSummary(optionsOfRank(options), *summary));
  if (isShown && options.profile && summary->profile)
    say(stdout, "\n{}", describeProfile(*summary->profile));
  if (!summary->outputs.isOk())
    return {fail(summary->outputs)};
  if (Status written = checkOutput(); !written.isOk())
    return {fail(written)};
  return {summary->interrupted ? 130 : 0};
}

int run(TrainingOptions &options) {
  static Interrupt interrupt; // outlives the thread that watches
  watchSignals(interrupt);    // before MPI has threads, which would take signals
  const Result<std::unique_ptr<MpiProcess>> mpi = startMpi(options);
  if (!mpi.isOk())
    return fail(mpi.status());
  const Ending ending = report(options, interrupt);
  const Status left = *mpi ? (*mpi)->leave(ending.haveAllFinished, ending.code) : Status::ok();
  return left.isOk() ? ending.code : fail(left);
}

} // namespace

int main(int argc, char **argv) {
  prepareProcess("mgrun", 128);
  limitSpinning(argv);
  ignoreClosedPipes();
  CLI::App app("Trains by a plan, with every rank of the mesh a thread of this process, or a process of its own where "
               "torchrun, mpirun, srun or flags say so.");
  app.name("mgrun");
  app.footer("Ends with 0, 1 after an error, 2 after wrong usage, 130 after Ctrl-C, SIGTERM, SIGHUP, SIGUSR1 or "
             "SIGUSR2: after the step that runs, and saved.");
  app.set_version_flag("--version", [] {
    return versionText("mgrun",
                       {gemmLibrary(), jsonLibrary(), commandLineLibrary(), "plugin: " + plugin::describePlugin("cuda"),
                        "plugin: " + describePlugin(MpiKind::openMpi), "plugin: " + describePlugin(MpiKind::mpich)});
  });
  app.option_defaults()->always_capture_default();
  TrainingOptions options;
  addRunFlags(app, options);
  app.add_flag("--list-options")->description("Print the reference of these options (docs/run-options.md), and end");
  app.add_option("--completion")
      ->description("Print the completion of a shell, bash or zsh, and end")
      ->type_name("SHELL");
  for (const char *ofItsOwn : {"--list-options", "--completion", "--help", "--version"})
    app.get_option(ofItsOwn)->configurable(false);
  if (argc == 2 && std::string_view(argv[1]) == "--list-options")
    return print(runOptionsPage());
  if (argc == 3 && std::string_view(argv[1]) == "--completion") {
    const Result<std::string> script = completionScript(app, argv[2], proposedWords);
    return script.isOk() ? print(*script) : failUsage(script.status());
  }
  Result<SortedFlags> sorted = sortFlags(app, {argv + 1, argv + argc}, Tool::mgrun);
  if (!sorted.isOk())
    return failUsage(sorted.status());
  try {
    for (const std::string &note : sorted->notes)
      say(stderr, "mgrun: {}\n", note);
    std::ranges::reverse(sorted->words); // as the parser wants them
    app.parse(std::move(sorted->words));
    for (const char *alone : {"--list-options", "--completion"})
      if (app.count(alone) > 0)
        throw CLI::ValidationError(alone, "stands alone: mgrun --list-options, or mgrun --completion bash");
    const TypedOptions &typed = options.typed;
    if (!options.data && !typed.mockData && typed.dataPath.empty() && typed.dataPaths[size_t(Split::train)].empty())
      throw CLI::RequiredError("--data FILE, --data-path PREFIX or --mock-data");
  } catch (const CLI::ParseError &error) {
    return leaveWith(app, error, *sorted);
  }
  const auto placed = [&](const Status &status) { return withConfig(status, sorted->config, sorted->ofConfig); };
  std::vector<std::string> notes;
  if (const Status read = readCorpusFlags(options, notes); !read.isOk())
    return failUsage(placed(read));
  if (const Status read = readRunFlags(options); !read.isOk())
    return fail(placed(read));
  for (const std::string &note : notes)
    if (options.launch.rank == 0)
      say(stderr, "mgrun: {}\n", note);
  options.runFile = runFileText(app);
  options.verifyModel = frontend::verifySameModel;
  if (options.typed.html)
    options.page = {pageKind(), *options.typed.html};
  if (options.typed.logsThroughput)
    options.findStepWork = stepWorkOf;
  const Status effect = verifyEffect(options, [&](const std::string &flag) { return app.count(flag) > 0; });
  if (!effect.isOk())
    return failUsage(placed(effect));
  return runWithRestarts("mgrun", options.typed.maxRestarts, [&] { return run(options); });
}
