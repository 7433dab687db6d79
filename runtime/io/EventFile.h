// EventFile: numbers by step, as TensorBoard reads them. A file of records, each an Event message of TensorBoard's
// event.proto (protocol buffers) between its length and two checksums (TFRecord). A record is in the file when
// write returns.
#pragma once

#include "runtime/base/Descriptor.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <span>
#include <string>

namespace mgc {

struct EventScalar {
  std::string tag; // "lm loss"
  double value = 0;
};

class EventFile {
public:
  // A new file events.out.tfevents.<seconds>.<machine>.<process> in the folder, which is made where it is missing.
  static Result<EventFile> create(const std::string &folder);
  Status write(int64_t step, std::span<const EventScalar> scalars);
  const std::string &path() const { return path_; }

private:
  EventFile(std::string path, Descriptor descriptor)
      : path_(std::move(path)), descriptor_(std::move(descriptor)) {}
  std::string path_;
  Descriptor descriptor_;
};

// A record: of the numbers of a step, or, without any, the one that begins a file. seconds: since 1970.
std::string eventRecord(double seconds, int64_t step, std::span<const EventScalar> scalars);

} // namespace mgc
