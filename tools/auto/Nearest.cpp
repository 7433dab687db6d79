// See Nearest.h.
#include "tools/auto/Nearest.h"

#include "frontend/layout/Options.h"
#include "runtime/base/NumberText.h"

#include <cmath>
#include <fmt/ranges.h>

namespace mgc::tools {

namespace {

using frontend::LayoutOptions;
using planner::FoundLayouts;

constexpr int64_t kMostLayouts = 400; // a search of more takes too long to be repeated

// A microbatch of fewer sequences never needs more memory.
LayoutSearch ofLeastMicrobatch(const LayoutSearch &search) {
  LayoutOptions given = search.given();
  if (!given.mbs || given.mbs == frontend::kAuto)
    given.mbs = 1;
  return search.with(std::move(given));
}

bool isSmall(const LayoutSearch &search) {
  int64_t count = 0;
  planner::SpaceOfLayouts(search.layouts(), search.given()).forEach([&](const LayoutOptions &, const planner::Picks &) {
    ++count;
  });
  return count > 0 && count <= kMostLayouts;
}

// Halves the range, of ratios, between a budget into which none fits and the memory of one that does.
std::optional<ProvedLayout> leastMemory(const LayoutSearch &search, const CompileFlags &flags) {
  constexpr double kExact = 1.01;
  constexpr int64_t kAny = int64_t(1) << 60;
  const LayoutSearch least = ofLeastMicrobatch(search);
  if (!isSmall(least))
    return std::nullopt;
  double tooLittle = double(search.space().memory);
  const auto within = [&](double memory) {
    const LayoutSearch budget = least.within(static_cast<int64_t>(memory));
    return budget.fastest(budget.given(), 1);
  };
  FoundLayouts found = within(double(kAny));
  if (found.answers.empty())
    return std::nullopt;
  while (double(found.answers.front().estimate.bytes()) > kExact * tooLittle) {
    const double middle = std::sqrt(tooLittle * double(found.answers.front().estimate.bytes()));
    if (FoundLayouts next = within(middle); next.answers.empty())
      tooLittle = middle;
    else
      found = std::move(next);
  }
  planner::Answer &answer = found.answers.front();
  const LayoutSearch exactly = search.within(answer.estimate.bytes());
  answer.options.memory = exactly.given().memory;
  return prove(exactly, flags, answer).layout;
}

void addDevices(const LayoutSearch &search, NearestLayout &nearest) {
  constexpr int64_t kMostTimes = 64;
  const int64_t most = std::min(kMostTimes * search.devices(), frontend::optionOf(&LayoutOptions::world).most);
  for (int64_t times = 2; times * search.devices() <= most; times *= 2) {
    const LayoutSearch more = search.onDevices(times * search.devices()), least = ofLeastMicrobatch(more);
    if (!isSmall(least))
      return;
    const FoundLayouts found = least.fastest(least.given(), 1);
    if (found.answers.empty())
      continue;
    nearest.devices = more.devices();
    nearest.onThese = shortLayout(more.given(), found.answers.front().options);
    return;
  }
}

} // namespace

NearestLayout nearestOf(const LayoutSearch &search, const CompileFlags &flags) {
  NearestLayout nearest;
  nearest.layout = leastMemory(search, flags);
  addDevices(search, nearest);
  return nearest;
}

std::string textOf(const NearestLayout &nearest, const SearchedSpace &space, const std::string &last) {
  const std::string text = nearest.layout ? fmt::format("; {} needs least, {}", nearest.layout->layout,
                                                        bytesText(double(nearest.layout->bytes)))
                           : last.empty() ? ""
                                          : "; the last: " + last.substr(0, last.find('\n'));
  std::vector<std::string> possible;
  const std::string &memory = frontend::optionOf(&LayoutOptions::memory).flag;
  possible.push_back(!space.given.memory ? memory + " 100% in place of options of recomputation"
                     : nearest.layout    ? fmt::format("{} {}", memory, nearest.layout->searchedBytes)
                                         : "more " + memory);
  possible.push_back(nearest.devices > 0 ? fmt::format("{} devices: {}", nearest.devices, nearest.onThese)
                                         : "more devices");
  return fmt::format("{}\n  possible: {}", text, fmt::join(possible, ", or "));
}

} // namespace mgc::tools
