#include "runtime/checkpoint/CheckpointFolder.h"

#include "test/runtime/TempDir.h"

namespace mgc::test {
namespace {

namespace fs = std::filesystem;

class FolderTest : public testing::Test {
protected:
  CheckpointFolder open(int64_t retain, const Continued &continued = {}) {
    Result<CheckpointFolder> folder = CheckpointFolder::open(dir_.path(), retain, continued, notes_);
    EXPECT_TRUE(isOk(folder));
    return folder.take();
  }
  // A checkpoint with a file of one byte.
  Status save(CheckpointFolder &folder, int64_t step, std::optional<BestEvaluation> best = {}) {
    MGC_TRY(folder.begin(step));
    std::ofstream(CheckpointFolder::stagingOf(dir_.path(), step) + "/" + kFile) << "x";
    CheckpointRecord record;
    record.step = step;
    record.files = {{kFile, 1, "00000000"}};
    record.best = best;
    return folder.complete(record, "{}");
  }
  // Opens the folder and saves these steps.
  CheckpointFolder openAndSave(int64_t retain, std::initializer_list<int64_t> steps, const Continued &continued = {}) {
    CheckpointFolder folder = open(retain, continued);
    for (int64_t step : steps)
      EXPECT_TRUE(isOk(save(folder, step)));
    return folder;
  }
  std::string latest() { return dir_.read(kLatestFile); }
  std::set<int64_t> steps() {
    std::set<int64_t> steps;
    for (const auto &entry : checkpointsIn(dir_.path()))
      steps.insert(entry.first);
    return steps;
  }

  static constexpr const char *kFile = "shard-00001-model-00001-of-00001.safetensors";
  TempDir dir_;
  std::vector<std::string> notes_;
};

TEST_F(FolderTest, keepsTheLastOnes) {
  openAndSave(2, {10, 20, 30, 40});
  EXPECT_EQ(steps(), (std::set<int64_t>{30, 40}));
  EXPECT_EQ(latest(), "40\n");
  EXPECT_EQ(dir_.list(), (std::set<std::string>{"iter_0000030", "iter_0000040", kLatestFile}));
}

TEST_F(FolderTest, keepsAllOfNone) {
  openAndSave(0, {10, 20, 30});
  EXPECT_EQ(steps(), (std::set<int64_t>{10, 20, 30}));
}

// A run that goes on from 20 counts what it continues among those it keeps.
TEST_F(FolderTest, continuesItsOwn) {
  openAndSave(0, {10, 20});
  openAndSave(2, {30}, {20});
  EXPECT_EQ(steps(), (std::set<int64_t>{20, 30}));
}

TEST_F(FolderTest, saysThatMoreGoThanBefore) {
  openAndSave(0, {10, 20, 30});
  fs::create_directories(dir_.path("iter_0000015")); // no save has made it
  dir_.write("iter_0000015/notes.txt", "mine");
  open(3, {30});
  EXPECT_TRUE(notes_.empty());
  CheckpointFolder second = open(2, {30});
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_NE(notes_[0].find("--save-retain 2: the next save removes 2 older checkpoints"), std::string::npos)
      << notes_[0];
  ASSERT_TRUE(isOk(save(second, 40)));
  EXPECT_EQ(dir_.list(), (std::set<std::string>{"iter_0000015", "iter_0000030", "iter_0000040", kLatestFile}));
}

TEST_F(FolderTest, refusesWhatTheRunDoesNotContinue) {
  openAndSave(0, {10, 20});
  EXPECT_TRUE(fails(CheckpointFolder::open(dir_.path(), 1, {}, notes_),
                    {dir_.path(), "of another training", "of step 20", "--load", "--force"}));
  EXPECT_TRUE(
      fails(CheckpointFolder::open(dir_.path(), 1, {10}, notes_),
            {"behind step 10", "of step 20", "another folder", "--force", std::string("20 in ") + kLatestFile}));
  CheckpointFolder forced = open(1, {{}, true});
  EXPECT_EQ(steps(), (std::set<int64_t>{10, 20})); // until the first save is complete
  ASSERT_TRUE(isOk(save(forced, 5)));
  EXPECT_EQ(steps(), (std::set<int64_t>{5}));
}

// One that has the same step is replaced.
TEST_F(FolderTest, forceReplacesTheSameStep) {
  CheckpointFolder first = open(0), forced = open(1, {{}, true});
  ASSERT_TRUE(isOk(save(first, 10)));
  ASSERT_TRUE(isOk(save(forced, 10)));
  EXPECT_EQ(dir_.list(), (std::set<std::string>{"iter_0000010", kLatestFile}));
}

TEST_F(FolderTest, removesWhatKilledSavesLeft) {
  fs::create_directories(dir_.path("iter_0000010.saving"));
  fs::create_directories(dir_.path("iter_0000005.removing"));
  fs::create_directories(dir_.path("iter_5.saving")); // not ours
  open(1);
  EXPECT_EQ(dir_.list(), (std::set<std::string>{"iter_5.saving"}));
  EXPECT_EQ(notes_.size(), 2u);
}

TEST_F(FolderTest, keepsTheBest) {
  const auto linked = [&] { return fs::read_symlink(dir_.path(kBestLink)).string(); };
  CheckpointFolder folder = open(1, {.keepsBest = true});
  for (int64_t step : {10, 20, 30}) // the loss of 10 is the least, then that of 30
    ASSERT_TRUE(isOk(save(folder, step, BestEvaluation{step < 30 ? 10 : 30, 1, 0})));
  EXPECT_EQ(steps(), (std::set<int64_t>{30}));
  EXPECT_EQ(linked(), "iter_0000030");
  ASSERT_TRUE(isOk(save(folder, 40, BestEvaluation{30, 1, 1})));
  EXPECT_EQ(steps(), (std::set<int64_t>{30, 40}));
  EXPECT_EQ(*findCheckpoint(dir_.path(kBestLink)), std::optional(dir_.path(kBestLink)));
  openAndSave(1, {50}, {40}); // a run without the flag
  EXPECT_EQ(steps(), (std::set<int64_t>{30, 50}));
  EXPECT_EQ(linked(), "iter_0000030");
}

// A run was killed when its best checkpoint had its name and nothing else; another evaluation is made up.
TEST_F(FolderTest, linksTheBestOfAKilledRun) {
  CheckpointFolder folder = open(1, {.keepsBest = true});
  ASSERT_TRUE(isOk(save(folder, 10, BestEvaluation{10, 1, 0})));
  fs::copy(dir_.path("iter_0000010"), dir_.path("iter_0000020"), fs::copy_options::recursive);
  CheckpointFolder next = open(1, {.step = 20, .keepsBest = true, .best = 20});
  ASSERT_TRUE(isOk(next.settle()));
  EXPECT_EQ(fs::read_symlink(dir_.path(kBestLink)), "iter_0000020");
  EXPECT_EQ(steps(), (std::set<int64_t>{20}));
  openAndSave(1, {30}, {.step = 20, .keepsBest = true, .best = 10}); // one that is gone
  CheckpointFolder last = open(1, {.step = 30, .keepsBest = true});
  EXPECT_EQ(steps(), (std::set<int64_t>{20, 30}));
  ASSERT_TRUE(isOk(last.amend(30, [](CheckpointRecord &record) { record.best = BestEvaluation{30, 0.5, 0}; })));
  EXPECT_EQ(readRecord(dir_.path("iter_0000030"))->best->loss, 0.5);
  EXPECT_EQ(steps(), (std::set<int64_t>{30}));
}

// With --force those behind it go when a checkpoint of the run's own is there.
TEST_F(FolderTest, goesBackToAnOlderOne) {
  openAndSave(0, {10, 20, 30});
  dir_.write(kLatestFile, "10");
  CheckpointFolder back = open(0, {10, true});
  ASSERT_TRUE(isOk(save(back, 15)));
  EXPECT_EQ(steps(), (std::set<int64_t>{10, 15}));
  EXPECT_EQ(latest(), "15\n");
}

// A run was killed when its last checkpoint had its name and nothing else.
TEST_F(FolderTest, settlesWhatAKilledRunCompleted) {
  openAndSave(2, {5, 10});
  fs::copy(dir_.path("iter_0000010"), dir_.path("iter_0000015"), fs::copy_options::recursive);
  const CheckpointFolder next = open(2, {15});
  ASSERT_TRUE(next.has(15));
  EXPECT_EQ(steps(), (std::set<int64_t>{5, 10, 15}));
  ASSERT_TRUE(isOk(next.settle()));
  EXPECT_EQ(steps(), (std::set<int64_t>{10, 15}));
  EXPECT_EQ(latest(), "15\n");
}

TEST_F(FolderTest, filesThatRank0DoesNotSeeAreRefused) {
  CheckpointFolder folder = open(1);
  ASSERT_TRUE(isOk(folder.begin(10)));
  CheckpointRecord record;
  record.step = 10;
  record.files = {{kFile, 7, ""}};
  EXPECT_TRUE(fails(folder.complete(record, ""), {kFile, "No such file", "reports 7 bytes", "all processes share"}));
  EXPECT_TRUE(steps().empty());
  folder.discard(10);
  EXPECT_TRUE(dir_.list().empty());
}

TEST_F(FolderTest, findsTheLatest) {
  using Found = std::optional<std::string>;
  EXPECT_EQ(*findCheckpoint(dir_.path()), Found());
  openAndSave(0, {10, 20});
  EXPECT_EQ(*findCheckpoint(dir_.path()), Found(dir_.path("iter_0000020")));
  EXPECT_EQ(*findCheckpoint(dir_.path("iter_0000010")), Found(dir_.path("iter_0000010")));
  dir_.write(kLatestFile, "10"); // a user goes back
  EXPECT_EQ(*findCheckpoint(dir_.path()), Found(dir_.path("iter_0000010")));
  fs::remove(dir_.path(kLatestFile)); // the save of 20 was killed
  EXPECT_EQ(*findCheckpoint(dir_.path()), Found(dir_.path("iter_0000020")));
  for (const char *wrong : {"30", "15", "release", "-1", ""}) {
    dir_.write(kLatestFile, wrong);
    EXPECT_TRUE(fails(findCheckpoint(dir_.path()), {kLatestFile, "possible for --load: " + dir_.path("iter_0000010")}))
        << wrong;
  }
}

} // namespace
} // namespace mgc::test
