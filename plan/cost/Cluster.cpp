// See Cluster.h.
#include "plan/cost/Cluster.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace mgc::cost {

using plan::Axes;
using plan::Mesh;

namespace {

// A primitive axis: how many ranks it has and how far apart in number two neighbours are.
struct AxisExtent {
  int64_t size = 1, stride = 1;
};

std::vector<AxisExtent> extentsOf(const Mesh &mesh, const Axes &axes) {
  const Axes names = primitiveAxes(mesh, axes);
  std::vector<AxisExtent> extents;
  int64_t stride = 1;
  for (auto axis = mesh.axes.rbegin(); axis != mesh.axes.rend(); stride *= axis->size, ++axis)
    if (std::ranges::find(names, axis->name) != names.end())
      extents.push_back({axis->size, stride});
  return extents;
}

// The count of ranks along an axis that every domain of `ranks` has: a divisor of the axis.
int64_t insideDomain(const AxisExtent &extent, int64_t ranks) {
  return ranks % extent.stride == 0 ? std::gcd(extent.size, ranks / extent.stride) : 1;
}

bool isWholeDomain(const Cluster &cluster, const LinkLevel &level) {
  return level.ranks == 0 || cluster.mesh.worldSize() <= level.ranks;
}

bool shareDomain(const Mesh &mesh, const std::vector<int64_t> &stages, int64_t ranks) {
  const int64_t stride = mesh.worldSize() / stageCount(mesh);
  const auto domainOf = [&](int64_t stage) { return rankAtStage(mesh, 0, stage) / ranks; };
  return ranks % stride == 0 &&
         std::ranges::all_of(stages, [&](int64_t stage) { return domainOf(stage) == domainOf(stages[0]); });
}

GroupMembers membersOfStages(const Cluster &cluster, const std::vector<int64_t> &stages) {
  GroupMembers members;
  for (const LinkLevel &level : cluster.machine.links) {
    const bool isInside = isWholeDomain(cluster, level) || shareDomain(cluster.mesh, stages, level.ranks);
    members.push_back(isInside ? static_cast<int64_t>(stages.size()) : 1);
  }
  return members;
}

// --- A group on the levels of links --------------------------------------------------------------------------

class GroupLinks {
public:
  GroupLinks(const Machine &machine, GroupMembers members) : machine_(machine), members_(std::move(members)) {}

  double seconds(const plan::Communication &moved) const {
    switch (moved.pattern) {
    case plan::CommunicationPattern::ringOrTree:
      return ringBytes(moved.bytesSent) + 2 * std::min(ringLatency(), treeLatency());
    case plan::CommunicationPattern::ring:
      return ringBytes(moved.bytesSent) + ringLatency();
    case plan::CommunicationPattern::direct:
      return directBytes(moved.bytesSent) + directLatency();
    case plan::CommunicationPattern::neighbour:
      return neighbourBytes(moved.bytesSent) + directLatency();
    }
    return 0;
  }
  // The most of the levels that it passes: a larger group is never faster.
  double base() const {
    double seconds = 0;
    for (size_t level = 0; level < members_.size(); ++level)
      seconds = std::max(seconds, fanOut(level) > 1 ? machine_.links[level].base : 0);
    return seconds;
  }

private:
  // Bytes that each rank sends around a ring of the group.
  double ringBytes(double bytes) const {
    double seconds = 0;
    for (size_t level = 0; level < members_.size(); ++level)
      if (fanOut(level) > 1)
        seconds = std::max(seconds, bytes / (bandwidth(level) * double(inner(level))));
    return seconds;
  }
  // Hops from a rank to the next, once around.
  double ringLatency() const {
    double seconds = 0;
    for (size_t level = 0; level < members_.size(); ++level)
      seconds += double(ranks() / inner(level) - ranks() / members_[level]) * machine_.links[level].latency;
    return seconds;
  }
  double treeLatency() const {
    double seconds = 0;
    for (size_t level = 0; level < members_.size(); ++level)
      seconds += std::ceil(std::log2(double(fanOut(level)))) * machine_.links[level].latency;
    return seconds;
  }
  // `bytes` are for all others together, equally many for each.
  double directBytes(double bytes) const {
    double seconds = 0;
    for (size_t level = 0; level < members_.size(); ++level)
      if (fanOut(level) > 1) {
        const double through = bytes * double(ranks() - inner(level)) / double(ranks() - 1);
        seconds = std::max(seconds, through / bandwidth(level));
      }
    return seconds;
  }
  // `bytes` go from each rank to the next one of a ring: at each level one rank of a domain sends them out of it.
  double neighbourBytes(double bytes) const {
    double seconds = 0;
    for (size_t level = 0; level < members_.size(); ++level)
      if (fanOut(level) > 1)
        seconds = std::max(seconds, bytes / bandwidth(level));
    return seconds;
  }
  double directLatency() const {
    double seconds = 0;
    for (size_t level = 0; level < members_.size(); ++level)
      seconds = std::max(seconds, fanOut(level) > 1 ? machine_.links[level].latency : 0);
    return seconds;
  }

  int64_t ranks() const { return members_.back(); }
  int64_t inner(size_t level) const { return level == 0 ? 1 : members_[level - 1]; }
  int64_t fanOut(size_t level) const { return members_[level] / inner(level); }
  double bandwidth(size_t level) const { return machine_.links[level].bandwidth * machine_.links[level].fraction; }

  const Machine &machine_;
  GroupMembers members_;
};

} // namespace

GroupMembers membersOf(const Cluster &cluster, const Axes &axes) {
  const std::vector<AxisExtent> extents = extentsOf(cluster.mesh, axes);
  GroupMembers members;
  for (const LinkLevel &level : cluster.machine.links) {
    int64_t inside = 1;
    for (const AxisExtent &extent : extents)
      inside *= isWholeDomain(cluster, level) ? extent.size : insideDomain(extent, level.ranks);
    members.push_back(inside);
  }
  return members;
}

GroupMembers membersOf(const Cluster &cluster, const plan::RankGroup &group) {
  return group.stages.empty() ? membersOf(cluster, group.axes) : membersOfStages(cluster, group.stages);
}

double communicationSeconds(const Cluster &cluster, const plan::InstructionBody &body) {
  const GroupMembers members = membersOf(cluster, *groupOf(body));
  if (members.back() <= 1)
    return 0;
  const plan::Communication moved = communicationOf(cluster.mesh, body);
  const GroupLinks links(cluster.machine, members);
  return links.base() + links.seconds(moved);
}

int64_t unitsTaken(const Cluster &cluster, const plan::InstructionBody &body) {
  const GroupMembers members = membersOf(cluster, *groupOf(body));
  int64_t taken = 0;
  for (size_t level = 0; level < members.size(); ++level)
    if (members[level] > (level > 0 ? members[level - 1] : 1))
      taken = cluster.machine.links[level].units;
  return taken;
}

MessageRates messageRates(const Cluster &cluster) {
  const GroupMembers members = membersOf(cluster, plan::axesOf(cluster.mesh, plan::AxisRole::stage));
  MessageRates rates;
  for (size_t level = 0; level < members.size(); ++level)
    if (const LinkLevel &link = cluster.machine.links[level]; members[level] > (level ? members[level - 1] : 1)) {
      rates.latency = std::max(rates.latency, link.latency);
      rates.secondsPerByte = std::max(rates.secondsPerByte, 1 / (link.bandwidth * link.fraction));
    }
  return rates;
}

} // namespace mgc::cost
