#include "runtime/exec/EngineRank.h"

#include "runtime/exec/HostClock.h"
#include "runtime/exec/Resolve.h"
#include "runtime/exec/StreamClock.h"

#include <atomic>

namespace mgc {

using Clock = std::chrono::steady_clock;

namespace {

constexpr uint8_t kPoison = 0xFF; // every f32 a NaN, every i32 -1
// The work that an abort leaves on the device should take no longer.
constexpr std::chrono::seconds kLastWork{2};

Marks marksOf(const StepIo &io) {
  Marks marks;
  for (size_t i = 0; i < marks.size(); ++i)
    marks[i] = std::atomic_ref<uint32_t>(io.marks()[i]).load(std::memory_order_acquire);
  return marks;
}

void clearMarks(const StepIo &io) {
  static_assert(sizeof(Marks) <= plan::kAlignment); // the space for them in StepIo
  for (size_t i = 0; i < kStreamKinds; ++i)
    std::atomic_ref<uint32_t>(io.marks()[i]).store(0, std::memory_order_release);
}

} // namespace

Result<std::unique_ptr<EngineRank>> EngineRank::create(const plan::Plan &plan, const plugin::PluginDevice &device,
                                                       Communicator &communicator, const EngineRankOptions &options) {
  std::unique_ptr<EngineRank> rank(new EngineRank(plan, device, communicator, options));
  MGC_TRY(rank->allocate());
  return rank;
}

Status EngineRank::allocate() {
  MGC_SET(record_, resolveRank(plan_, options_.seed, communicator_));
  MGC_SET(copies_, device_.makeStream());
  MGC_SET(arena_, RankArena::allocate(device_, *record_.stage, options_.isOnHost));
  return Status::ok();
}

Status EngineRank::choose(ProductChoices &choices) {
  return choices.choose(copies_, {arena_.address(), arena_.bytes()}, productsOf(record_));
}

// Memory of the host is zero, and placed by the thread that touches it first.
Status EngineRank::load(const RowKernels &kernels, const ProductChoices *choices) {
  if (options_.poison || !options_.isOnHost)
    MGC_TRY(arena_.fill(copies_, options_.poison ? kPoison : 0));
  const bool hasThreads = options_.isOnHost && options_.isConcurrent && communicator_.hasConcurrentCollectives();
  const Concurrency concurrency = !options_.isOnHost ? Concurrency::all
                                  : hasThreads       ? Concurrency::products
                                                     : Concurrency::none;
  MGC_SET(program_, RankProgram::make(plan_, record_, kernels, device_, choices, concurrency));
  MGC_SET(io_, StepIo::make(device_, plan_, record_.rank));
  if (options_.timeline.trace() || options_.timeline.measure)
    MGC_TRY(makeClock());
  StreamExecutorOptions executorOptions{arena_.addresses(), options_.isOnHost ? nullptr : io_.marks(),
                                        options_.inject,    options_.isOnHost,
                                        hasThreads,         options_.prepareThread};
  MGC_SET(executor_, StreamExecutor::make(device_, record_, program_, communicator_, executorOptions));
  return communicator_.connect();
}

Status EngineRank::makeClock() {
  MGC_SET(timeline_, Timeline::create(record_, options_.timeline));
  if (options_.isOnHost) {
    clock_ = std::make_unique<HostClock>(*timeline_);
    return Status::ok();
  }
  MGC_SET(clock_, StreamClock::make(device_, record_, *timeline_));
  return Status::ok();
}

// Memory of the host has no other copy.
Status EngineRank::upload(Part part) {
  if (options_.isOnHost)
    return Status::ok();
  if (part == Part::weights)
    MGC_TRY(arena_.clear(copies_, keptByOptimizer(plan_, *record_.stage)));
  return arena_.upload(copies_, rangesOf(plan_, *record_.stage, part));
}

Status EngineRank::download(Part part) {
  return options_.isOnHost ? Status::ok() : arena_.download(copies_, rangesOf(plan_, *record_.stage, part));
}

ExecutionPlace EngineRank::place(int64_t step) const { return executor_->placeAt(step, marksOf(io_)); }

Status EngineRank::run(const StepOrder &order) {
  const auto start = Clock::now();
  const int64_t step = order.step;
  clearMarks(io_);
  io_.writeScalars(order.scalars, step);
  if (Status enqueued = enqueue(order); !enqueued.isOk()) {
    if (isMeasured_)
      MGC_TRY(clock_->report(true));
    MGC_TRY(device_.check().at(toString(place(step)))); // a fault is found by whatever is enqueued next
    return enqueued;
  }
  hostSeconds_ = std::chrono::duration<double>(Clock::now() - start).count();
  MGC_TRY(finish(step));
  return isMeasured_ ? clock_->report(!*order.isUpdated) : Status::ok(); // without an update it has no whole record
}

// Objects that the libraries make at their first use must not be captured: the first step never is.
Status EngineRank::enqueue(const StepOrder &order) {
  isMeasured_ = clock_ && clock_->beginStep(order.step);
  MGC_TRY(io_.copyIn(stream(), arena_.address(), order.step));
  if (!options_.graphs || options_.inject || order.pauses() || isMeasured_ || directSteps_ == 0) {
    ++directSteps_;
    MGC_TRY(enqueueDirectly(order));
  } else {
    MGC_ASSIGN(captured, isCaptured());
    if (!captured)
      MGC_TRY(capture(order));
    MGC_TRY(launch());
  }
  return io_.copyOut(stream(), arena_.address());
}

Status EngineRank::enqueueDirectly(const StepOrder &order) {
  return executor_->enqueue(
      order.step, [this, &order] { return order.pauses() ? pauseForUpdate(order) : Result<bool>(true); },
      isMeasured_ ? clock_.get() : nullptr);
}

Status EngineRank::capture(const StepOrder &order) {
  MGC_TRY(stream().beginCapture());
  const Status enqueued = enqueueDirectly(order);
  Result<plugin::Graph> captured = stream().endCapture();
  MGC_TRY(Status(enqueued));
  MGC_ASSIGN(graph, std::move(captured).at("capturing a step"));
  std::lock_guard lock(graphMutex_);
  if (!isGraphDropped_)
    graph_ = std::move(graph);
  return Status::ok();
}

Result<bool> EngineRank::isCaptured() {
  std::lock_guard lock(graphMutex_);
  if (isGraphDropped_)
    return errorf("the run was aborted");
  return bool(graph_);
}

Status EngineRank::launch() {
  std::lock_guard lock(graphMutex_);
  return graph_ ? stream().launch(graph_) : errorf("the run was aborted");
}

void EngineRank::dropGraph() {
  std::lock_guard lock(graphMutex_);
  isGraphDropped_ = true;
  graph_ = {};
}

// The gradients are complete on the host too when beforeUpdate runs, and stay until all ranks have come out of it.
Result<bool> EngineRank::pauseForUpdate(const StepOrder &order) {
  MGC_TRY(executor_->joinGradients());
  MGC_TRY(io_.copyOut(stream(), arena_.address()));
  MGC_TRY(finish(order.step));
  if (order.beforeUpdate)
    MGC_TRY(download(Part::gradients));
  MGC_TRY(options_.barrier());
  if (options_.callsBeforeUpdate && order.beforeUpdate)
    MGC_TRY((*order.beforeUpdate)());
  if (options_.callsBeforeUpdate && order.ask)
    MGC_TRY((*order.ask)());
  MGC_TRY(options_.barrier());
  return order.isUpdated->load();
}

// As long as instructions end, the device is at work.
Status EngineRank::finish(int64_t step) {
  Marks seen = marksOf(io_);
  auto deadline = Clock::now() + options_.timeout;
  while (!stream().synchronize(std::min(kLivenessInterval, options_.timeout)).isOk()) {
    MGC_TRY(device_.check().at(toString(place(step))));
    if (Status failed = communicator_.check(); !failed.isOk())
      return communicator_.isAborted() ? failed : std::move(failed).at(toString(place(step)));
    if (const Marks marks = marksOf(io_); marks != seen)
      seen = marks, deadline = Clock::now() + options_.timeout;
    else if (Clock::now() > deadline) {
      isStuck_ = true;
      return errorf("waited {} s for the device to end this instruction",
                    std::chrono::duration<double>(options_.timeout).count())
          .at(toString(place(step)));
    }
  }
  return Status::ok();
}

// One that has failed takes no more work, but gives back its memory.
void EngineRank::awaitEnd() {
  const auto deadline = std::min<std::chrono::milliseconds>(kLastWork, options_.timeout);
  isStuck_ = isStuck_ || (!stream().synchronize(deadline).isOk() && device_.check().isOk());
}

} // namespace mgc
