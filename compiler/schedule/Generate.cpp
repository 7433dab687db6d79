// From the orders of a schedule to its solution, the same for every row of the table:
//   1. messages   each boundary between chunks of different stages, forward and back, per microbatch
//   2. list       per stage: runs in order; a send right after its producer, a recv one run before its consumer,
//                 gradients right after the part that makes them; a pair of runs is one here: its sends come after both
//   3. buffers    lifetimes in steps of the list, then offsets
//   4. waits      whatever the uses of memory require (Waits.cpp)
//
// Why it cannot deadlock: timeOrders() gives the runs times at which they could execute. A recv is posted when the run
// listed before it ends. The memory of a sent buffer is reused by steps from run R on only, where R starts no
// earlier than the message is done that both ends have posted. So each wait points back in these times; where
// they are the real ones, no run waits for memory.
#include "compiler/schedule/Orders.h"
#include "compiler/schedule/Rings.h"
#include "compiler/schedule/Waits.h"

#include <algorithm>
#include <map>

namespace mgc::schedule {
namespace {

constexpr int64_t kSendSlack = 2;    // a sent buffer is reused by the second run after its producer at the earliest
constexpr int64_t kRecvPrefetch = 1; // runs between the posting of a recv and its consumer

// One run: its task, and when it could start and end.
struct Run {
  ScheduledTask task;
  int64_t start = 0, end = 0;
};

struct PendingMessage {
  int64_t value = 0, microbatch = 0, bytes = 0;
  int64_t source = 0, sourceRun = 0; // stage, index of the producer among its runs
  int64_t target = 0, targetRun = 0;
  int64_t postRun = 0;    // the recv stands right before this run of the target
  int64_t releaseRun = 0; // from this run of the source on, the sent buffer may be reused; -1: never
};

class Generator {
public:
  explicit Generator(const Problem &problem) : problem(problem), shape(problem.shape) {}

  Result<Solution> generate(const ScheduleRow &row) {
    std::vector<Order> orders = row.orders(problem);
    ticks = ticksOf(problem);
    OrderTimes times = timeOrders(shape, orders, ticks);
    if (!times.complete)
      return errorf("schedule \"{}\": its orders wait for each other at pp {}, virtual stages {}, microbatches {}",
                    row.name, shape.stages, shape.virtualStages, shape.microbatches);
    makeRuns(row, orders, times);
    makeMessages();
    Solution solution{problem.schedule, shape, {}};
    for (int64_t stage = 0; stage < shape.stages; ++stage) {
      MGC_ASSIGN(list, makeStage(stage));
      solution.stages.push_back(std::move(list));
    }
    return solution;
  }

private:
  // The parts of a task take its times: it waits from its start on, and what it makes is there at its end.
  void makeRuns(const ScheduleRow &row, const std::vector<Order> &orders, const OrderTimes &times) {
    const TaskKind completing = row.splitBackward ? TaskKind::weight : TaskKind::backward;
    for (size_t stage = 0; stage < orders.size(); ++stage) {
      std::vector<Run> &list = runs.emplace_back();
      list.push_back({{TaskKind::begin, -1, -1}, 0, 0});
      for (size_t i = 0; i < orders[stage].size(); ++i) {
        Run run{orders[stage][i], times.start[stage][i], times.end[stage][i]};
        run.task.first = problem.isFirst(int64_t(stage), run.task);
        const bool isLast = run.task.kind == completing && run.task.microbatch + 1 == shape.microbatches;
        const int64_t parts = isLast ? problem.partsOf(int64_t(stage), run.task.chunk) : 0;
        run.task.paired &= parts == 0 && list.back().task.part < 0 && // parts run by themselves
                           (problem.sharesTotals.empty() || !problem.sharesTotals[stage]);
        if (parts == 0)
          list.push_back(run);
        for (run.task.part = 0; run.task.part < parts; ++run.task.part)
          list.push_back(run);
      }
      list.push_back({{TaskKind::reduce, -1, -1}, INT64_MAX, INT64_MAX});
      list.push_back({{TaskKind::update, -1, -1}, INT64_MAX, INT64_MAX});
    }
  }

  void makeMessages() {
    // The runs, first and last, of each forward and of each task that makes the input's gradient: [gradient?][global
    // chunk][microbatch].
    struct Runs {
      int64_t first = -1, last = -1;
    };
    std::vector<Runs> position(2 * shape.chunks() * shape.microbatches);
    auto at = [&](bool gradient, int64_t global, int64_t m) -> Runs & {
      return position[(gradient * shape.chunks() + global) * shape.microbatches + m];
    };
    for (int64_t stage = 0; stage < shape.stages; ++stage)
      for (size_t run = 0; run < runs[stage].size(); ++run) {
        const ScheduledTask &task = runs[stage][run].task;
        if (task.kind != TaskKind::forward && !makesGradient(task.kind))
          continue;
        Runs &found = at(makesGradient(task.kind), shape.globalChunk(stage, task.chunk), task.microbatch);
        found = {found.first < 0 ? int64_t(run) : found.first, int64_t(run)};
      }
    for (int64_t global = 0; global + 1 < shape.chunks(); ++global)
      for (int64_t m = 0; m < shape.microbatches && !shape.isLocal(global); ++m)
        for (bool gradient : {false, true}) {
          int64_t from = global + gradient, to = global + !gradient;
          PendingMessage message;
          message.value = gradient ? gradientValue(to) : activationValue(from);
          message.microbatch = m;
          message.source = shape.stageOf(from);
          message.target = shape.stageOf(to);
          message.bytes = bytesOf(problem, message.source, shape.chunkOf(from),
                                  gradient ? BufferKind::gradientOut : BufferKind::output);
          if (message.bytes == 0)
            continue;
          message.sourceRun = at(gradient, from, m).last;
          message.targetRun = at(gradient, to, m).first;
          messages.push_back(message);
        }
    std::sort(messages.begin(), messages.end(), [](const PendingMessage &a, const PendingMessage &b) {
      return std::tuple(a.source, a.target, a.sourceRun) < std::tuple(b.source, b.target, b.sourceRun);
    });
    postAndRelease();
  }

  // The first run of the pair that the run belongs to, and the first run behind it; the run itself, and the next, where it has
  // none.
  int64_t firstOfPair(int64_t stage, int64_t run) const { return run - runs[stage][run].task.paired; }
  int64_t behindPair(int64_t stage, int64_t run) const {
    const std::vector<Run> &list = runs[stage];
    return run + 1 + (run + 1 < int64_t(list.size()) && list[run + 1].task.paired);
  }

  // Messages of a pair of stages match in order, so they are received in the order they are sent: a recv is
  // posted no later than those sent after it.
  void postAndRelease() {
    for (size_t i = messages.size(); i-- > 0;) {
      PendingMessage &message = messages[i];
      const int64_t ahead = firstOfPair(message.target, message.targetRun) - kRecvPrefetch;
      message.postRun = ahead < 1 ? 1 : firstOfPair(message.target, ahead);
      if (i + 1 < messages.size() && messages[i + 1].source == message.source &&
          messages[i + 1].target == message.target)
        message.postRun = std::min(message.postRun, messages[i + 1].postRun);
      const std::vector<Run> &list = runs[message.source];
      int64_t posted = std::max(list[message.sourceRun].end, runs[message.target][message.postRun - 1].end);
      int64_t earliest = message.sourceRun;
      for (int64_t i = 0; i < kSendSlack; ++i)
        earliest = std::min(behindPair(message.source, earliest), std::ssize(list));
      auto release = std::find_if(list.begin() + earliest, list.end(),
                                  [&](const Run &run) { return run.start >= posted + ticks.message; });
      message.releaseRun = release == list.end() ? -1 : release - list.begin();
    }
  }

  // --- One stage

  struct Lists { // messages of one stage, by run
    std::vector<std::vector<const PendingMessage *>> receives, sends;
  };

  Result<StageSchedule> makeStage(int64_t stage) {
    Lists lists = {std::vector<std::vector<const PendingMessage *>>(runs[stage].size()), {}};
    lists.sends = lists.receives;
    for (const PendingMessage &message : messages) {
      if (message.source == stage)
        lists.sends[message.sourceRun].push_back(&message);
      if (message.target == stage)
        lists.receives[message.postRun].push_back(&message);
    }
    StageSchedule result;
    bufferIds.clear();
    std::vector<int64_t> runSteps; // step of each run
    for (int64_t run = 0, next = 0; run < std::ssize(runs[stage]); run = next) {
      next = behindPair(stage, run);
      for (const PendingMessage *message : lists.receives[run])
        addMessage(result, stage, *message, false);
      for (int64_t one = run; one < next; ++one) {
        runSteps.push_back(int64_t(result.steps.size()));
        addRun(result, stage, runs[stage][one].task);
      }
      for (int64_t one = run; one < next; ++one)
        for (const PendingMessage *message : lists.sends[one])
          addMessage(result, stage, *message, true);
      if (const ScheduledTask &task = runs[stage][run].task; task.part >= 0)
        addRun(result, stage, {TaskKind::gradients, task.chunk, -1, task.part});
    }
    setLifetimes(result, lists, runSteps);
    MGC_TRY(placeBuffers(result, groupOf(shape)).at(fmt::format("stage {}", stage)));
    addWaits(result);
    return result;
  }

  // The buffer that plays `kind` for a task; the ends of a boundary on one stage share the producer's.
  int64_t buffer(StageSchedule &result, int64_t stage, BufferKind kind, int64_t chunk, int64_t microbatch) {
    int64_t bytes = bytesOf(problem, stage, chunk, kind);
    const int64_t global = shape.globalChunk(stage, chunk);
    if (kind == BufferKind::input && shape.isLocal(global - 1))
      return buffer(result, stage, BufferKind::output, chunk - 1, microbatch);
    if (kind == BufferKind::gradientIn && shape.isLocal(global))
      return buffer(result, stage, BufferKind::gradientOut, chunk + 1, microbatch);
    auto [it, isNew] = bufferIds.try_emplace(std::tuple(kind, chunk, microbatch), result.buffers.size());
    if (isNew)
      result.buffers.push_back({kind, chunk, microbatch, bytes, 0, 0, 0});
    return it->second;
  }

  void addRun(StageSchedule &result, int64_t stage, const ScheduledTask &task) {
    Step step;
    step.task = task;
    step.microbatch = task.microbatch;
    const bool isIdle = task.chunk >= 0 && problem.isIdle(stage, task.chunk, task.kind);
    for (int64_t k = 0; k < kBufferKinds && task.microbatch >= 0 && !isIdle; ++k) {
      BufferKind kind = BufferKind(k);
      BufferAccess access = problem.access[int(task.kind)][k];
      if (access != BufferAccess::none && bytesOf(problem, stage, task.chunk, kind) > 0)
        (access == BufferAccess::read ? step.reads : step.writes)
            .push_back({kind, buffer(result, stage, kind, task.chunk, task.microbatch)});
    }
    result.steps.push_back(std::move(step));
  }

  void addMessage(StageSchedule &result, int64_t stage, const PendingMessage &message, bool isSend) {
    bool gradient = message.value % 2;
    BufferKind kind = isSend ? (gradient ? BufferKind::gradientOut : BufferKind::output)
                             : (gradient ? BufferKind::gradientIn : BufferKind::input);
    Step step;
    step.kind = isSend ? Step::Kind::send : Step::Kind::recv;
    step.task = runs[stage][isSend ? message.sourceRun : message.targetRun].task;
    step.task.part = -1;
    step.task.paired = step.task.first = false;
    step.peer = isSend ? message.target : message.source;
    step.value = message.value;
    step.microbatch = message.microbatch;
    step.bytes = message.bytes;
    BufferUse use = {kind, buffer(result, stage, kind, step.task.chunk, message.microbatch)};
    (isSend ? step.reads : step.writes).push_back(use);
    result.steps.push_back(std::move(step));
  }

  // A buffer lives from its first use to its last; one that a run of a pair uses, as long as both run.
  void setLifetimes(StageSchedule &result, const Lists &lists, const std::vector<int64_t> &runSteps) {
    for (ScheduledBuffer &buffer : result.buffers)
      buffer.begin = INT64_MAX;
    for (size_t i = 0; i < result.steps.size(); ++i) {
      const bool hasSecond = i + 1 < result.steps.size() && isPaired(result.steps[i + 1]);
      for (const std::vector<BufferUse> *uses : {&result.steps[i].reads, &result.steps[i].writes})
        for (const BufferUse &use : *uses) {
          ScheduledBuffer &buffer = result.buffers[use.buffer];
          buffer.begin = std::min(buffer.begin, int64_t(i) - isPaired(result.steps[i]));
          buffer.end = int64_t(i) + 1 + hasSecond;
        }
    }
    std::map<std::pair<int64_t, int64_t>, int64_t> released; // (value, microbatch) -> the step that may use its memory
    for (const std::vector<const PendingMessage *> &sends : lists.sends)
      for (const PendingMessage *message : sends)
        released[{message->value, message->microbatch}] =
            message->releaseRun < 0 ? std::ssize(result.steps) : runSteps[message->releaseRun];
    for (const Step &step : result.steps)
      if (step.kind == Step::Kind::send) {
        ScheduledBuffer &buffer = result.buffers[step.reads[0].buffer];
        buffer.end = std::max(buffer.end, released.at({step.value, step.microbatch}));
      }
  }

  const Problem &problem;
  const Shape &shape;
  TaskTicks ticks;
  std::vector<std::vector<Run>> runs;   // [stage]
  std::vector<PendingMessage> messages; // by source, target, sourceRun: by pair in the order they are sent
  std::map<std::tuple<BufferKind, int64_t, int64_t>, int64_t> bufferIds; // buffers of the current stage
};

} // namespace

Result<Solution> generate(const Problem &problem) {
  MGC_ASSIGN(row, rowOf(problem));
  MGC_TRY(checkSizes(problem));
  return Generator(problem).generate(row);
}

} // namespace mgc::schedule
