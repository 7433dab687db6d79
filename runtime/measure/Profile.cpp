#include "runtime/measure/Profile.h"

#include "plan/EvenLoad.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace mgc {

namespace {

using plan::WorkKind;
using Kind = Timeline::Kind;
using StepKind = plan::ExpandedStep::Kind;

double seconds(int64_t nanoseconds) { return double(nanoseconds) * 1e-9; }

// The update is what comes once a step, after all gradients.
std::string_view partOf(WorkKind kind, plan::Task task) {
  const bool isUpdate = task == plan::Task::reduce || task == plan::Task::update;
  if (kind == WorkKind::row && isUpdate)
    return "update";
  switch (kind) {
  case WorkKind::product:
    return "products";
  case WorkKind::attention:
    return "attention";
  case WorkKind::row:
    return "row kernels";
  case WorkKind::collective:
    return "collectives";
  case WorkKind::move:
    return "moves";
  case WorkKind::hostCopy:
    return "host copies";
  case WorkKind::transfer:
    break;
  }
  return "transfers";
}

// Adds up all ranks and steps; finish() makes means of the sums.
class Profiler {
public:
  Profiler(const Engine &engine, const MachineRates &rates)
      : plan_(engine.plan()), works_(worksOf(plan_)), recording_(engine.recording()) {
    profile_.rates = rates;
    profile_.steps = recording_.steps;
    profile_.ranks = static_cast<int64_t>(recording_.ranks.size());
    profile_.threads = engine.threadsPerRank();
    for (const char *part : {"products", "attention", "row kernels", "update", "collectives", "moves", "transfers",
                             "waiting", "between instructions", "idle"})
      profile_.parts.push_back({part, 0});
    if (std::ranges::any_of(plan_.stages, [](const plan::StagePlan &stage) { return stage.hostBytes > 0; }))
      profile_.parts.insert(profile_.parts.end() - 3, {std::string(partOf(WorkKind::hostCopy, plan::Task::update)), 0});
  }
  Profile take();

private:
  void addRank(const Recording::Rank &rank);
  void addInstruction(const Recording::Rank &rank, int64_t chunk, int64_t index);
  void addTransfers(const Recording::Rank &rank);
  ProfileRow &row(const std::string &kernel, WorkKind kind);
  double &part(std::string_view name);
  double boundOf(const ProfileRow &row) const;
  void finish();

  const plan::Plan &plan_;
  const std::map<const plan::Instruction *, plan::Work> works_;
  const Recording &recording_;
  Profile profile_;
  std::map<std::string, size_t> rows_; // by kernel
};

ProfileRow &Profiler::row(const std::string &kernel, WorkKind kind) {
  const auto [entry, isNew] = rows_.try_emplace(kernel, profile_.rows.size());
  if (isNew)
    profile_.rows.push_back({kernel, kind});
  return profile_.rows[entry->second];
}

double &Profiler::part(std::string_view name) {
  return std::ranges::find(profile_.parts, name, &ProfilePart::name)->seconds;
}

void Profiler::addInstruction(const Recording::Rank &rank, int64_t chunk, int64_t index) {
  const Timeline::Sum &sum = rank.timeline->sumOf(chunk, index);
  if (sum.count == 0)
    return;
  const ChunkRecord &of = rank.record->chunks[chunk];
  const plan::Instruction &instruction = *of.instructions[index].instruction;
  const plan::Work &work = works_.at(&instruction);
  const WorkKind kind = kindOf(instruction.body);
  ProfileRow &to = row(kernelOf(instruction), kind);
  const auto calls = static_cast<double>(sum.count);
  to.calls += calls;
  to.seconds += seconds(sum.own);
  to.waiting += seconds(sum.waits);
  to.flops += calls * work.flops;
  to.bytes += calls * work.bytes;
  to.isBf16 = kind == WorkKind::product && work.type == plan::DType::bf16;
  part(partOf(kind, of.chunk->task)) += seconds(sum.own);
}

// A transfer is one read and one write of its bytes; they are the sender's, whichever end moves them.
void Profiler::addTransfers(const Recording::Rank &rank) {
  const Timeline::Sum &sum = rank.timeline->sumOf(Kind::transfer);
  if (sum.count == 0)
    return;
  ProfileRow &to = row("send and receive", WorkKind::transfer);
  to.calls += static_cast<double>(sum.count);
  to.seconds += seconds(sum.own);
  to.waiting += seconds(rank.timeline->sumOf(Kind::arrival).waits);
  for (const StepRecord &step : rank.record->schedule)
    if (step.step.kind == StepKind::send)
      to.bytes += 2 * double(step.step.bytes) * double(profile_.steps);
  part("transfers") += seconds(sum.own);
}

void Profiler::addRank(const Recording::Rank &rank) {
  for (size_t chunk = 0; chunk < rank.record->chunks.size(); ++chunk)
    for (size_t i = 0; i < rank.record->chunks[chunk].instructions.size(); ++i)
      addInstruction(rank, static_cast<int64_t>(chunk), static_cast<int64_t>(i));
  addTransfers(rank);
  part("waiting") += seconds(rank.timeline->sumOf(Kind::wait).own);
  for (Kind kind : {Kind::step, Kind::chunk, Kind::arrival})
    part("between instructions") += seconds(rank.timeline->sumOf(kind).own);
}

double Profiler::boundOf(const ProfileRow &row) const {
  const auto ranks = static_cast<double>(profile_.ranks);
  const bool computes = row.kind == WorkKind::product || row.kind == WorkKind::attention;
  const MachineRates &rates = profile_.rates;
  return computes ? row.flops * ranks / (row.isBf16 && rates.bf16Flops > 0 ? rates.bf16Flops : rates.flops)
                  : row.bytes * ranks / rates.bytes;
}

void Profiler::finish() {
  const double share = 1 / double(profile_.steps * profile_.ranks);
  for (ProfileRow &row : profile_.rows) {
    for (double *value : {&row.calls, &row.seconds, &row.waiting, &row.flops, &row.bytes})
      *value *= share;
    row.bound = boundOf(row);
    profile_.bound += row.bound;
  }
  std::ranges::sort(profile_.rows, {}, [](const ProfileRow &row) { return std::pair(-row.seconds, row.kernel); });
  profile_.step = recording_.seconds / double(profile_.steps);
  std::vector<double> steps = recording_.stepSeconds;
  std::ranges::sort(steps);
  profile_.median = (steps[(steps.size() - 1) / 2] + steps[steps.size() / 2]) / 2;
  double busy = 0;
  for (ProfilePart &part : profile_.parts)
    busy += part.seconds *= share;
  part("idle") = profile_.step - busy; // before the first rank begins and after the own end
}

Profile Profiler::take() {
  for (const Recording::Rank &rank : recording_.ranks)
    addRank(rank);
  finish();
  return std::move(profile_);
}

} // namespace

Profile profileOf(const Engine &engine, const MachineRates &rates) { return Profiler(engine, rates).take(); }

std::string toJson(const Profile &profile) {
  using Json = nlohmann::ordered_json;
  Json parts = Json::object(), rows = Json::array();
  for (const ProfilePart &part : profile.parts)
    parts[part.name] = part.seconds;
  for (const ProfileRow &row : profile.rows)
    rows.push_back({{"kernel", row.kernel},
                    {"kind", nameOf(row.kind)},
                    {"calls", row.calls},
                    {"seconds", row.seconds},
                    {"waiting", row.waiting},
                    {"flops", row.flops},
                    {"bytes", row.bytes},
                    {"bound_seconds", row.bound}});
  const Json json = {{"steps", profile.steps},
                     {"ranks", profile.ranks},
                     {"threads_per_rank", profile.threads},
                     {"gemm_flops_per_second", profile.rates.flops},
                     {"bf16_gemm_flops_per_second", profile.rates.bf16Flops},
                     {"memory_bytes_per_second", profile.rates.bytes},
                     {"bound_seconds", profile.bound},
                     {"step_seconds", profile.median},
                     {"mean_step_seconds", profile.step},
                     {"fraction_of_bound", profile.fraction()},
                     {"parts", parts},
                     {"rows", rows}};
  return json.dump(1) + "\n";
}

} // namespace mgc
