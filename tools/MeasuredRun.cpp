// See MeasuredRun.h.
#include "tools/MeasuredRun.h"

#include <algorithm>
#include <map>
#include <optional>

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

struct StepSpan {
  int64_t step = 0, begin = 0, end = 0; // ns
};

// The median step of the first rank; a step that failed has an end too, but the traced steps behind it do not exist.
std::optional<StepSpan> medianStep(const Recording &recording) {
  std::vector<StepSpan> steps;
  for (const Timeline::Record &record : recording.ranks.front().timeline->records())
    if (record.kind == Kind::step)
      steps.push_back({record.step, record.begin, record.end});
  if (steps.empty())
    return std::nullopt;
  const auto median = steps.begin() + (std::ssize(steps) - 1) / 2;
  std::ranges::nth_element(steps, median, {}, [](const StepSpan &span) { return span.end - span.begin; });
  return *median;
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

} // namespace

Json measuredStep(const plan::Plan &plan, const Recording &recording) {
  const std::optional<StepSpan> step = recording.ranks.empty() ? std::nullopt : medianStep(recording);
  if (!step)
    return nullptr;
  const InstructionNumbers numbers = numbersOf(plan);
  std::vector<std::vector<MeasuredBox>> boxes;
  int64_t start = step->begin;
  for (const Recording::Rank &rank : recording.ranks) {
    boxes.push_back(RankReader(rank, numbers).read(step->step));
    if (!boxes.back().empty())
      start = std::min(start, boxes.back().front().begin);
  }
  Json ranks = Json::array();
  for (size_t i = 0; i < boxes.size(); ++i) {
    Json list = Json::array();
    for (const MeasuredBox &box : boxes[i])
      list.push_back(jsonOf(box, start));
    const RankRecord &record = *recording.ranks[i].record;
    ranks.push_back({{"rank", record.rank}, {"stage", record.stageIndex}, {"boxes", std::move(list)}});
  }
  return {{"step", step->step}, {"ranks", std::move(ranks)}};
}

} // namespace mgc::tools
