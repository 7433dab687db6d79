// See StreamExecutor.h. This file walks the schedule; StreamInstructions.cpp enqueues what is in a chunk.
#include "runtime/exec/StreamExecutor.h"

#include <algorithm>

namespace mgc {

using StepKind = plan::ExpandedStep::Kind;
using plugin::Event;
using plugin::Stream;

StreamExecutor::StreamExecutor(const RankRecord &record, const RankProgram &program, Communicator &communicator,
                               StreamExecutorOptions options)
    : record_(record), program_(program), communicator_(communicator), options_(std::move(options)),
      posted_(record.schedule.size()), runNumbers_(record.schedule.size()), transfers_(record, *this) {
  unmet_.reserve(record.transfers);
  communicator_.reserveTransfers(record.transfers);
  if (!options_.marks)
    return;
  const auto addRun = [&](int64_t run, std::vector<Position> &positions) {
    addPositions(run, record_.schedule[run].firstInstruction, record_.schedule[run].endInstruction, positions);
  };
  for (int64_t index = 0; index < static_cast<int64_t>(record.schedule.size()); ++index) {
    if (!isRun(index))
      continue;
    addRun(index, measuredPositions_);
    if (options_.isOnHost || (!isPaired(index) && !isPaired(index + 1)))
      addRun(index, positions_);
    else if (isPaired(index + 1))
      for (const PairTurn &turn : program_.turns(index))
        addPositions(index + turn.isSecond, turn.begin, turn.end, positions_);
  }
}

void StreamExecutor::addPositions(int64_t run, int64_t begin, int64_t end, std::vector<Position> &positions) const {
  for (int64_t i = begin; i < end; ++i)
    positions.push_back({run, i, kindOf(run, i)});
}

StreamExecutor::~StreamExecutor() {
  communicator_.setProgress(nullptr);
  communicator_.setWaitObserver(nullptr);
}

bool StreamExecutor::isOfTask(int64_t index, plan::Task task) const {
  return isRun(index) && record_.chunks[record_.schedule[index].step.chunk].chunk->task == task;
}

StreamKind StreamExecutor::kindOf(int64_t run, int64_t instruction) const {
  const PreparedInstruction &made = program_.at(record_.schedule[run].step.chunk, instruction);
  const StreamKind own = isOfGradients(run) ? StreamKind::gradients : StreamKind::compute;
  return made.concurrent < 0 ? own : made.side;
}

Result<std::unique_ptr<StreamExecutor>> StreamExecutor::make(const plugin::PluginDevice &device,
                                                             const RankRecord &record, const RankProgram &program,
                                                             Communicator &communicator,
                                                             StreamExecutorOptions options) {
  std::unique_ptr<StreamExecutor> executor(new StreamExecutor(record, program, communicator, std::move(options)));
  MGC_TRY(executor->makeStreams(device));
  if (executor->options_.hasThreads)
    MGC_TRY(executor->startThreads());
  return executor;
}

StreamExecutor::Link StreamExecutor::linkOf(int64_t transfer) const {
  const StepRecord &record = record_.schedule[transfer];
  return {record.peer, record.step.kind == StepKind::send};
}

StreamExecutor::Cursor StreamExecutor::cursorOn(const Stream &stream, bool isOfLane) const {
  Cursor cursor{&stream, {}, std::vector<int64_t>(record_.maxSlots + 1), {}, isOfLane};
  cursor.operands.reserve(record_.maxOperands);
  cursor.place.rank = record_.rank;
  cursor.place.stage = record_.stageIndex;
  return cursor;
}

Status StreamExecutor::makeStreams(const plugin::PluginDevice &device) {
  MGC_SET(compute_, device.makeStream());
  cursor_ = cursorOn(compute_, false);
  secondCursor_ = cursorOn(compute_, false);
  MGC_SET(begun_, device.makeEvent());
  for (StreamKind kind : {StreamKind::gradients, StreamKind::layers, StreamKind::units, StreamKind::step,
                          StreamKind::copiesIn, StreamKind::copiesOut}) {
    MGC_ASSIGN(stream, device.makeStream(true));
    MGC_ASSIGN(begin, device.makeEvent());
    Lane &lane = lanes_[kind];
    lane.stream = std::move(stream);
    lane.begin = std::move(begin);
    lane.cursor = cursorOn(lane.stream, true);
  }
  const bool hasPairs =
      std::ranges::any_of(record_.schedule, [](const StepRecord &record) { return record.step.paired; });
  secondCursor_.firstEnd = program_.mostConcurrent();
  for (int64_t i = 0; i < (hasPairs ? 2 : 1) * program_.mostConcurrent(); ++i) {
    MGC_ASSIGN(end, device.makeEvent());
    ends_.push_back(std::move(end));
  }
  concurrentNumbers_.resize(ends_.size());
  for (int64_t index = 0; index < static_cast<int64_t>(record_.schedule.size()); ++index)
    if (!isRun(index) || isOfGradients(index))
      MGC_TRY(makeEventsOf(device, index));
  return Status::ok();
}

// A transfer's or a gradients' run, and what it waits for.
Status StreamExecutor::makeEventsOf(const plugin::PluginDevice &device, int64_t index) {
  if (!isRun(index) && !transferStreams_.contains(linkOf(index))) {
    MGC_TRY(communicator_.openTransfers(linkOf(index).first, linkOf(index).second));
    MGC_SET(transferStreams_[linkOf(index)], device.makeStream(true));
  }
  if (options_.isOnHost)
    return Status::ok();
  std::vector<int64_t> recorded = record_.schedule[index].step.waits;
  recorded.push_back(index);
  for (int64_t step : recorded) {
    MGC_ASSIGN(event, device.makeEvent());
    events_.try_emplace(step, std::move(event));
  }
  return Status::ok();
}

Status StreamExecutor::startThreads() {
  int64_t gradients = 0;
  for (int64_t index = 0; index < static_cast<int64_t>(record_.schedule.size()); ++index)
    gradients += isOfGradients(index);
  MGC_TRY(startThread(StreamKind::gradients, gradients));
  for (StreamKind kind : {StreamKind::layers, StreamKind::units})
    MGC_TRY(startThread(kind, program_.mostConcurrent(kind)));
  return Status::ok();
}

Status StreamExecutor::startThread(StreamKind kind, int64_t works) {
  if (works == 0)
    return Status::ok();
  Lane &lane = lanes_.at(kind);
  MGC_ASSIGN(thread, LaneThread::start(works, {.prepare = options_.prepareThread,
                                               .work = [this, &lane](const LaneWork &one) { work(lane, one); },
                                               .done = [this] { communicator_.wake(); }}));
  lane.thread = std::move(thread);
  return Status::ok();
}

ExecutionPlace StreamExecutor::placeAt(int64_t step, const Marks &marks) const {
  ExecutionPlace place{record_.rank, record_.stageIndex, step, -1, "end of the step", {}};
  size_t first = 0;
  while (first < positions().size() && first < marks[static_cast<size_t>(positions()[first].kind)])
    ++first;
  if (first == positions().size())
    return place;
  const auto &[schedule, instruction, kind] = positions()[first];
  const plan::ExpandedStep &run = record_.schedule[schedule].step;
  place.microbatch = run.microbatch;
  place.chunk = record_.chunks[run.chunk].name;
  stand(place, record_.chunks[run.chunk], instruction);
  return place;
}

Status StreamExecutor::enqueue(int64_t step, const BeforeUpdate &beforeUpdate, StepClock *clock) {
  cursor_.place.step = secondCursor_.place.step = step;
  cursor_.place.microbatch = -1;
  cursor_.place.chunk = cursor_.place.instruction = {};
  for (auto &[kind, lane] : lanes_)
    lane.cursor.place.step = step;
  std::fill(posted_.begin(), posted_.end(), TransferRecord());
  transfers_.clear();
  unmet_.clear();
  clock_ = clock;
  isMeasured_ = clock != nullptr;
  enqueued_ = 0;
  communicator_.setProgress(this); // several engines may share the communicator: this one runs the step
  communicator_.setWaitObserver(clock ? clock->waitObserver() : nullptr);
  Status status = enqueueSchedule(beforeUpdate);
  if (status.isOk())
    return status;
  status = std::move(status).at(toString(cursor_.place));
  if (options_.isOnHost) {
    communicator_.abort(status); // the rank's other threads wait for events that will not come
    finishThreads();
  }
  return status;
}

void StreamExecutor::finishThreads() const {
  for (const auto &[kind, lane] : lanes_)
    if (lane.thread)
      lane.thread->finish();
}

Status StreamExecutor::begin() {
  if (clock_)
    MGC_TRY(clock_->stepBegins(compute_));
  MGC_TRY(compute_.record(begun_));
  for (const auto &[way, stream] : transferStreams_)
    MGC_TRY(stream.wait(begun_));
  return Status::ok();
}

Status StreamExecutor::enqueueSchedule(const BeforeUpdate &beforeUpdate) {
  MGC_TRY(begin());
  const auto size = static_cast<int64_t>(record_.schedule.size());
  bool isUpdated = true;
  for (int64_t index = 0; index < size; ++index) {
    if (index == record_.updateStep)
      MGC_SET(isUpdated, beforeUpdate());
    if (isUpdated || !isOfTask(index, plan::Task::update))
      MGC_TRY(runStep(index));
  }
  if (record_.updateStep == size)
    MGC_TRY(beforeUpdate().status());
  MGC_TRY(join());
  return clock_ ? clock_->stepEnds(compute_) : Status::ok();
}

void StreamExecutor::placeAtRun(Cursor &cursor, int64_t index) const {
  const plan::ExpandedStep &step = record_.schedule[index].step;
  cursor.place.microbatch = step.microbatch;
  cursor.place.chunk = step.kind == StepKind::run    ? std::string_view(record_.chunks[step.chunk].name)
                       : step.kind == StepKind::send ? "send"
                                                     : "recv";
}

Status StreamExecutor::runStep(int64_t index) {
  if (communicator_.isAborted())
    return communicator_.cause();
  MGC_TRY(progress());
  placeAtRun(cursor_, index);
  if (!isRun(index))
    return transfers_.start(index);
  if (runsPairs() && isPaired(index))
    return Status::ok(); // enqueued with the run before it
  if (runsPairs() && isPaired(index + 1))
    return runPair(index);
  Lane &gradients = lanes_.at(StreamKind::gradients);
  const bool isConcurrentRun = isConcurrent(index);
  cursor_.stream = isConcurrentRun ? &gradients.stream : &compute_;
  for (int64_t wait : record_.schedule[index].step.waits)
    MGC_TRY(waitFor(wait, index));
  if (isConcurrentRun && gradients.thread) {
    runNumbers_[index] = gradients.thread->enqueue({index});
    return Status::ok();
  }
  if (clock_)
    MGC_TRY(clock_->runBegins(*cursor_.stream, index));
  MGC_TRY(runChunk(cursor_, index));
  if (clock_)
    MGC_TRY(clock_->runEnds());
  if (isPaired(index + 1))
    return Status::ok(); // done when the pair is
  return recordEnds(isPaired(index) ? index - 1 : index, index);
}

Status StreamExecutor::recordEnds(int64_t first, int64_t last) {
  for (int64_t run = first; run <= last; ++run)
    if (const auto event = events_.find(run); event != events_.end())
      MGC_TRY(cursor_.stream->record(event->second));
  return Status::ok();
}

// Both are done when the pair is.
Status StreamExecutor::runPair(int64_t index) {
  const int64_t second = index + 1;
  cursor_.stream = &compute_;
  for (int64_t wait : record_.schedule[index].step.waits)
    MGC_TRY(waitFor(wait, index));
  placeAtRun(secondCursor_, second);
  beginChunk(cursor_, index);
  beginChunk(secondCursor_, second);
  for (const PairTurn &turn : program_.turns(index)) {
    Status status =
        runInstructions(turn.isSecond ? secondCursor_ : cursor_, index + turn.isSecond, turn.begin, turn.end);
    if (turn.isSecond && !status.isOk())
      cursor_.place = secondCursor_.place; // the place that the error names
    MGC_TRY(std::move(status));
  }
  MGC_TRY(joinBefore(cursor_, index, record_.schedule[index].endInstruction));
  MGC_TRY(joinBefore(secondCursor_, second, record_.schedule[second].endInstruction));
  return recordEnds(index, second);
}

// The run's stream is behind the step that it waits for.
Status StreamExecutor::waitFor(int64_t wait, int64_t run) {
  const bool areApart = isConcurrent(wait) != isConcurrent(run);
  if (!isRun(wait) || areApart)
    MGC_TRY(finish(wait));
  if (!isRun(wait))
    return cursor_.stream->wait(*posted_[wait].done);
  return areApart && !options_.isOnHost ? cursor_.stream->wait(events_.at(wait)) : Status::ok();
}

Status StreamExecutor::await(const LaneThread &thread, int64_t number) {
  MGC_TRY(communicator_.await([&] { return thread.isDone(number); }));
  return communicator_.isAborted() ? communicator_.cause() : Status::ok();
}

// A run is enqueued once the list has gone past it, and a transfer that waits for it stands after it. On the host one of
// gradients must be done.
Result<const Event *> StreamExecutor::eventOf(int64_t index) {
  if (isRun(index)) {
    const bool isAtWork = options_.isOnHost && isConcurrent(index) &&
                          !lanes_.at(StreamKind::gradients).thread->isDone(runNumbers_[index]);
    return isAtWork ? nullptr : &eventAt(index);
  }
  const TransferRecord &transfer = posted_[index];
  if (transfer.ticket < 0 || transfer.done)
    return transfer.done;
  return communicator_.poll(transfer.ticket);
}

Result<bool> StreamExecutor::isOver(int64_t index) {
  MGC_ASSIGN(event, eventOf(index));
  return event != nullptr;
}

Status StreamExecutor::post(int64_t index) {
  const StepRecord &record = record_.schedule[index];
  const plan::ExpandedStep &step = record.step;
  const Stream &stream = streamOf(index);
  for (int64_t wait : step.waits) {
    MGC_ASSIGN(event, eventOf(wait));
    MGC_TRY(stream.wait(*event));
  }
  const Transfer transfer{record.peer, step.value, step.microbatch, options_.addresses.at(step.offset), step.bytes};
  const Event &mine = eventAt(index);
  if (clock_)
    clock_->transferBegins(index);
  MGC_ASSIGN(ticket, step.kind == StepKind::send ? communicator_.send(stream, transfer, mine)
                                                 : communicator_.receive(stream, transfer, mine));
  if (clock_)
    clock_->transferOrArrivalEnds();
  posted_[index].ticket = ticket;
  if (!options_.isOnHost) // where a transfer goes on by itself
    unmet_.push_back(index);
  return Status::ok();
}

// Posts what has become ready, and has the communicator enqueue what has met its other end.
Status StreamExecutor::progress() {
  for (size_t i = 0; i < unmet_.size();) {
    MGC_ASSIGN(done, isOver(unmet_[i]));
    if (done)
      unmet_.erase(unmet_.begin() + static_cast<int64_t>(i));
    else
      ++i;
  }
  return transfers_.retry();
}

Status StreamExecutor::finish(int64_t index) {
  if (isRun(index))
    return options_.isOnHost && isConcurrent(index)
               ? await(*lanes_.at(StreamKind::gradients).thread, runNumbers_[index])
               : Status::ok();
  TransferRecord &transfer = posted_[index];
  if (transfer.done)
    return Status::ok();
  MGC_TRY(transfers_.untilPosted(index));
  if (clock_)
    clock_->arrivalBegins(index);
  MGC_ASSIGN(done, communicator_.finish(transfer.ticket));
  if (clock_)
    clock_->transferOrArrivalEnds();
  transfer.done = done;
  return Status::ok();
}

Status StreamExecutor::joinGradients() {
  for (int64_t index = 0; index < static_cast<int64_t>(record_.schedule.size()); ++index) {
    if (!isConcurrent(index))
      continue;
    MGC_TRY(finish(index));
    if (!options_.isOnHost)
      MGC_TRY(compute_.wait(events_.at(index)));
  }
  return Status::ok();
}

// The compute stream's end is the end of all; each run waited for its collectives.
Status StreamExecutor::join() {
  cursor_.place.chunk = "end of the step";
  cursor_.place.microbatch = -1;
  for (int64_t index = 0; index < static_cast<int64_t>(record_.schedule.size()); ++index)
    if (!isRun(index)) {
      MGC_TRY(finish(index));
      MGC_TRY(compute_.wait(*posted_[index].done));
    }
  return joinGradients();
}

} // namespace mgc
