#include "test/emulate/cuda/ptx/Interpreter.h"

#include "test/emulate/cuda/ptx/Parser.h"

#include <algorithm>
#include <cstring>
#include <immintrin.h>

namespace mgc::ptx {
namespace {

constexpr std::byte kPoison{0xFF};

uint32_t threadsOf(const Launch &launch) { return launch.block.x * launch.block.y * launch.block.z; }

void fill(Warp &warp, const Constant &constant) {
  std::byte *place = warp.registers + constant.at;
  if (constant.bytes == 0) // a predicate
    std::memcpy(place, &constant.bits, sizeof(uint32_t));
  for (unsigned lane = 0; lane < kLanes; ++lane)
    std::memcpy(place + lane * constant.bytes, &constant.bits, constant.bytes);
}

} // namespace

void Warp::fault(const Op &op, unsigned lane, std::string what) {
  if (!block.fault.empty())
    return;
  uint32_t index = thread(lane);
  const Dim3 &size = block.launch.block;
  block.fault =
      fmt::format("kernel {}, line {} ({}), thread ({}, {}, {}) of block ({}, {}, {}): {}", block.program.name, op.line,
                  block.program.text->line(op.line), index % size.x, index / size.x % size.y, index / size.x / size.y,
                  block.index[0], block.index[1], block.index[2], what);
}

Interpreter::Interpreter(const Program &program, const Launch &launch, const AddressSpace &space)
    : program_(program), launch_(launch), block_{program, launch, space, {}, {}, {}, {}, {}} {
  const uint32_t threads = threadsOf(launch), count = (threads + kLanes - 1) / kLanes;
  block_.seen.resize(program.ops.size());
  block_.shared.resize(program.info.sharedBytes + launch.sharedBytes);
  block_.local.resize(uint64_t(program.info.localBytes) * count * kLanes);
  registers_.resize(uint64_t(program.registerBytes) * count, kPoison);
  for (uint32_t i = 0; i < count; ++i)
    warps_.push_back({{block_, i, registers_.data() + uint64_t(i) * program.registerBytes}, 0, {}});
  for (WarpState &state : warps_)
    for (const Constant &constant : program.constants)
      fill(state.warp, constant);
}

uint64_t Interpreter::special(const SpecialRegister &special, const WarpState &state, unsigned lane) const {
  std::string_view name = special.name;
  const Dim3 &size = launch_.block, &grid = launch_.grid;
  uint32_t thread = state.warp.thread(lane), axis = name.back() - 'x';
  if (name.starts_with("%tid."))
    return axis == 0 ? thread % size.x : axis == 1 ? thread / size.x % size.y : thread / size.x / size.y;
  if (name.starts_with("%ntid."))
    return axis == 0 ? size.x : axis == 1 ? size.y : size.z;
  if (name.starts_with("%ctaid."))
    return block_.index[axis];
  if (name.starts_with("%nctaid."))
    return axis == 0 ? grid.x : axis == 1 ? grid.y : grid.z;
  if (name == "%laneid")
    return lane;
  if (name == "%warpid")
    return state.warp.number;
  if (name == "%nwarpid")
    return warps_.size();
  if (name == "%dynamic_smem_size")
    return launch_.sharedBytes;
  if (name == "%total_smem_size")
    return block_.shared.size();
  if (name.starts_with("%lanemask_")) {
    uint64_t self = uint64_t(1) << lane, below = self - 1;
    std::string_view which = name.substr(10);
    return which == "eq"   ? self
           : which == "lt" ? below
           : which == "le" ? below | self
           : which == "ge" ? ~below
                           : ~(below | self);
  }
  return name == "%nsmid" ? 1 : 0;
}

void Interpreter::start(WarpState &state) {
  uint32_t lanes = std::min(kLanes, threadsOf(launch_) - state.warp.number * kLanes);
  state.live = lanes == kLanes ? kAllLanes : (1u << lanes) - 1;
  state.groups.assign(1, {program_.entry, state.live});
  for (const SpecialRegister &place : program_.specials)
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      uint64_t value = special(place, state, lane);
      std::memcpy(state.warp.registers + place.at + lane * place.bytes, &value, place.bytes);
    }
}

// From barrier to barrier the warps run forwards or backwards, in turn and by the block: a barrier that is missing shows in
// one of them.
Status Interpreter::runBlock(uint64_t number) {
  block_.index[0] = number % launch_.grid.x;
  block_.index[1] = number / launch_.grid.x % launch_.grid.y;
  block_.index[2] = number / launch_.grid.x / launch_.grid.y;
  std::fill(block_.shared.begin(), block_.shared.end(), kPoison);
  std::fill(block_.local.begin(), block_.local.end(), kPoison);
  for (WarpState &state : warps_)
    start(state);
  for (uint64_t phase = number;; ++phase) {
    bool isLive = false;
    for (size_t i = 0; i < warps_.size(); ++i) {
      WarpState &state = warps_[phase % 2 ? warps_.size() - 1 - i : i];
      runWarp(state);
      if (!block_.fault.empty())
        return Status::error(block_.fault);
      isLive |= state.live != 0;
    }
    if (!isLive)
      return Status::ok();
    if (!releaseBarriers())
      return deadlock();
  }
}

// Groups that are ready at the same place become one.
void Interpreter::merge(std::vector<Group> &groups) {
  for (size_t i = 0; i < groups.size(); ++i)
    for (size_t j = i + 1; j < groups.size();)
      if (groups[i].at == groups[j].at && groups[i].state == State::ready && groups[j].state == State::ready) {
        groups[i].mask |= groups[j].mask;
        groups.erase(groups.begin() + j);
      } else {
        ++j;
      }
}

// Until every lane has left or waits.
void Interpreter::runWarp(WarpState &state) {
  std::vector<Group> &groups = state.groups;
  while (block_.fault.empty()) {
    merge(groups);
    auto lowest = groups.end();
    for (auto group = groups.begin(); group != groups.end(); ++group)
      if (group->state == State::ready && (lowest == groups.end() || group->at < lowest->at))
        lowest = group;
    if (lowest == groups.end())
      return;
    Group chosen = *lowest;
    groups.erase(lowest);
    runGroup(state, chosen);
  }
}

// Where a running group meets another, which goes first or joins it.
uint32_t Interpreter::limitOf(const WarpState &state) const {
  uint32_t limit = kNone;
  for (const Group &group : state.groups)
    if (group.state == State::ready)
      limit = std::min(limit, group.at);
  return limit;
}

void Interpreter::runGroup(WarpState &state, Group group) {
  Warp &warp = state.warp;
  uint32_t limit = limitOf(state);
  do {
    const Op &op = program_.ops[group.at];
    uint32_t active = group.mask;
    if (op.guard != kNone)
      active &= op.guardNegated ? ~warp.predicate(op.guard) : warp.predicate(op.guard);
    if (active == 0) {
      ++group.at;
      continue;
    }
    instructions_ += std::popcount(active);
    if (op.control == Control::none) {
      if (op.mode)
        _mm_setcsr(op.mode);
      op.run(warp, op, active);
      if (op.mode)
        _mm_setcsr(0x1F80);
      ++group.at;
      if (!block_.fault.empty())
        return;
      continue;
    }
    // From here on the lanes that the guard excludes diverge.
    if (uint32_t others = group.mask & ~active) {
      state.groups.push_back({group.at + 1, others});
      group.mask = active;
    }
    switch (op.control) {
    case Control::call:
      eachLane(active, [&](unsigned lane) { warp.at<uint32_t>(op.d)[lane] = group.at + 1; });
      [[fallthrough]];
    case Control::branch:
      group.at = op.target;
      break;
    case Control::returns:
      return returnTo(state, op, active);
    case Control::exit:
      return leave(state, active);
    case Control::barrier:
      group.state = State::atBarrier;
      state.groups.push_back(group);
      return;
    case Control::converge:
      if (!gather(state, group, op, active))
        return;
      break;
    case Control::none:
      break;
    }
    limit = limitOf(state);
  } while (group.at < limit);
  state.groups.push_back(group);
}

// Runs a warp-wide instruction if all the lanes that it is for are here; otherwise the group waits.
bool Interpreter::gather(WarpState &state, Group &group, const Op &op, uint32_t active) {
  std::erase_if(state.groups, [&](const Group &other) {
    bool joins = other.state == State::waiting && other.at == group.at;
    group.mask |= joins ? other.mask : 0;
    return joins;
  });
  uint32_t named = op.target == kNone ? group.mask : state.warp.at<uint32_t>(op.target)[std::countr_zero(active)];
  if (!(named >> std::countr_zero(active) & 1)) {
    state.warp.fault(op, std::countr_zero(active), fmt::format("the lane is not among those of its mask {:#x}", named));
    return false;
  }
  if (named & state.live & ~group.mask) {
    group.state = State::waiting;
    state.groups.push_back(group);
    return false;
  }
  op.run(state.warp, op, group.mask);
  ++group.at;
  return true;
}

void Interpreter::leave(WarpState &state, uint32_t mask) {
  state.live &= ~mask;
  for (Group &group : state.groups) // nobody waits for those who have left
    if (group.state == State::waiting)
      group.state = State::ready;
}

void Interpreter::returnTo(WarpState &state, const Op &op, uint32_t mask) {
  const uint32_t *addresses = state.warp.at<uint32_t>(op.a);
  while (mask) {
    Group group{addresses[std::countr_zero(mask)], 0};
    for (uint32_t rest = mask; rest; rest &= rest - 1)
      if (unsigned lane = std::countr_zero(rest); addresses[lane] == group.at)
        group.mask |= 1u << lane;
    mask &= ~group.mask;
    state.groups.push_back(group);
  }
}

// A barrier opens when as many threads stand at it as it names, or all that have not left.
bool Interpreter::releaseBarriers() {
  std::map<uint32_t, uint32_t> arrived, expected;
  uint32_t live = 0;
  auto numberOf = [&](WarpState &state, const Group &group) {
    const Op &op = program_.ops[group.at];
    unsigned lane = std::countr_zero(group.mask);
    uint32_t number = state.warp.at<uint32_t>(op.a)[lane];
    expected[number] = op.b == kNone ? kNone : state.warp.at<uint32_t>(op.b)[lane];
    return number;
  };
  for (WarpState &state : warps_) {
    live += std::popcount(state.live);
    for (const Group &group : state.groups)
      if (group.state == State::atBarrier)
        arrived[numberOf(state, group)] += std::popcount(group.mask);
  }
  bool opened = false;
  for (WarpState &state : warps_)
    for (Group &group : state.groups) {
      if (group.state != State::atBarrier)
        continue;
      uint32_t number = numberOf(state, group);
      if (arrived[number] < std::min(expected[number], live))
        continue;
      group.state = State::ready;
      ++group.at;
      opened = true;
    }
  return opened;
}

Status Interpreter::deadlock() const {
  std::string places;
  for (const WarpState &state : warps_)
    for (const Group &group : state.groups) {
      uint32_t line = program_.ops[group.at].line;
      places += fmt::format("\n  warp {}, lanes {:#010x} at line {} ({})", state.warp.number, group.mask, line,
                            program_.text->line(line));
    }
  return errorf("kernel {}, block ({}, {}, {}): threads wait for others that do not come:{}", program_.name,
                block_.index[0], block_.index[1], block_.index[2], places);
}

} // namespace mgc::ptx
