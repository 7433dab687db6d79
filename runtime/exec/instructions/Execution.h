// How each kind of instruction runs on a device: `prepare` once at load, `enqueue` in each step. The functions of a kind stand
// in a file of its own; std::visit finds them, so a kind without them does not compile.
#pragma once

#include "runtime/exec/ProductChoices.h"
#include "runtime/exec/Records.h"
#include "runtime/exec/RowKernels.h"

#include <deque>
#include <map>

namespace mgc {

// The kernel or library call of an instruction; empty for a kind that needs neither.
struct PreparedCall {
  plugin::Kernel kernel;                            // row kernels only
  int64_t scalars = 0;                              // number of its scalars
  const plugin::GemmCall *gemm = nullptr;           // matrix products only
  const plugin::AttentionCall *attention = nullptr; // attention only
};

// Library calls of a rank. Equal ones are made once; their addresses stay.
template <typename Call> class CallStore {
public:
  // `make` gives a Result<Call>.
  template <typename Make> Result<const Call *> get(const std::string &key, Make &&make) {
    const Call *&known = byKey_[key];
    if (!known) {
      Result<Call> made = make();
      MGC_TRY(made.status());
      known = &calls_.emplace_back(made.take());
    }
    return known;
  }

private:
  std::deque<Call> calls_;
  std::map<std::string, const Call *> byKey_;
};
struct LibraryCalls {
  CallStore<plugin::GemmCall> gemms;
  CallStore<plugin::AttentionCall> attentions;
};

// Everything that prepare() may ask.
struct Preparation {
  const plan::Plan &plan;
  const RowKernels &kernels;
  const plugin::PluginDevice &device;
  const ProductChoices *choices; // null where the library chooses
  LibraryCalls &calls;
  const ChunkRecord &chunk;
  const InstructionRecord &record;
};

Status prepare(const Preparation &at, const plan::RowKernel &kernel, PreparedCall &to);
Status prepare(const Preparation &at, const plan::Gemm &gemm, PreparedCall &to);
Status prepare(const Preparation &at, const plan::Attention &attention, PreparedCall &to);
inline Status prepare(const Preparation &, const plan::GroupedGemm &, PreparedCall &) { return Status::ok(); }
inline Status prepare(const Preparation &, const plan::GroupRows &, PreparedCall &) { return Status::ok(); }
inline Status prepare(const Preparation &, const plan::DropChoices &, PreparedCall &) { return Status::ok(); }
inline Status prepare(const Preparation &, const plan::ExchangeRows &, PreparedCall &) { return Status::ok(); }
inline Status prepare(const Preparation &, const plan::Collective &, PreparedCall &) { return Status::ok(); }
inline Status prepare(const Preparation &, const plan::Move &, PreparedCall &) { return Status::ok(); }
inline Status prepare(const Preparation &, const plan::HostCopy &, PreparedCall &) { return Status::ok(); }

// The instruction where and when it runs.
struct Enqueueing {
  const PreparedCall &call;
  const InstructionRecord &record;
  std::span<const int64_t> scalars;
  std::span<const mgc_address> operands;
  const plugin::Stream &stream;
  Communicator &communicator;
  bool isOfLane;      // on the thread of a lane, not the rank's own
  bool hasSameCounts; // RowBuffers::sameCounts
};

Status enqueue(const Enqueueing &at, const plan::RowKernel &kernel);
Status enqueue(const Enqueueing &at, const plan::Gemm &gemm);
Status enqueue(const Enqueueing &at, const plan::GroupedGemm &gemm);
Status enqueue(const Enqueueing &at, const plan::GroupRows &what);
Status enqueue(const Enqueueing &at, const plan::DropChoices &what);
Status enqueue(const Enqueueing &at, const plan::ExchangeRows &what);
Status enqueue(const Enqueueing &at, const plan::Attention &attention);
Status enqueue(const Enqueueing &at, const plan::Collective &collective);
Status enqueue(const Enqueueing &at, const plan::Move &move);
Status enqueue(const Enqueueing &at, const plan::HostCopy &copy);

// Kinds whose enqueue may have the host wait for the device: a step that has one is no graph.
template <typename Kind> inline constexpr bool kWaitsForDevice = false;
template <> inline constexpr bool kWaitsForDevice<plan::ExchangeRows> = true; // for its counts: NcclRank
bool waitsForDevice(const plan::Plan &plan);

// All bytes of the facts count.
template <typename Facts> std::string keyOf(const Facts &facts) {
  return std::string(reinterpret_cast<const char *>(&facts), sizeof facts);
}

// The matrix product as the library is asked for it.
mgc_gemm_facts factsOf(const plan::Gemm &gemm, std::span<const OperandRecord> operands);

} // namespace mgc
