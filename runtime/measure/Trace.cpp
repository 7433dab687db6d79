// See Trace.h. One process, one thread per rank. Spans are complete events; a transfer's bytes are an arrow
// from the sender's "send" to the end of the receiver's "arrival".
#include "runtime/measure/Trace.h"

#include "plan/EvenLoad.h"
#include "plan/Plan.h"
#include "plan/mesh/Mesh.h"
#include "runtime/base/File.h"
#include "runtime/exec/Labels.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace mgc {

namespace {

using Json = nlohmann::ordered_json;
using StepKind = plan::ExpandedStep::Kind;

constexpr int kProcess = 1;

// On the machine's steady clock, so that traces of several processes can be laid beside each other.
double microseconds(int64_t nanoseconds) { return double(nanoseconds) / 1000; }

class TraceWriter {
public:
  TraceWriter(const plan::Plan &plan, const Recording &recording, AtomicFile &file)
      : plan_(plan), works_(worksOf(plan)), recording_(recording), file_(file) {}
  Status write();

private:
  Status emit(Json event); // adds what all events have
  Status writeNames();
  Status writeSpan(const Recording::Rank &rank, const Timeline::Record &record);
  Status writeArrow(const Recording::Rank &rank, const Timeline::Record &record);
  Json argumentsOf(const Recording::Rank &rank, const Timeline::Record &record) const;
  std::string nameOf(const Recording::Rank &rank, const Timeline::Record &record) const;

  const plan::Plan &plan_;
  const std::map<const plan::Instruction *, plan::Work> works_;
  const Recording &recording_;
  AtomicFile &file_;
  int64_t rank_ = 0; // the rank being written
  bool isFirst_ = true;
  std::vector<int64_t> numbers_; // by schedule step of the rank: see numberTransfers
};

// Transfers between two ranks match in the order of their lists: which send to its peer, or receive from it, a step is.
std::vector<int64_t> numberTransfers(const RankRecord &rank) {
  std::vector<int64_t> numbers;
  std::map<std::pair<StepKind, int64_t>, int64_t> counts;
  for (const StepRecord &step : rank.schedule)
    numbers.push_back(counts[{step.step.kind, step.peer}]++);
  return numbers;
}

const plan::ExpandedStep *stepOf(const Recording::Rank &rank, const Timeline::Record &record) {
  return record.schedule < 0 ? nullptr : &rank.record->schedule[record.schedule].step;
}

const InstructionRecord *instructionOf(const Recording::Rank &rank, const Timeline::Record &record) {
  if (record.instruction < 0)
    return nullptr;
  return &rank.record->chunks[stepOf(rank, record)->chunk].instructions[record.instruction];
}

std::string_view categoryOf(const Recording::Rank &rank, const Timeline::Record &record) {
  switch (record.kind) {
  case Timeline::Kind::step:
    return "step";
  case Timeline::Kind::chunk:
    return "chunk";
  case Timeline::Kind::instruction:
    return nameOf(kindOf(instructionOf(rank, record)->instruction->body));
  case Timeline::Kind::transfer:
  case Timeline::Kind::arrival:
    return nameOf(plan::WorkKind::transfer);
  case Timeline::Kind::wait:
    break;
  }
  return "wait";
}

std::string TraceWriter::nameOf(const Recording::Rank &rank, const Timeline::Record &record) const {
  const plan::ExpandedStep *step = stepOf(rank, record);
  const bool sends = step && step->kind == StepKind::send;
  switch (record.kind) {
  case Timeline::Kind::step:
    return fmt::format("step {}", record.step);
  case Timeline::Kind::chunk:
    return rank.record->chunks[step->chunk].name;
  case Timeline::Kind::instruction: {
    const InstructionRecord &at = *instructionOf(rank, record);
    return labelOf(at.instruction->label, at.layer, at.isOfSeveralLayers);
  }
  case Timeline::Kind::transfer:
    return sends ? "send" : "recv";
  case Timeline::Kind::arrival:
    return sends ? "sent" : "received";
  case Timeline::Kind::wait:
    break;
  }
  return "wait";
}

Json TraceWriter::argumentsOf(const Recording::Rank &rank, const Timeline::Record &record) const {
  Json arguments = {{"step", record.step}};
  const plan::ExpandedStep *step = stepOf(rank, record);
  if (step && step->microbatch >= 0)
    arguments["microbatch"] = step->microbatch;
  if (step && step->kind != StepKind::run) {
    arguments["peer"] = rank.record->schedule[record.schedule].peer;
    arguments["value"] = step->value;
    arguments["bytes"] = step->bytes;
  }
  const InstructionRecord *instruction = instructionOf(rank, record);
  if (instruction && record.kind == Timeline::Kind::wait)
    arguments["in"] = labelOf(instruction->instruction->label, instruction->layer, instruction->isOfSeveralLayers);
  else if (instruction) {
    arguments["chunk"] = rank.record->chunks[step->chunk].name;
    arguments["layer"] = instruction->layer;
    arguments["kernel"] = kernelOf(*instruction->instruction);
    const plan::Work &work = works_.at(instruction->instruction);
    arguments["flops"] = work.flops;
    arguments["bytes"] = work.bytes;
  }
  return arguments;
}

Status TraceWriter::emit(Json event) {
  event["pid"] = kProcess;
  event["tid"] = rank_;
  const char *separator = isFirst_ ? "\n" : ",\n";
  isFirst_ = false;
  MGC_TRY(file_.write(separator));
  return file_.write(event.dump());
}

Status TraceWriter::writeNames() {
  std::string place;
  for (const plan::Axis &axis : plan_.mesh.axes)
    place += fmt::format(" {} {}", axis.name, plan::coordinate(plan_.mesh, rank_, {axis.name}));
  MGC_TRY(emit({{"name", "process_name"}, {"ph", "M"}, {"args", {{"name", "mgc"}}}}));
  MGC_TRY(emit({{"name", "thread_name"},
                {"ph", "M"},
                {"args", {{"name", fmt::format("rank {}{}{}", rank_, place.empty() ? "" : ":", place)}}}}));
  return emit({{"name", "thread_sort_index"}, {"ph", "M"}, {"args", {{"sort_index", rank_}}}});
}

Status TraceWriter::writeSpan(const Recording::Rank &rank, const Timeline::Record &record) {
  MGC_TRY(emit({{"name", nameOf(rank, record)},
                {"cat", categoryOf(rank, record)},
                {"ph", "X"},
                {"ts", microseconds(record.begin)},
                {"dur", double(record.end - record.begin) / 1000},
                {"args", argumentsOf(rank, record)}}));
  return writeArrow(rank, record);
}

Status TraceWriter::writeArrow(const Recording::Rank &rank, const Timeline::Record &record) {
  const plan::ExpandedStep *step = stepOf(rank, record);
  const bool begins = record.kind == Timeline::Kind::transfer && step->kind == StepKind::send;
  const bool ends = record.kind == Timeline::Kind::arrival && step->kind == StepKind::recv;
  if (!begins && !ends)
    return Status::ok();
  const int64_t peer = rank.record->schedule[record.schedule].peer;
  const int64_t from = begins ? rank_ : peer, to = begins ? peer : rank_;
  Json event = {{"name", "transfer"},
                {"cat", "arrow"},
                {"ph", begins ? "s" : "f"},
                {"id", fmt::format("{}.{}.{}.{}", record.step, from, to, numbers_[record.schedule])},
                {"ts", microseconds(begins ? record.begin : record.end)}};
  if (ends)
    event["bp"] = "e"; // it ends in the span around it, not at the next one
  return emit(std::move(event));
}

Status TraceWriter::write() {
  MGC_TRY(file_.write(kTraceBegins));
  for (const Recording::Rank &rank : recording_.ranks) {
    rank_ = rank.record->rank;
    numbers_ = numberTransfers(*rank.record);
    MGC_TRY(writeNames());
    for (const Timeline::Record &record : rank.timeline->records())
      MGC_TRY(writeSpan(rank, record));
  }
  return file_.write("\n]}\n");
}

} // namespace

Status writeTrace(const plan::Plan &plan, const Recording &recording, const std::string &path) {
  MGC_ASSIGN(file, AtomicFile::create(path));
  MGC_TRY(TraceWriter(plan, recording, file).write());
  return file.commit();
}

} // namespace mgc
