// Files that several processes see while they are written and replaced.
#include "runtime/data/indexed/IndexedWriter.h"

#include "test/runtime/TempDir.h"

#include <atomic>
#include <map>
#include <thread>

using namespace mgc;
using namespace mgc::test;

namespace {

int64_t sizeOf(const std::string &path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? -1 : static_cast<int64_t>(size);
}

// A document of so many sequences, of 1000 tokens each.
Status writeFiles(const std::string &prefix, int sequences) {
  MGC_ASSIGN(writer, IndexedWriter::create(prefix, ElementType::U16));
  for (int i = 0; i < sequences; ++i)
    MGC_TRY(writer.addSequence(std::vector<int32_t>(1000, i)));
  MGC_TRY(writer.endDocument());
  return writer.commit();
}

} // namespace

// Of a commit a reader sees index and tokens of the files before, tokens without an index, or both of the new ones.
TEST(IndexedWriter, noIndexIsBesideTokensOfOthers) {
  const TempDir dir;
  const std::string prefix = dir.path("a");
  std::map<int64_t, int64_t> binOf; // by the size of the index
  for (const int sequences : {1, 2}) {
    ASSERT_TRUE(isOk(writeFiles(prefix, sequences)));
    binOf[sizeOf(prefix + ".idx")] = sizeOf(prefix + ".bin");
  }
  ASSERT_EQ(binOf.size(), 2u);
  std::atomic<int> commits = 0;
  std::atomic<bool> ends = false;
  int64_t wrong = 0, right = 0;
  std::thread reader([&] {
    while (!ends) {
      const int commit = commits;
      const int64_t before = sizeOf(prefix + ".idx"), bin = sizeOf(prefix + ".bin"),
                    after = sizeOf(prefix + ".idx");
      if (before >= 0 && before == after && commit == commits) // the index stood there all the time
        ++(bin == binOf[before] ? right : wrong);
    }
  });
  for (; commits < 100; ++commits)
    EXPECT_TRUE(isOk(writeFiles(prefix, 1 + commits % 2)));
  ends = true;
  reader.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(right, 0);
}

TEST(IndexedWriter, whatCannotBeReplacedLeavesTheFiles) {
  const TempDir dir;
  ASSERT_TRUE(isOk(writeFiles(dir.path("a"), 1)));
  std::filesystem::remove(dir.path("a.bin"));
  std::filesystem::create_directory(dir.path("a.bin"));
  EXPECT_TRUE(fails(writeFiles(dir.path("a"), 2), {"a.bin: is no regular file"}));
  EXPECT_TRUE(std::filesystem::exists(dir.path("a.idx")));
}
