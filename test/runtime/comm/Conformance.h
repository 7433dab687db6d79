// The fixture of what is required of every Communicator: a test runs for every backend and 1 to 5 ranks.
#pragma once

#include "test/runtime/comm/Backends.h"

#include <gtest/gtest.h>
#include <numeric>

namespace mgc::test {

using Buffers = std::vector<std::vector<float>>; // by rank
using std::chrono::milliseconds;

inline std::vector<int64_t> everyRank(int64_t size) {
  std::vector<int64_t> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

class Conformance : public testing::TestWithParam<std::tuple<Backend, int64_t>> {
protected:
  void SetUp() override {
    if (const std::string why = backend().lacks(ranks()); !why.empty())
      GTEST_SKIP() << why;
  }
  const Backend &backend() const { return std::get<0>(GetParam()); }
  int64_t ranks() const { return std::get<1>(GetParam()); }
  // The ranks whose results this process has.
  std::vector<int64_t> ranksHere() const {
    const std::optional<int64_t> only = backend().onlyRank();
    return only ? std::vector<int64_t>{*only} : everyRank(ranks());
  }
  bool isHere(int64_t rank) const { return backend().onlyRank().value_or(rank) == rank; }
  bool hostsMeet() const { return backend().hostsMeet; }
  std::string addsOtherwise() const { return backend().addsOtherwise(ranks()); }
  // body(communicator, group of all) on every rank of a world.
  template <typename Body> void onEveryRank(const Body &body) const {
    makeWorld()->run([&](Communicator &communicator) {
      const Result<GroupId> group = communicator.openGroup(everyRank(ranks()));
      ASSERT_TRUE(group.isOk());
      body(communicator, *group);
    });
  }
  std::unique_ptr<World> makeWorld(milliseconds timeout = milliseconds(60'000)) const {
    return backend().make(ranks(), timeout);
  }
};

inline std::string parameterName(const testing::TestParamInfo<Conformance::ParamType> &info) {
  return fmt::format("{}{}", std::get<0>(info.param).name, std::get<1>(info.param));
}

} // namespace mgc::test
