// Chooses the fastest algorithm of the library's list for a matrix product: times each on the device.
#include "runtime/base/Owned.h"
#include "runtime/base/Rounding.h"
#include "runtime/device/cuda/GemmCalls.h"

#include <limits>
#include <utility>

namespace mgc::cuda {

namespace {

constexpr int kRepetitions = 5;       // repetitions of a measurement; the fastest counts
constexpr double kLeastGain = 0.01;   // gain over the library's choice; a smaller one is noise
constexpr int64_t kDeadline = 60'000; // ms per run
constexpr int64_t kRoomAlignment = 256;

// Where a measurement's operands lie in its room.
struct Room {
  explicit Room(const mgc_gemm_facts &f, mgc_address begin = 0) : end(begin) {
    at.a = take(f.m * f.k * bytesOf(f.input));
    at.b = take(f.k * f.n * bytesOf(f.input));
    at.bias = take(f.epilogue == MGC_NO_EPILOGUE ? 0 : f.n * bytesOf(f.output));
    at.c = take(f.m * f.n * bytesOf(f.output));
    at.workspace = take(f.workspace_bytes);
  }
  mgc_gemm_operands at = {};
  mgc_address end;

private:
  mgc_address take(int64_t bytes) { return std::exchange(end, end + mgc_address(roundUp(bytes, kRoomAlignment))); }
};

// Two timed events.
class Stopwatch {
public:
  static Result<Stopwatch> make(mgc_device &device) {
    Stopwatch watch;
    for (Owned<mgc_event *, dropEvent> *event : {&watch.begin_, &watch.end_}) {
      mgc_event *made = nullptr;
      MGC_TRY(makeEvent(&device, 1, &made));
      *event = Owned<mgc_event *, dropEvent>(made);
    }
    return watch;
  }
  template <typename Body> Result<double> time(mgc_stream &stream, const Body &body) {
    MGC_TRY(record(&stream, begin_.get()));
    body();
    MGC_TRY(record(&stream, end_.get()));
    MGC_TRY(synchronize(&stream, kDeadline));
    double value = 0;
    MGC_TRY(milliseconds(begin_.get(), end_.get(), &value));
    return value;
  }

private:
  Stopwatch() = default;
  Owned<mgc_event *, dropEvent> begin_, end_;
};

// The milliseconds of the fastest of some runs; infinite where the library refuses to run its algorithm.
Result<double> fastest(mgc_stream &stream, Stopwatch &watch, const mgc_gemm &gemm,
                       const cublasLtMatmulAlgo_t &algorithm, const Room &room) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRepetitions; ++i) {
    Status enqueued;
    MGC_ASSIGN(took, watch.time(stream, [&] { enqueued = enqueue(stream, gemm, algorithm, room.at); }));
    if (!enqueued.isOk())
      return std::numeric_limits<double>::infinity();
    best = std::min(best, took);
  }
  return best;
}

} // namespace

Status chooseGemm(mgc_stream *stream, const mgc_gemm_facts *facts, mgc_address room, int64_t *roomNeeded,
                  int64_t *algorithm) {
  *roomNeeded = int64_t(Room(*facts).end);
  *algorithm = 0;
  if (room == 0 || isEmpty(*facts))
    return checkFacts(*stream->device, *facts);
  MGC_ASSIGN(gemm, describeGemm(*stream->device, *facts));
  MGC_ASSIGN(list, algorithms(*gemm));
  MGC_ASSIGN(watch, Stopwatch::make(*stream->device));
  double best = std::numeric_limits<double>::infinity(); // the time that another algorithm must undercut
  for (size_t i = 0; i < list.size(); ++i) {
    MGC_ASSIGN(took, fastest(*stream, watch, *gemm, list[i], Room(*facts, room)));
    if (took < best) {
      best = i == 0 ? (1 - kLeastGain) * took : took;
      *algorithm = int64_t(i);
    }
  }
  return Status::ok();
}

} // namespace mgc::cuda
