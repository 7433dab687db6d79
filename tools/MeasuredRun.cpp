// See MeasuredRun.h.
#include "tools/MeasuredRun.h"

#include "plan/mesh/Mesh.h"
#include "runtime/comm/tcp/Connection.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>

namespace mgc::tools {

namespace {

using Json = nlohmann::json;
using Kind = Timeline::Kind;

// Numbers of instructions: of the program, and in it.
using InstructionNumbers = std::map<const plan::Instruction *, std::pair<int64_t, int64_t>>;

InstructionNumbers numbersOf(const plan::Plan &plan) {
  InstructionNumbers numbers;
  for (size_t program = 0; program < plan.programs.size(); ++program)
    for (size_t i = 0; i < plan.programs[program].instructions.size(); ++i)
      numbers[&plan.programs[program].instructions[i]] = {int64_t(program), int64_t(i)};
  return numbers;
}

// Where the rank began its step; none: it did not.
std::optional<int64_t> beginOf(const Recording::Rank &rank, int64_t step) {
  for (const Timeline::Record &record : rank.timeline->records())
    if (record.kind == Kind::step && record.step == step)
      return record.begin;
  return std::nullopt;
}

// The median step of the first rank; a step that failed has an end too, but the traced steps behind it do not exist.
std::optional<int64_t> medianStep(const Recording &recording) {
  std::vector<std::pair<int64_t, int64_t>> steps; // ns, number
  if (!recording.ranks.empty())
    for (const Timeline::Record &record : recording.ranks.front().timeline->records())
      if (record.kind == Kind::step)
        steps.emplace_back(record.end - record.begin, record.step);
  if (steps.empty())
    return std::nullopt;
  const auto median = steps.begin() + (std::ssize(steps) - 1) / 2;
  std::ranges::nth_element(steps, median);
  return median->second;
}

// A run of a chunk, with the sums of its instructions.
struct MeasuredBox {
  int64_t chunk = 0, microbatch = 0, begin = 0, end = 0;
  struct Sum {
    int64_t seconds = 0, waiting = 0; // ns
  };
  std::map<std::pair<int64_t, int64_t>, Sum> sums;
};

class RankReader {
public:
  RankReader(const Recording::Rank &rank, const InstructionNumbers &numbers) : rank_(rank), numbers_(numbers) {}

  std::vector<MeasuredBox> read(int64_t step) {
    for (const Timeline::Record &record : rank_.timeline->records())
      if (record.step == step && record.schedule >= 0)
        add(record);
    std::vector<MeasuredBox> boxes;
    for (auto &[schedule, box] : boxes_)
      if (box.end > box.begin)
        boxes.push_back(std::move(box));
    std::ranges::sort(boxes, {}, &MeasuredBox::begin);
    return boxes;
  }

private:
  void add(const Timeline::Record &record) {
    if (record.kind == Kind::chunk) {
      const plan::ExpandedStep &run = rank_.record->schedule[record.schedule].step;
      MeasuredBox &box = boxes_[record.schedule];
      box.chunk = run.chunk;
      box.microbatch = run.microbatch;
      box.begin = record.begin;
      box.end = record.end;
    } else if (record.instruction >= 0) {
      MeasuredBox::Sum &sum = boxes_[record.schedule].sums[numberOf(record)];
      (record.kind == Kind::wait ? sum.waiting : sum.seconds) += record.end - record.begin;
    }
  }

  std::pair<int64_t, int64_t> numberOf(const Timeline::Record &record) const {
    const int64_t chunk = rank_.record->schedule[record.schedule].step.chunk;
    return numbers_.at(rank_.record->chunks[chunk].instructions[record.instruction].instruction);
  }

  const Recording::Rank &rank_;
  const InstructionNumbers &numbers_;
  std::map<int64_t, MeasuredBox> boxes_; // by step of the schedule
};

Json jsonOf(const MeasuredBox &box, int64_t start) {
  Json sums = Json::array();
  for (const auto &[number, sum] : box.sums)
    sums.push_back({number.first, number.second, sum.seconds, sum.waiting});
  return {box.chunk, box.microbatch, box.begin - start, box.end - start, std::move(sums)};
}

// The ranks of this process in the step: as in `trace`, but that boxes begin at 0 with each rank's own step, whose begin is beside
// them. `machine` tells clocks apart.
Json ranksHere(const plan::Plan &plan, const Recording &recording, int64_t step, int64_t machine) {
  const InstructionNumbers numbers = numbersOf(plan);
  Json ranks = Json::array();
  for (const Recording::Rank &rank : recording.ranks)
    if (const std::optional<int64_t> begin = beginOf(rank, step)) {
      Json boxes = Json::array();
      for (const MeasuredBox &box : RankReader(rank, numbers).read(step))
        boxes.push_back(jsonOf(box, *begin));
      ranks.push_back({{"rank", rank.record->rank},
                       {"stage", rank.record->stageIndex},
                       {"machine", machine},
                       {"begin", *begin},
                       {"boxes", std::move(boxes)}});
    }
  return ranks;
}

// Drops instructions, and then boxes, beyond `most` bytes of text.
void shorten(Json &rank, size_t most) {
  if (rank.dump().size() <= most)
    return;
  for (Json &box : rank["boxes"])
    box.erase(box.size() - 1);
  if (rank.dump().size() > most)
    rank["boxes"] = Json::array();
}

// A step begins at 0 where the first rank of a machine begins it.
Json traceOf(int64_t step, Json ranks, const plan::Plan &plan) {
  std::map<int64_t, int64_t> zeros; // by machine
  for (const Json &rank : ranks) {
    const int64_t begin = rank["begin"];
    int64_t &zero = zeros.try_emplace(rank["machine"], begin).first->second;
    zero = std::min(zero, begin);
  }
  for (Json &rank : ranks) {
    const int64_t late = rank["begin"].get<int64_t>() - zeros.at(rank["machine"]);
    for (Json &box : rank["boxes"])
      for (const size_t time : {2, 3})
        box[time] = box[time].get<int64_t>() + late;
    rank.erase("begin");
    rank.erase("machine");
  }
  return {{"step", step},
          {"ranks", std::move(ranks)},
          {"world", plan.mesh.worldSize()},
          {"machines", int64_t(zeros.size())}};
}

Json profileJson(const std::optional<Profile> &profile) { return profile ? Json::parse(toJson(*profile)) : Json(); }

// `to` += `of`, number by number; rows by their kernel.
void addNumbers(Json &to, const Json &of) {
  for (const auto &[key, value] : of.items())
    if (value.is_number())
      to[key] = to.value(key, 0.0) + value.get<double>();
}

void addProfile(Json &to, const Json &of) {
  addNumbers(to, of);
  addNumbers(to["parts"], of["parts"]);
  for (const Json &row : of["rows"]) {
    const auto same = std::ranges::find(to["rows"], row["kernel"], [](const Json &known) { return known["kernel"]; });
    if (same == to["rows"].end())
      to["rows"].push_back(row);
    else
      addNumbers(*same, row);
  }
}

void scaleNumbers(Json &to, double factor) {
  for (Json &value : to)
    if (value.is_number())
      value = value.get<double>() * factor;
}

// The mean over all ranks: each process has as many, over as many steps.
Json meanOf(const std::vector<Json> &profiles) {
  if (profiles.empty())
    return nullptr;
  Json mean = profiles.front();
  for (const Json &other : std::span(profiles).subspan(1))
    addProfile(mean, other);
  const double share = 1 / double(profiles.size());
  scaleNumbers(mean, share);
  scaleNumbers(mean["parts"], share);
  for (Json &row : mean["rows"])
    scaleNumbers(row, share);
  mean["ranks"] = profiles.front()["ranks"].get<int64_t>() * int64_t(profiles.size());
  mean["steps"] = profiles.front()["steps"];
  std::sort(mean["rows"].begin(), mean["rows"].end(),
            [](const Json &a, const Json &b) { return a["seconds"].get<double>() > b["seconds"].get<double>(); });
  return mean;
}

// Limits of what rank 0 gathers: the store and the page hold it at once.
constexpr int64_t kMostRanksShown = 64; // or one of each stage
constexpr int64_t kMostBytes = 32 << 20;
constexpr int64_t kMostBytesOfRank = kMaxMessageBytes / 2; // the rest of a message is for the profile
constexpr int64_t kMostKeyBytes = 4096;                    // for the rest of a message

// How many of each stage.
int64_t ranksShown(const plan::Mesh &mesh) {
  const int64_t stages = stageCount(mesh);
  return std::clamp<int64_t>(kMostRanksShown / stages, 1, mesh.worldSize() / stages);
}

// Spread evenly over the ranks of the stage; rank 0 is always shown.
bool isShown(const plan::Mesh &mesh, int64_t rank) {
  int64_t index = 0; // among the ranks of the stage
  for (int64_t other = 0; other < rank; ++other)
    index += stageOf(mesh, other) == stageOf(mesh, rank);
  return index * ranksShown(mesh) % (mesh.worldSize() / stageCount(mesh)) < ranksShown(mesh);
}

} // namespace

MeasuredRun measuredHere(const plan::Plan &plan, const Recording &recording, const std::optional<Profile> &profile) {
  const std::optional<int64_t> step = medianStep(recording);
  return {step ? traceOf(*step, ranksHere(plan, recording, *step, 0), plan) : Json(), profileJson(profile)};
}

Result<MeasuredRun> gatherMeasured(Processes &processes, const plan::Plan &plan, const Recording &recording,
                                   const std::optional<Profile> &profile) {
  const auto rank = processes.rank(), size = processes.size();
  const std::string median = fmt::format("{}", medianStep(recording).value_or(-1));
  MGC_ASSIGN(steps,
             processes.store().gather("step of the page", rank, size, rank == 0 ? median : "", processes.deadline()));
  const int64_t step = std::stoll(steps.front());
  std::string own;
  if (isShown(plan.mesh, rank)) {
    Json ranks = ranksHere(plan, recording, step, processes.neighbours().front().rank);
    for (Json &of : ranks)
      shorten(of, size_t(std::min(kMostBytesOfRank, kMostBytes / (ranksShown(plan.mesh) * stageCount(plan.mesh)))));
    own = Json{{"ranks", std::move(ranks)}, {"profile", profileJson(profile)}}.dump();
    if (own.size() > size_t(kMaxMessageBytes - kMostKeyBytes))
      own.clear(); // rank 0 would wait for it in vain
  }
  MGC_ASSIGN(all, processes.store().gatherToFirst("page", rank, size, own, processes.deadline()));
  Json ranks = Json::array();
  std::vector<Json> profiles;
  for (const std::string &text : all) {
    if (text.empty())
      continue;
    const Json of = Json::parse(text);
    ranks.insert(ranks.end(), of["ranks"].begin(), of["ranks"].end());
    if (!of["profile"].is_null())
      profiles.push_back(of["profile"]);
  }
  return MeasuredRun{step >= 0 ? traceOf(step, std::move(ranks), plan) : Json(), meanOf(profiles)};
}

} // namespace mgc::tools
