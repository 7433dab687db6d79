// Event files: their bytes, as TensorBoard's own writer makes them, and what a file holds.
#include "runtime/io/EventFile.h"
#include "test/runtime/TempDir.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <set>

namespace mgc::test {
namespace {

std::string hexOf(std::string_view bytes) {
  std::string text;
  for (unsigned char byte : bytes)
    text += fmt::format("{:02x}", byte);
  return text;
}

// As tensorboard.summary.writer.record_writer.RecordWriter writes Event(wall_time=1.5, file_version="brain.Event:2") and
// Event(wall_time=2.25, step=300, summary=[("lm loss", 0.5), ("lr", 1e-3)]).
TEST(EventFile, recordsHaveTheBytesOfTensorBoard) {
  EXPECT_EQ(hexOf(versionRecord(1.5)),
            "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c");
  const EventScalar scalars[] = {{"lm loss", 0.5}, {"lr", 1e-3}};
  EXPECT_EQ(hexOf(eventRecord(2.25, 300, scalars)),
            "290000000000000037ff5f0009000000000000024010ac022a1b0a0e0a076c6d206c6f7373150000003f0a090a026c72"
            "156f12833a4727de37");
}

// As the same writer writes Event(wall_time=1.5, step=300, session_log=SessionLog(status=START)).
TEST(EventFile, startRecordHasTheBytesOfTensorBoard) {
  EXPECT_EQ(hexOf(startRecord(1.5, 300)), "100000000000000095fbfe1809000000000000f83f10ac023a020801713b788a");
}

// TensorBoard reads files in the order of their names.
TEST(EventFile, namesStandInTheOrderOfRuns) {
  const TempDir dir;
  std::vector<std::string> names = {dir.write("events.out.tfevents.4000000000.z.9", "of a clock that is ahead")};
  dir.write("events.out.tfevents.old", "of another name");
  for (int run = 0; run < 3; ++run) {
    const Result<EventFile> file = EventFile::create(dir.path(""));
    ASSERT_TRUE(isOk(file));
    names.push_back(std::filesystem::path(file->path()).lexically_normal().string());
  }
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), 4u);
  EXPECT_TRUE(std::ranges::is_sorted(names));
}

TEST(EventFile, holdsARecordForEachStep) {
  const TempDir dir;
  Result<EventFile> file = EventFile::create(dir.path("runs/a"));
  ASSERT_TRUE(isOk(file));
  const EventScalar loss[] = {{"lm loss", 3}};
  ASSERT_TRUE(isOk(file->write(0, loss)));
  ASSERT_TRUE(isOk(file->write(10, loss)));
  ASSERT_TRUE(isOk(file->write(20, {}))) << "nothing to write";
  std::string bytes = dir.read("runs/a/" + std::filesystem::path(file->path()).filename().string());
  std::vector<size_t> lengths;
  while (bytes.size() >= 16) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    lengths.push_back(length);
    ASSERT_LE(length + 16, bytes.size());
    bytes.erase(0, length + 16);
  }
  EXPECT_TRUE(bytes.empty());
  EXPECT_EQ(lengths.size(), 3u);
}

TEST(EventFile, refusesWhatIsNoFolder) {
  const TempDir dir;
  const std::string file = dir.write("file", "text");
  EXPECT_TRUE(fails(EventFile::create(file), {file, "is no folder"}));
  EXPECT_TRUE(fails(EventFile::create(file + "/in"), {file + "/in", "is no folder"}));
}

} // namespace
} // namespace mgc::test
