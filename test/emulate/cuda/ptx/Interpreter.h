// Runs the blocks of a launch, one after another. A worker has one of these.
#pragma once

#include "test/emulate/cuda/ptx/Program.h"

namespace mgc::ptx {

class Interpreter {
public:
  Interpreter(const Program &program, const Launch &launch, const AddressSpace &space);
  // Runs the block; an error is the fault of a thread, or lanes that wait for what does not come.
  Status runBlock(uint64_t number);
  uint64_t instructions() const { return instructions_; }

private:
  enum class State : uint8_t { ready, atBarrier, waiting };
  // Lanes of a warp that stand at the same instruction.
  struct Group {
    uint32_t at;
    uint32_t mask;
    State state = State::ready;
  };
  struct WarpState {
    Warp warp;
    uint32_t live = 0; // lanes that have not left
    std::vector<Group> groups;
  };

  void start(WarpState &state);
  uint64_t special(const SpecialRegister &special, const WarpState &state, unsigned lane) const;
  void runWarp(WarpState &state);
  void runGroup(WarpState &state, Group group);
  bool gather(WarpState &state, Group &group, const Op &op, uint32_t active);
  void leave(WarpState &state, uint32_t mask);
  void returnTo(WarpState &state, const Op &op, uint32_t mask);
  bool releaseBarriers();
  Status deadlock() const;
  uint32_t limitOf(const WarpState &state) const;
  static void merge(std::vector<Group> &groups);

  const Program &program_;
  const Launch &launch_;
  Block block_;
  std::vector<std::byte> registers_;
  std::vector<WarpState> warps_;
  uint64_t instructions_ = 0;
};

} // namespace mgc::ptx
