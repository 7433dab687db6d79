// Engine: runs a plan, with every rank of the mesh a thread of this process, or with one of them in each of several
// processes; on the CPU, on one device that they share, or on a device for each process. docs/engine.md.
//   in:  a verified plan, its bundle folder; per step the global batch and the optimizer's scalars
//   out: per step the loss, the tokens counted and the gradient norm; the parameters stay in the ranks' memory
//
// Loading makes one allocation of exactly StagePlan::bytes per rank, and room for its inputs of two steps. A step
// allocates nothing (the libraries of matrix products and attention aside, which keep scratch memory of their own for
// each thread).
#pragma once

#include "plan/StepScalars.h"
#include "runtime/comm/Communicator.h"
#include "runtime/comm/nccl/NcclRank.h"
#include "runtime/data/Data.h"
#include "runtime/exec/Bf16Choice.h"
#include "runtime/exec/ExecutionPlace.h"
#include "runtime/exec/Timeline.h"
#include "runtime/random/Seed.h"

#include <array>
#include <chrono>
#include <optional>
#include <span>

namespace mgc {

// Processes that may use the same cores of a machine take parts of them.
struct CoreShare {
  int64_t index = 0, parts = 1;
};

// Options of plans whose target is a device behind a plugin.
struct DeviceOptions {
  std::string plugin; // file; empty: where mgrun is
  int ordinal = 0;
  bool deterministic = true; // equal bits from run to run
  bool graphs = true;        // for one rank per process: replay a step instead of enqueueing it
  bool tuneProducts = false; // measure which algorithm of the device's library is the fastest for each product
  std::string tuneCache;     // file that keeps what was measured; empty: none
  Share share = nullptr;     // between processes, where ranks are processes: EngineOptions::communicator
};

struct EngineOptions {
  int threadsPerRank = 0; // on the host. 0: the cores this process may use over the ranks, at least 1
  // Whether streams of the host run concurrently, by threads of their own. None: where ranks have cores of their own; of ranks
  // that share cores another one takes the time that one waits.
  std::optional<bool> isConcurrent = {};
  std::chrono::milliseconds timeout{600'000};                     // limit of each wait for another rank
  uint64_t seed = kDefaultSeed;                                   // seed of dropout
  std::function<Status(const ExecutionPlace &)> inject = nullptr; // see StreamExecutorOptions
  bool poison = false; // fill the ranks' memory with 0xFF first: every f32 a NaN, every i32 -1
  TimelineOptions timeline = {};
  // The communicator of this process's rank, if ranks are processes, which is one of the hosts; it outlives the engine. Null:
  // all ranks are here.
  Communicator *communicator = nullptr;
  CoreShare cores = {};
  std::optional<Bf16Options> bf16 = {}; // for a plan of bf16 on the CPU; none: as bf16Product() is
  DeviceOptions device = {};
};

struct LossTerm {
  std::string_view name; // name in plan::kResults
  double value = 0;      // its weighted share of the loss
};

struct StepResult {
  double loss = 0; // the differentiated value: the cross-entropy, mean over the tokens counted, and all terms
  double tokens = 0;
  double gradientNorm = 0;
  double hostSeconds = 0; // before the ranks' device had all its work; 0 where they are on the host
  double crossEntropy = 0;
  std::vector<LossTerm> terms = {}; // the plan's other terms
  bool isUpdated = true;            // false: the update was left out, see Accepts
};

// Whether a step with these results, complete but for the update, may update the weights.
using Accepts = std::function<bool(const StepResult &)>;

// The ranks' timelines in this process, as EngineOptions::timeline asks. Complete between steps, after an error too.
struct Recording {
  struct Rank {
    const RankRecord *record = nullptr;
    const Timeline *timeline = nullptr;
  };
  std::vector<Rank> ranks;         // none when nothing was asked for
  std::vector<double> stepSeconds; // times of the last kMeasuredSteps measured steps
  double seconds = 0;              // total of all measured steps
  int64_t steps = 0;
  void add(double step); // a measured step
};
inline constexpr size_t kMeasuredSteps = 4096;

// Scalars that the update of a step reads: plan::kStepScalars.
using StepScalars = std::array<float, plan::kStepScalars.size()>;

// Values that a step leaves in a rank: plan::kResults.
using StepValues = std::array<float, plan::kResults.size()>;
// terms: of the plan, numbers in plan::kResults.
StepResult resultOf(const StepValues &values, std::span<const size_t> terms);
// All ranks have the same, to the bit: they come out of sums over all ranks, in one order.
Status verifyAgreement(std::span<const StepValues> ranks);

struct MachineRates; // MachineRates.h

// Bytes of a device's memory. ofPlan: the plan's, for this process's ranks. before: in use when the device was opened,
// by its contexts and by others. others: in use since then, not the plan's, by libraries, code, graphs or others.
struct DeviceMemory {
  int64_t ofPlan = 0, before = 0, others = 0;
};

// A part of the ranks' memory that is copied to or from the host: weights: values and masters; state: the moments too.
enum class Part { weights, gradients, state };

class Engine {
public:
  // The plan must have passed provePlan: what runs concurrently is in order by its waits alone. Opens the device of its
  // target. Before a device's memory is allocated, what the ranks need is held against what is free (for the host:
  // VerifyMemory.h).
  static Result<std::unique_ptr<Engine>> create(plan::Plan plan, const std::string &bundle, EngineOptions options = {});
  virtual ~Engine() = default;
  virtual const plan::Plan &plan() const = 0;
  // By rank; null: not in this process. The ranks' memory, or where that is not the host's, a copy which upload() and
  // download() bring up to date.
  virtual std::span<std::byte *const> arenas() const = 0;
  virtual bool arenasAreZero() const = 0; // as they are made
  virtual Status upload(Part) = 0;        // weights: moments of a device become zero
  virtual Status download(Part) = 0;
  // The hosts of the processes, between steps; null: all ranks are here. For CPU ranks this is
  // EngineOptions::communicator.
  virtual Communicator *hosts() = 0;
  virtual int threadsPerRank() const = 0;                       // threads on the host
  virtual std::string whereRanksAre() const = 0;                // for people: "2 threads each", "sharing device 0, .."
  virtual std::vector<std::string> notes() const = 0;           // notes of loading, for people
  virtual std::optional<DeviceMemory> deviceMemory() const = 0; // now; nothing: the host's
  virtual const Recording &recording() const = 0;
  virtual Result<MachineRates> measureRates() = 0;

  // Calls work(rank) for every rank of this process on the rank's own thread, and returns when all are done. Between
  // steps only.
  virtual void onRanks(const std::function<void(int64_t rank)> &work) = 0;
  // The greatest of the numbers that the processes give. All must call it, between steps.
  virtual Result<int32_t> greatest(int32_t own) = 0;

  // One training step. `step` counts from 0; the batch says which samples of the training it has.
  // beforeUpdate, if given, is called once in each process, on some thread, when all ranks have complete gradients and
  // none updates yet; arenas() have the gradients then. After an error the engine runs no more steps; the error is the
  // root cause, with its place.
  // accepts, if given, is asked once in each process, after beforeUpdate. Where it refuses in one of them, no rank updates:
  // weights, masters and moments stay as they are. Either makes a device's step one that is enqueued anew, not replayed.
  virtual Result<StepResult> step(int64_t step, const GlobalBatch &batch, const StepScalars &scalars,
                                  const std::function<Status()> &beforeUpdate = nullptr,
                                  const Accepts &accepts = nullptr) = 0;
  // Where the host would only wait while the ranks work, step() asks for the batch of the step after it; null: there is
  // none.
  using NextBatch = std::function<const GlobalBatch *(int64_t step)>;
  virtual void readAhead(NextBatch next) = 0;
  // The results of the step that runs, for use in beforeUpdate; tokens are complete then.
  virtual StepResult results() const = 0;
  // Makes the step that runs end with this error. From any thread.
  virtual void abort(const Status &cause) = 0;
};

} // namespace mgc
