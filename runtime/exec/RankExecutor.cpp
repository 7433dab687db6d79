// See RankExecutor.h. This file walks the schedule; Instructions.cpp executes what is in a chunk.
#include "runtime/exec/RankExecutor.h"

#include <algorithm>

namespace mgc {

using StepKind = plan::ExpandedStep::Kind;

std::string toString(const ExecutionPlace &place) {
  std::string text = fmt::format("rank {} (stage {}), step {}", place.rank, place.stage, place.step);
  if (place.microbatch >= 0)
    text += fmt::format(", microbatch {}", place.microbatch);
  if (!place.chunk.empty())
    text += fmt::format(", {}", place.chunk);
  if (!place.instruction.empty())
    text += fmt::format(", {}", place.instruction);
  return text;
}

RankExecutor::RankExecutor(const RankRecord &record, Communicator &communicator, std::byte *arena,
                           ExecutorOptions options)
    : record_(record), communicator_(communicator), arena_(arena), options_(std::move(options)),
      slotBases_(record.maxSlots + 1), operands_(record.maxOperands), posted_(record.schedule.size()),
      transfers_(record, *this) {
  place_.rank = record.rank;
  place_.stage = record.stageIndex;
  communicator_.reserveTransfers(record.transfers);
  communicator_.setProgress(this);
}

RankExecutor::~RankExecutor() {
  communicator_.setProgress(nullptr);
  communicator_.setWaitObserver(nullptr);
}

Status RankExecutor::run(int64_t step, const std::function<Status()> &beforeUpdate) {
  place_.step = step;
  place_.microbatch = -1;
  place_.chunk = place_.instruction = {};
  std::fill(posted_.begin(), posted_.end(), TransferRecord());
  transfers_.clear();
  timeline_ = options_.timeline && options_.timeline->beginStep(step) ? options_.timeline : nullptr;
  communicator_.setWaitObserver(timeline_);
  const Timeline::Span span(timeline_, Timeline::Kind::step);
  Status status = runSchedule(beforeUpdate);
  return status.isOk() ? status : std::move(status).at(toString(place_)); // the text is made for errors only
}

Status RankExecutor::runSchedule(const std::function<Status()> &beforeUpdate) {
  const auto size = static_cast<int64_t>(record_.schedule.size());
  for (int64_t index = 0; index < size; ++index) {
    if (index == record_.updateStep)
      MGC_TRY(beforeUpdate());
    MGC_TRY(runStep(index));
  }
  if (record_.updateStep == size)
    MGC_TRY(beforeUpdate());
  return finishAll();
}

Status RankExecutor::runStep(int64_t index) {
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
  for (int64_t wait : step.waits)
    MGC_TRY(finish(wait));
  return runChunk(index);
}

// A run is done once the list has gone past it, and a transfer that waits for it stands after it.
Result<bool> RankExecutor::isOver(int64_t index) {
  const TransferRecord &transfer = posted_[index];
  if (isRun(index) || transfer.isDone)
    return true;
  if (transfer.ticket < 0)
    return false;
  return communicator_.isDone(transfer.ticket);
}

Status RankExecutor::post(int64_t index) {
  const StepRecord &record = record_.schedule[index];
  const plan::ExpandedStep &step = record.step;
  const Timeline::Span span(timeline_, Timeline::Kind::transfer, index);
  const Transfer transfer{record.peer, step.value, step.microbatch, arena_ + step.offset, step.bytes};
  MGC_ASSIGN(ticket,
             step.kind == StepKind::send ? communicator_.send(transfer) : communicator_.receive(transfer));
  posted_[index].ticket = ticket;
  return Status::ok();
}

Status RankExecutor::finish(int64_t index) {
  TransferRecord &transfer = posted_[index];
  if (isRun(index) || transfer.isDone)
    return Status::ok();
  MGC_TRY(transfers_.untilPosted(index));
  const Timeline::Span span(timeline_, Timeline::Kind::arrival, index);
  MGC_TRY(communicator_.wait(transfer.ticket));
  transfer.isDone = true;
  return Status::ok();
}

Status RankExecutor::finishAll() {
  place_.chunk = "end of the step";
  place_.microbatch = -1;
  for (int64_t index = 0; index < static_cast<int64_t>(record_.schedule.size()); ++index)
    MGC_TRY(finish(index));
  return Status::ok();
}

} // namespace mgc
