// See StreamExecutor.h. This file walks the schedule; StreamInstructions.cpp enqueues what is in a chunk.
#include "runtime/exec/device/StreamExecutor.h"

#include <algorithm>

namespace mgc {

using StepKind = plan::ExpandedStep::Kind;
using plugin::Event;
using plugin::Stream;

StreamExecutor::StreamExecutor(const RankRecord &record, const DeviceProgram &program,
                               DeviceCommunicator &communicator, StreamExecutorOptions options)
    : record_(record), program_(program), communicator_(communicator), options_(std::move(options)),
      slotBases_(record.maxSlots + 1), operands_(record.maxOperands), posted_(record.schedule.size()),
      transfers_(record, *this) {
  place_.rank = record.rank;
  place_.stage = record.stageIndex;
  unmet_.reserve(record.transfers);
  communicator_.setProgress(this);
  for (int64_t index = 0; index < static_cast<int64_t>(record.schedule.size()); ++index)
    if (isRun(index))
      for (int64_t i = record.schedule[index].firstInstruction; i < record.schedule[index].endInstruction;
           ++i)
        positions_.push_back({index, i, kindOf(index, i)});
}

bool StreamExecutor::isOfGradients(int64_t index) const {
  return isRun(index) &&
         record_.chunks[record_.schedule[index].step.chunk].chunk->task == plan::Task::gradients;
}

StreamKind StreamExecutor::kindOf(int64_t run, int64_t instruction) const {
  const DeviceInstruction &made = program_.at(record_.schedule[run].step.chunk, instruction);
  const StreamKind own = isOfGradients(run) ? StreamKind::gradients : StreamKind::compute;
  return made.collective < 0 ? own : made.side;
}

StreamExecutor::~StreamExecutor() { communicator_.setProgress(nullptr); }

Result<std::unique_ptr<StreamExecutor>> StreamExecutor::make(const plugin::PluginDevice &device,
                                                             const RankRecord &record,
                                                             const DeviceProgram &program,
                                                             DeviceCommunicator &communicator,
                                                             StreamExecutorOptions options) {
  std::unique_ptr<StreamExecutor> executor(
      new StreamExecutor(record, program, communicator, std::move(options)));
  MGC_TRY(executor->makeStreams(device));
  return executor;
}

StreamExecutor::Way StreamExecutor::wayOf(int64_t transfer) const {
  const StepRecord &record = record_.schedule[transfer];
  return {record.peer, record.step.kind == StepKind::send};
}

Status StreamExecutor::makeStreams(const plugin::PluginDevice &device) {
  MGC_ASSIGN(compute, device.makeStream());
  compute_ = std::move(compute);
  MGC_ASSIGN(gradients, device.makeStream(true));
  gradients_ = std::move(gradients);
  MGC_ASSIGN(begun, device.makeEvent());
  begun_ = std::move(begun);
  for (StreamKind kind : {StreamKind::layers, StreamKind::step}) {
    MGC_ASSIGN(stream, device.makeStream(true));
    MGC_ASSIGN(begin, device.makeEvent());
    sides_[kind] = {std::move(stream), std::move(begin)};
  }
  for (int64_t i = 0; i < program_.mostCollectives(); ++i) {
    MGC_ASSIGN(end, device.makeEvent());
    ends_.push_back(std::move(end));
  }
  for (int64_t index = 0; index < static_cast<int64_t>(record_.schedule.size()); ++index) {
    if (isRun(index) && !isOfGradients(index))
      continue;
    if (!isRun(index) && !transferStreams_.contains(wayOf(index))) {
      MGC_TRY(communicator_.openTransfers(wayOf(index).first, wayOf(index).second));
      MGC_ASSIGN(stream, device.makeStream(true));
      transferStreams_[wayOf(index)] = std::move(stream);
    }
    std::vector<int64_t> recorded = record_.schedule[index].step.waits;
    recorded.push_back(index);
    for (int64_t step : recorded) {
      MGC_ASSIGN(event, device.makeEvent());
      events_.try_emplace(step, std::move(event));
    }
  }
  return Status::ok();
}

ExecutionPlace StreamExecutor::placeAt(int64_t step, const Marks &marks) const {
  ExecutionPlace place{record_.rank, record_.stageIndex, step, -1, "end of the step", {}};
  size_t first = 0;
  while (first < positions_.size() && first < marks[static_cast<size_t>(positions_[first].kind)])
    ++first;
  if (first == positions_.size())
    return place;
  const auto &[schedule, instruction, kind] = positions_[first];
  const plan::ExpandedStep &run = record_.schedule[schedule].step;
  place.microbatch = run.microbatch;
  place.chunk = record_.chunks[run.chunk].name;
  place.instruction = record_.chunks[run.chunk].instructions[instruction].instruction->label;
  return place;
}

Status StreamExecutor::enqueue(int64_t step, const std::function<Status()> &beforeUpdate,
                               StreamClock *clock) {
  place_.step = step;
  place_.microbatch = -1;
  place_.chunk = place_.instruction = {};
  std::fill(posted_.begin(), posted_.end(), TransferRecord());
  transfers_.clear();
  unmet_.clear();
  clock_ = clock;
  enqueued_ = 0;
  Status status = enqueueSchedule(beforeUpdate);
  return status.isOk() ? status : std::move(status).at(toString(place_));
}

Status StreamExecutor::begin() {
  if (clock_)
    MGC_TRY(clock_->stepBegins(compute_));
  MGC_TRY(compute_.record(begun_));
  for (const auto &[way, stream] : transferStreams_)
    MGC_TRY(stream.wait(begun_));
  return Status::ok();
}

Status StreamExecutor::enqueueSchedule(const std::function<Status()> &beforeUpdate) {
  MGC_TRY(begin());
  const auto size = static_cast<int64_t>(record_.schedule.size());
  for (int64_t index = 0; index < size; ++index) {
    if (index == record_.updateStep)
      MGC_TRY(beforeUpdate());
    MGC_TRY(runStep(index));
  }
  if (record_.updateStep == size)
    MGC_TRY(beforeUpdate());
  MGC_TRY(join());
  return clock_ ? clock_->stepEnds(compute_) : Status::ok();
}

Status StreamExecutor::runStep(int64_t index) {
  if (communicator_.isAborted())
    return communicator_.cause();
  MGC_TRY(progress());
  const plan::ExpandedStep &step = record_.schedule[index].step;
  place_.microbatch = step.microbatch;
  place_.chunk = step.kind == StepKind::run    ? std::string_view(record_.chunks[step.chunk].name)
                 : step.kind == StepKind::send ? "send"
                                               : "recv";
  if (step.kind != StepKind::run)
    return transfers_.start(index);
  stream_ = &streamOfRun(index);
  for (int64_t wait : step.waits) {
    MGC_TRY(finish(wait));
    if (!isRun(wait))
      MGC_TRY(stream_->wait(*posted_[wait].done));
    else if (isOfGradients(wait) != isOfGradients(index))
      MGC_TRY(stream_->wait(events_.at(wait)));
  }
  if (clock_)
    MGC_TRY(clock_->runBegins(*stream_));
  MGC_TRY(runChunk(index));
  const auto event = events_.find(index);
  return event == events_.end() ? Status::ok() : stream_->record(event->second);
}

// A run is enqueued once the list has gone past it, and a transfer that waits for it stands after it.
Result<const Event *> StreamExecutor::eventOf(int64_t index) {
  if (isRun(index))
    return &events_.at(index);
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
  const DeviceTransfer transfer{record.peer, step.value, step.microbatch,
                                options_.arena + static_cast<uint64_t>(step.offset), step.bytes};
  const Event &mine = events_.at(index);
  MGC_ASSIGN(ticket, step.kind == StepKind::send ? communicator_.send(stream, transfer, mine)
                                                 : communicator_.receive(stream, transfer, mine));
  posted_[index].ticket = ticket;
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
  TransferRecord &transfer = posted_[index];
  if (isRun(index) || transfer.done)
    return Status::ok();
  MGC_TRY(transfers_.untilPosted(index));
  MGC_ASSIGN(done, communicator_.finish(transfer.ticket));
  transfer.done = done;
  return Status::ok();
}

// The compute stream's end is the end of all; each run waited for its collectives.
Status StreamExecutor::join() {
  place_.chunk = "end of the step";
  place_.microbatch = -1;
  for (int64_t index = 0; index < static_cast<int64_t>(record_.schedule.size()); ++index) {
    MGC_TRY(finish(index));
    if (!isRun(index))
      MGC_TRY(compute_.wait(*posted_[index].done));
  }
  return Status::ok();
}

} // namespace mgc
