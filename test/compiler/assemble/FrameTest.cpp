// Frames of the functions in frames.mlir, values of 512 bytes where nothing else is said.
#include "compiler/assemble/Frame.h"

#include "dialects/mg/View.h"
#include "mlir/Parser/Parser.h"
#include "test/Places.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace mgc {
namespace {

class FrameTest : public testing::Test {
protected:
  FrameTest() {
    context_.loadDialect<MgDialect, func::FuncDialect>();
    module_ = parseSourceFile<ModuleOp>(testFile("compiler/assemble/frames.mlir"), &context_);
  }

  void place(StringRef name) {
    auto function = module_->lookupSymbol<func::FuncOp>(name);
    auto frame = placeFrame(function);
    ASSERT_TRUE(frame.isOk()) << frame.status().message();
    frame_ = std::move(*frame);
    offsets_.clear();
    inPlace_.clear();
    function.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (op != function && !op->getParentOfType<KernelOp>() && op->getNumResults() > 0 && !isView(op))
        add(op);
    });
  }

  void add(Operation *op) {
    auto &offsets = offsets_.emplace_back();
    for (Value result : op->getResults())
      offsets.push_back(frame_.offsets.contains(result) ? frame_.offsets.lookup(result) : -1);
    inPlace_.push_back(frame_.inPlace.contains(op));
  }

  MLIRContext context_;
  OwningOpRef<ModuleOp> module_;
  FunctionFrame frame_;
  // By op in order, views left out: the offsets of its results, -1 where they have none; whether it works in place.
  std::vector<std::vector<int64_t>> offsets_;
  std::vector<bool> inPlace_;
};

const std::vector<int64_t> kNowhere = {-1};

// The third value lies where the first did; what is returned has no place in the frame.
TEST_F(FrameTest, ValuesThatDieMakeRoom) {
  place("reuse.forward");
  EXPECT_EQ(frame_.bytes, 1024);
  EXPECT_EQ(frame_.leastBytes, 1024);
  EXPECT_NE(offsets_[0], offsets_[1]);
  EXPECT_EQ(offsets_[2], offsets_[0]);
  EXPECT_EQ(offsets_[3], kNowhere);
}

// A value that dies in an all-reduce is reduced in place, its other name too; one that is read again is not.
TEST_F(FrameTest, AllReducesWorkInPlace) {
  place("in_place.forward");
  EXPECT_EQ(inPlace_, (std::vector<bool>{false, true, false, false}));
  EXPECT_EQ(offsets_[1], offsets_[0]);
  EXPECT_NE(offsets_[2], offsets_[0]);
  EXPECT_NE(offsets_[2], kNowhere);
}

// A joined value has its 1024 bytes before its first part is made and until its parts are read for the last time, apart
// from the 512 that live between. Its parts have no places of their own.
TEST_F(FrameTest, JoinedValuesLiveAsLongAsTheirParts) {
  place("views.forward");
  EXPECT_EQ(frame_.bytes, 1536);
  EXPECT_EQ(offsets_[0], kNowhere);
  EXPECT_EQ(offsets_[2], kNowhere);
  const int64_t between = offsets_[1].front(), joined = offsets_[3].front();
  EXPECT_TRUE((between == 0 && joined == 512) || (between == 1024 && joined == 0));
}

// Its parts are read after the all-reduce.
TEST_F(FrameTest, JoinedValuesAreNotReducedInPlace) {
  place("joined.forward");
  EXPECT_EQ(inPlace_, std::vector<bool>(inPlace_.size(), false));
}

// One result each takes over the memory of a value of its type that dies in the kernel, be it one that nobody reads; the
// others, and what dies later, have places of their own.
TEST_F(FrameTest, KernelsTakeOverWhatDiesInThem) {
  place("take_over.forward");
  EXPECT_EQ(frame_.bytes, 1536);
  EXPECT_EQ(offsets_[1][0], offsets_[0][0]);
  EXPECT_NE(offsets_[1][1], offsets_[0][0]);
  EXPECT_EQ(offsets_[2][0], offsets_[1][1]);
}

// No result takes over the memory of a value that its kernel reads in other places or more often than it writes: of one
// row where it sums all rows, of one whose rows it adds to rows of its choice or takes in an order of its choice, of one
// that has other names.
TEST_F(FrameTest, KernelsDoNotTakeOverWhatTheyReadElsewhere) {
  for (auto [name, bytes] : {std::pair("summed.forward", 256), std::pair("added.forward", 1024),
                             std::pair("gathered.forward", 1024), std::pair("viewed.forward", 2560)}) {
    place(name);
    EXPECT_EQ(frame_.bytes, bytes) << name;
  }
}

TEST_F(FrameTest, BucketsAreReducedWhereTheyLie) {
  place("reduce.0");
  EXPECT_EQ(frame_.bytes, 0);
  EXPECT_EQ(offsets_[0], kNowhere);
  EXPECT_EQ(inPlace_, (std::vector<bool>{true, false}));
}

// A value that a tile reads lives until its last part is done, and what it makes from its first on: neither shares memory
// with the 256 bytes that the body makes, which are there once for all parts.
TEST_F(FrameTest, TilesKeepWholesForAllParts) {
  place("tiled.forward");
  EXPECT_EQ(frame_.bytes, 1280);
  EXPECT_EQ(offsets_[3], kNowhere);
  EXPECT_NE(offsets_[0], offsets_[1]);
}

// The operand of a collective, which runs concurrently, lives until the first use of the result: 512, 256, 512 and 512
// bytes, of which the last take the place of the source.
TEST_F(FrameTest, CollectivesThatRunBesideKeepTheirOperands) {
  place("beside.forward");
  EXPECT_EQ(frame_.bytes, 1280);
  EXPECT_NE(offsets_[2], offsets_[0]);
  EXPECT_EQ(offsets_[4], offsets_[0]);
}

} // namespace
} // namespace mgc
