// See EventFile.h.
#include "runtime/io/EventFile.h"

#include "runtime/base/Checksum.h"
#include "runtime/base/File.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace mgc {

static_assert(std::endian::native == std::endian::little, "records are little-endian, and so are numbers here");

// --- Checksums ---------------------------------------------------------------------------------------------

// A checksum of data that hold checksums is changed, so that it is none of theirs.
static uint32_t maskedChecksum(std::string_view bytes) {
  constexpr uint32_t kMask = 0xa282ead8;
  Checksum checksum;
  checksum.add(bytes);
  return std::rotr(checksum.value(), 15) + kMask;
}

// --- Messages ----------------------------------------------------------------------------------------------

namespace {

// A message of protocol buffers, field by field. Numbers of fields are those of event.proto and summary.proto.
class ProtoMessage {
public:
  void addVarint(int field, uint64_t value) {
    addTag(field, 0);
    append(value);
  }
  void addDouble(int field, double value) {
    addTag(field, 1);
    addBytes(value);
  }
  void addText(int field, std::string_view text) {
    addTag(field, 2);
    append(text.size());
    bytes_ += text;
  }
  void addFloat(int field, float value) {
    addTag(field, 5);
    addBytes(value);
  }
  const std::string &bytes() const { return bytes_; }

private:
  void addTag(int field, int wireType) { append(static_cast<uint64_t>(field) << 3 | wireType); }
  void append(uint64_t value) {
    for (; value >= 0x80; value >>= 7)
      bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  template <typename T> void addBytes(T value) { bytes_.append(reinterpret_cast<const char *>(&value), sizeof value); }
  std::string bytes_;
};

} // namespace

static std::string summaryOf(std::span<const EventScalar> scalars) {
  ProtoMessage summary;
  for (const EventScalar &scalar : scalars) {
    ProtoMessage value;
    value.addText(1, scalar.tag);
    value.addFloat(2, static_cast<float>(scalar.value));
    summary.addText(1, value.bytes());
  }
  return summary.bytes();
}

static std::string recordOf(const ProtoMessage &event) {
  const auto raw = [](auto value) { return std::string(reinterpret_cast<const char *>(&value), sizeof value); };
  const std::string length = raw(static_cast<uint64_t>(event.bytes().size()));
  return length + raw(maskedChecksum(length)) + event.bytes() + raw(maskedChecksum(event.bytes()));
}

static ProtoMessage eventAt(double seconds, int64_t step) {
  ProtoMessage event;
  event.addDouble(1, seconds);
  if (step != 0) // a field that is 0 is left out
    event.addVarint(2, static_cast<uint64_t>(step));
  return event;
}

std::string versionRecord(double seconds) {
  ProtoMessage event = eventAt(seconds, 0);
  event.addText(3, "brain.Event:2");
  return recordOf(event);
}

std::string startRecord(double seconds, int64_t step) {
  constexpr uint64_t kStart = 1; // SessionLog::START
  ProtoMessage session;
  session.addVarint(1, kStart);
  ProtoMessage event = eventAt(seconds, step);
  event.addText(7, session.bytes());
  return recordOf(event);
}

std::string eventRecord(double seconds, int64_t step, std::span<const EventScalar> scalars) {
  ProtoMessage event = eventAt(seconds, step);
  event.addText(5, summaryOf(scalars));
  return recordOf(event);
}

// --- The file ----------------------------------------------------------------------------------------------

constexpr std::string_view kPrefix = "events.out.tfevents.";

static double secondsNow() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

static std::string machineName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

static Status append(const std::string &path, int descriptor, std::string_view bytes) {
  return appendWhole(descriptor, bytes) ? Status::ok()
                                        : errorf("{}: cannot be written: {}", path, std::strerror(errno));
}

constexpr int64_t kMostSeconds = 9'999'999'999; // names have ten digits: one of more would stand in front

// The seconds in the name of a file of events; 0: it is none.
static int64_t secondsIn(std::string_view name) {
  int64_t seconds = 0;
  if (name.starts_with(kPrefix))
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), seconds);
  return std::clamp<int64_t>(seconds, 0, kMostSeconds);
}

// More than in the names of all files there.
static int64_t secondsOfNewFile(const std::string &folder, double now) {
  auto seconds = static_cast<int64_t>(now);
  forEachEntry(folder,
               [&](const auto &file) { seconds = std::max(seconds, secondsIn(file.path().filename().string()) + 1); });
  return std::min(seconds, kMostSeconds);
}

Result<EventFile> EventFile::create(const std::string &folder, std::optional<int64_t> continued) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder))
    return errorf("{}: is no folder and cannot be made one{}{}", folder, error ? ": " : "", error.message());
  const double now = secondsNow();
  const std::string path =
      fmt::format("{}/{}{:010}.{}.{}", folder, kPrefix, secondsOfNewFile(folder, now), machineName(), ::getpid());
  Descriptor descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!descriptor.isOpen())
    return errorf("{}: cannot be written: {}", path, std::strerror(errno));
  EventFile file(path, std::move(descriptor));
  const std::string start = continued ? startRecord(now, *continued) : "";
  MGC_TRY(append(file.path_, file.descriptor_.number(), versionRecord(now) + start));
  return file;
}

Status EventFile::write(int64_t step, std::span<const EventScalar> scalars) {
  return scalars.empty() ? Status::ok() : append(path_, descriptor_.number(), eventRecord(secondsNow(), step, scalars));
}

} // namespace mgc
