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

// During a commit a reader sees index and tokens of the files before, tokens without an index, or both of the new ones.
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
      const int64_t before = sizeOf(prefix + ".idx"), bin = sizeOf(prefix + ".bin"), after = sizeOf(prefix + ".idx");
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

// Whoever has opened a part has it alone, and under its name, although others remove and open it all the time.
TEST(PartFile, isOfOneWriter) {
  const TempDir dir;
  const std::string path = dir.path("a");
  std::atomic<int> wrong = 0, opened = 0;
  std::vector<std::thread> writers;
  for (char name = 'a'; name < 'e'; ++name)
    writers.emplace_back([&, name] {
      for (int i = 0; i < 8000; ++i) {
        Result<PartFile> part = PartFile::open(path, 0);
        if (!part.isOk())
          continue; // another writer has it
        const std::string text(1, name);
        const bool isWritten = part->write(std::as_bytes(std::span(text))).isOk() && part->flush().isOk();
        std::ifstream file(path + ".part");
        const std::string found(std::istreambuf_iterator<char>(file), {});
        ++opened, wrong += !isWritten || found != text;
        part->remove();
      }
    });
  for (std::thread &writer : writers)
    writer.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(opened, 100);
}

TEST(IndexedWriter, whatCannotBeReplacedLeavesTheFiles) {
  const TempDir dir;
  ASSERT_TRUE(isOk(writeFiles(dir.path("a"), 1)));
  std::filesystem::remove(dir.path("a.bin"));
  std::filesystem::create_directory(dir.path("a.bin"));
  EXPECT_TRUE(fails(writeFiles(dir.path("a"), 2), {"a.bin: is no regular file"}));
  EXPECT_TRUE(std::filesystem::exists(dir.path("a.idx")));
}
