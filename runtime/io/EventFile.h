// EventFile: numbers by step, as TensorBoard reads them. A file of records, each an Event message of TensorBoard's
// event.proto (protocol buffers) between its length and two checksums (TFRecord). A record is in the file when
// write returns.
#pragma once

#include "runtime/base/Descriptor.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace mgc {

struct EventScalar {
  std::string tag; // "lm loss"
  double value = 0;
};

class EventFile {
public:
  // A new file events.out.tfevents.<seconds>.<machine>.<process> in the folder, which is made where it is missing. TensorBoard reads
  // the files of a folder in the order of their names, so the seconds are more than those of all files there. With `continued`
  // the file begins with startRecord of that step.
  static Result<EventFile> create(const std::string &folder, std::optional<int64_t> continued = {});
  Status write(int64_t step, std::span<const EventScalar> scalars);
  const std::string &path() const { return path_; }

private:
  EventFile(std::string path, Descriptor descriptor) : path_(std::move(path)), descriptor_(std::move(descriptor)) {}
  std::string path_;
  Descriptor descriptor_;
};

// Records; seconds: since 1970. The one that begins a file: Event::file_version.
std::string versionRecord(double seconds);
// A training goes on from the step: Event::session_log with the status START. TensorBoard drops what it has read of this step and
// of later ones.
std::string startRecord(double seconds, int64_t step);
// The numbers of a step: Event::summary.
std::string eventRecord(double seconds, int64_t step, std::span<const EventScalar> scalars);

} // namespace mgc
