#include "runtime/base/File.h"
#include "runtime/base/Descriptor.h"
#include "runtime/base/Json.h"
#include "runtime/base/Utf8.h"
#include "test/runtime/TempDir.h"

#include <algorithm>
#include <fcntl.h>
#include <linux/magic.h>
#include <set>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <unistd.h>

using namespace mgc;
using namespace mgc::test;

using File = InTempDir;

namespace {

// Writes the pieces one after another.
void writePieces(const std::string &path, const std::vector<std::string_view> &pieces,
                 PageCache cache = PageCache::keep) {
  Result<AtomicFile> file = AtomicFile::create(path, cache);
  ASSERT_TRUE(isOk(file));
  for (const std::string_view piece : pieces)
    ASSERT_TRUE(isOk(file->write(piece)));
  ASSERT_TRUE(isOk(file->commit()));
}

} // namespace

TEST_F(File, mapsAndRefuses) {
  Result<MappedFile> file = MappedFile::open(dir.write("f", "hello"));
  ASSERT_TRUE(isOk(file));
  MappedFile moved = file.take();
  EXPECT_EQ(moved.text(), "hello");
  Result<MappedFile> empty = MappedFile::open(dir.write("e", ""));
  ASSERT_TRUE(isOk(empty));
  EXPECT_EQ(empty->bytes().size(), 0u);
  EXPECT_TRUE(fails(MappedFile::open(dir.path("none")), {dir.path("none"), "cannot open"}));
  EXPECT_TRUE(fails(MappedFile::open(dir.path()), {"is a directory"}));
  EXPECT_TRUE(fails(MappedFile::open("/dev/null"), {"is a device"}));
  EXPECT_TRUE(fails(readFile(dir.path("f"), 4), {"has 5 bytes, expected at most 4"}));
  EXPECT_EQ(*readFile(dir.path("f"), 5), "hello");
  EXPECT_EQ(*readFile(dir.path("e"), 0), "");
}

TEST_F(File, readsFilesThatDoNotSayTheirSize) {
  EXPECT_EQ(readFile("/proc/sys/kernel/random/boot_id", 4096)->size(), 37u);
  EXPECT_TRUE(fails(readFile("/proc/self/status", 100), {"has more than 100 bytes"}));
  EXPECT_GT(readFile("/proc/self/status", 1 << 20)->size(), 500u);
}

TEST_F(File, aMappedFileOutlivesItsReplacement) {
  Result<MappedFile> file = MappedFile::open(dir.write("f", "old"));
  ASSERT_TRUE(isOk(writeFileAtomically(dir.path("f"), "newer")));
  EXPECT_EQ(file->text(), "old");
  EXPECT_EQ(dir.read("f"), "newer");
}

TEST_F(File, writesMoreThanItsBuffer) {
  std::string large(3'000'000, 'x'), small(700'000, 'y');
  writePieces(dir.path("f"), {small, small, large, small});
  EXPECT_EQ(dir.read("f"), small + small + large + small);
}

// Pieces of all sizes; the last ends within a block.
TEST_F(File, writesPastThePageCache) {
  constexpr size_t kBlock = 4096;
  std::string text(5'000'000, ' ');
  for (size_t i = 0; i < text.size(); ++i)
    text[i] = static_cast<char>(i * 2654435761u >> 24);
  for (const std::vector<size_t> &pieces :
       {std::vector<size_t>{0, 4'000'000, 1'000'000 - 8}, {3, kBlock - 3, 2'000'000, 1'000'001}, {8 * kBlock}, {1}}) {
    size_t next = 0;
    std::vector<std::string_view> texts;
    for (const size_t piece : pieces) {
      texts.push_back(std::string_view(text).substr(next, piece));
      next += piece;
    }
    writePieces(dir.path("f"), texts, PageCache::bypass);
    EXPECT_TRUE(dir.read("f") == text.substr(0, next)) << next;
  }
}

// Where the file system is one that can.
TEST_F(File, leavesNothingInThePageCache) {
  struct statfs system = {};
  ASSERT_EQ(::statfs(dir.path().c_str(), &system), 0);
  if (system.f_type != EXT4_SUPER_MAGIC && system.f_type != XFS_SUPER_MAGIC)
    GTEST_SKIP() << "neither ext4 nor xfs";
  const std::string text(3'000'000, 'x');
  const size_t page = ::sysconf(_SC_PAGESIZE), pages = (text.size() + page - 1) / page;
  for (const PageCache cache : {PageCache::keep, PageCache::bypass}) {
    writePieces(dir.path("f"), {text}, cache);
    Result<MappedFile> mapped = MappedFile::open(dir.path("f"));
    ASSERT_TRUE(isOk(mapped));
    std::vector<unsigned char> isCached(pages);
    ASSERT_EQ(::mincore(const_cast<std::byte *>(mapped->bytes().data()), text.size(), isCached.data()), 0);
    const auto cached = std::ranges::count_if(isCached, [](unsigned char page) { return page & 1; });
    if (cache == PageCache::keep)
      EXPECT_GT(cached, std::ssize(isCached) / 2); // the system may have taken some
    else
      EXPECT_LE(cached, 1); // the end is no whole block
  }
}

TEST_F(File, aFullDiskLeavesTheOldFileAndNoOther) {
  dir.write("f", "old");
  for (size_t size : {size_t(1'000), size_t(5'000'000)}) {
    FileSizeLimit limit(500);
    EXPECT_TRUE(fails(writeFileAtomically(dir.path("f"), std::string(size, 'x')), {dir.path("f") + ": cannot write"}));
  }
  { // the limit lies within what a write past the page cache has
    FileSizeLimit limit(1'500'000);
    Result<AtomicFile> file = AtomicFile::create(dir.path("f"), PageCache::bypass);
    ASSERT_TRUE(isOk(file));
    const std::string large(3'000'000, 'x');
    const Status written = file->write(std::string_view(large));
    EXPECT_TRUE(fails(written.isOk() ? file->finish() : written, {dir.path("f") + ": cannot write"}));
  }
  EXPECT_EQ(dir.read("f"), "old");
  EXPECT_EQ(dir.list(), (std::set<std::string>{"f"}));
}

TEST_F(File, cannotWriteWhereNoDirectoryIs) {
  EXPECT_TRUE(fails(writeFileAtomically(dir.path("none/f"), "x"), {dir.path("none/f") + ": cannot create"}));
  std::filesystem::create_directory(dir.path("d"));
  EXPECT_TRUE(fails(writeFileAtomically(dir.path("d"), "x"), {"is a directory"}));
  EXPECT_EQ(dir.list(), (std::set<std::string>{"d"}));
}

TEST_F(File, aReadOnlyFileIsNotReplaced) {
  ASSERT_TRUE(isOk(writeFileAtomically(dir.path("f"), "kept")));
  std::filesystem::permissions(dir.path("f"), std::filesystem::perms::owner_read);
  EXPECT_TRUE(fails(writeFileAtomically(dir.path("f"), "x"), {dir.path("f") + ": is read-only"}));
  EXPECT_EQ(dir.read("f"), "kept");
}

TEST_F(File, aLinkIsReplacedAndNotWhatItLeadsTo) {
  ASSERT_TRUE(isOk(writeFileAtomically(dir.path("store"), "shared")));
  std::filesystem::create_symlink("store", dir.path("link"));
  ASSERT_TRUE(isOk(writeFileAtomically(dir.path("link"), "own")));
  EXPECT_EQ(dir.read("store"), "shared");
  EXPECT_EQ(dir.read("link"), "own");
}

TEST_F(File, aRenameThatFailsTakesTheTemporaryAway) {
  {
    Result<AtomicFile> file = AtomicFile::create(dir.path("f"));
    ASSERT_TRUE(isOk(file));
    std::filesystem::create_directory(dir.path("f"));
    EXPECT_TRUE(fails(file->commit(), {dir.path("f") + ": cannot rename a temporary file to it"}));
  }
  EXPECT_EQ(dir.list(), (std::set<std::string>{"f"}));
}

TEST_F(File, whatIsLeftIsKnownByItsName) {
  for (const char *other : {"a.json.tmp-12-3", "a.json.tmp-0-0"})
    EXPECT_TRUE(isTemporaryOf("a.json", other)) << other;
  for (const char *other :
       {"a.json", "a.json.tmp-12", "a.json.tmp-1-2-3", "b.json.tmp-1-2", "a.json.tmp-a-1", "xa.json.tmp-1-2"})
    EXPECT_FALSE(isTemporaryOf("a.json", other)) << other;
  for (const char *name : {"f", "f.tmp-1-2", "f.tmp-3-4", "g.tmp-1-2"})
    dir.write(name, "");
  removeUnfinished(dir.path("f"));
  std::set<std::string> left;
  EXPECT_FALSE(forEachEntry(dir.path(), [&](const auto &entry) { left.insert(entry.path().filename()); }));
  EXPECT_EQ(left, (std::set<std::string>{"f", "g.tmp-1-2"}));
  EXPECT_TRUE(forEachEntry(dir.path("none"), [](const auto &) {}));
}

// The second does not fit: files of this process may have 10 bytes.
TEST_F(File, appendsAllOrNothing) {
  const std::string path = dir.write("f", "");
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  {
    const FileSizeLimit ten(10);
    EXPECT_TRUE(appendWhole(file.number(), "12345678"));
    EXPECT_FALSE(appendWhole(file.number(), "abcdefgh"));
    EXPECT_EQ(errno, EFBIG);
  }
  EXPECT_EQ(*readFile(path, 100), "12345678");
}

TEST(Json, refusesDuplicatesDepthAndGarbage) {
  EXPECT_TRUE(isOk(parseJson(R"({"a": {"b": 1}, "b": [{"b": 2}, {"b": 3}]})")));
  EXPECT_TRUE(fails(parseJson(R"({"a": {"b": 1, "b": 1}})"), {"\"b\" is given twice"}));
  EXPECT_TRUE(isOk(parseJson(std::string(64, '[') + std::string(64, ']'))));
  EXPECT_TRUE(fails(parseJson(std::string(65, '[') + std::string(65, ']')), {"deeper than 64"}));
  EXPECT_TRUE(fails(parseJson(""), {"not JSON"}));
  EXPECT_TRUE(fails(parseJson("{} {}"), {"not JSON"}));
  EXPECT_TRUE(fails(parseJson("[1e999]"), {"not JSON"}));
}

TEST(Json, sizes) {
  EXPECT_EQ(jsonSize(*parseJson("9223372036854775807")), INT64_MAX);
  EXPECT_EQ(jsonSize(nlohmann::json(int64_t(5))), 5);
  for (const char *bad : {"-1", "1.0", "9223372036854775808", "1e3", "\"1\"", "null", "true"})
    EXPECT_EQ(jsonSize(*parseJson(bad)), std::nullopt) << bad;
}

TEST(Utf8, findsTheFirstBadByte) {
  for (const char *good :
       {"", "abc", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"})
    EXPECT_EQ(firstInvalidUtf8(good), std::nullopt) << good;
  for (const char *bad : {"\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
                          "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc3", "\xe2\x82", "\xf0\x9f\x98"})
    EXPECT_EQ(firstInvalidUtf8(std::string("ab") + bad), 2u) << bad;
}
