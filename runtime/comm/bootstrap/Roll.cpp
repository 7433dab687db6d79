// See Roll.h.
#include "runtime/comm/bootstrap/Roll.h"

#include <algorithm>
#include <fmt/ranges.h>

namespace mgc {

namespace {

constexpr size_t kListed = 16; // ranks named in a message

// The lines in which a process differs from rank 0; a line that only one has counts too.
std::string differencesOf(const std::vector<std::string> &own, const Joining &other) {
  const std::vector<std::string> &found = other.run.settings;
  std::string text;
  for (size_t i = 0; i < std::max(own.size(), found.size()); ++i) {
    const std::string mine = i < own.size() ? own[i] : "nothing",
                      theirs = i < found.size() ? found[i] : "nothing";
    if (mine != theirs)
      text += fmt::format("\n  {} on rank {}, {} on rank 0", theirs, other.rank, mine);
  }
  return text;
}

std::string listed(std::vector<std::string> names) {
  const size_t more = names.size() - std::min(names.size(), kListed);
  names.resize(names.size() - more);
  return fmt::format("{}{}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

} // namespace

std::string Roll::nameOf(int64_t rank) const { return fmt::format("rank {} ({})", rank, members_[rank].who); }

Status Roll::verify(const Joining &found) const {
  const RunIdentity &run = found.run, &own = own_.run;
  const std::string name = fmt::format("rank {} ({})", found.rank, found.who);
  if (!own_.failure.empty())
    return errorf("rank 0 ({}) does not come: {}", own_.who, own_.failure);
  if (!found.failure.empty())
    return errorf("{} does not come: {}", name, found.failure);
  if (run.processes != own.processes)
    return errorf(
        "{} says that there are {} processes, rank 0 ({}) that there are {}; expected one WORLD_SIZE, or "
        "--world-size, for all",
        name, run.processes, own_.who, own.processes);
  if (!hasRank(found.rank))
    return errorf("{}: expected a rank from 0 to {}", name, processes() - 1);
  if (hasCome(found.rank))
    return errorf("two processes are rank {}: {}, and {}; expected a RANK, or --rank, of its own for each",
                  found.rank, members_[found.rank].who, found.who);
  if (run.planVersion != own.planVersion || run.planHash != own.planHash)
    return errorf(
        "{} runs another plan: version {}, hash {:016x}; rank 0 ({}) runs version {}, hash {:016x}; expected "
        "the same plan.json for all",
        name, run.planVersion, run.planHash, own_.who, own.planVersion, own.planHash);
  if (run.settings != own.settings)
    return errorf("{} runs the plan in another way than rank 0 ({}); expected the same for all:{}", name,
                  own_.who, differencesOf(own.settings, found));
  return Status::ok();
}

Status Roll::enter(const Joining &found) {
  MGC_TRY(verify(found));
  members_[found.rank].who = found.who.empty() ? "unnamed" : found.who;
  ++come_;
  return Status::ok();
}

void Roll::call(int64_t rank) {
  if (!hasRank(rank))
    return;
  called_ += !members_[rank].hasCalled;
  members_[rank].hasCalled = true;
}

void Roll::finish(int64_t rank) {
  finished_ += !members_[rank].isFinished;
  members_[rank].isFinished = true;
}

std::string Roll::describeMissing(double seconds) const {
  std::vector<std::string> missing, here;
  for (int64_t rank = 0; rank < processes(); ++rank)
    if (hasCome(rank))
      here.push_back(nameOf(rank));
    else
      missing.push_back(std::to_string(rank));
  return fmt::format("waited {} s for the processes of {} ranks: rank{} {} of them {} not come; here {} {}",
                     seconds, processes(), missing.size() == 1 ? "" : "s", listed(missing),
                     missing.size() == 1 ? "has" : "have", here.size() == 1 ? "is" : "are", listed(here));
}

} // namespace mgc
