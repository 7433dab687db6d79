// Engine: runs a plan, with every rank of the mesh a thread of this process, or with one of them in each of several
// processes.
//   in:  a verified plan, its bundle folder, a device; per step the global batch and the optimizer's scalars
//   out: per step the loss, the tokens counted and the gradient norm; the parameters stay in the ranks'
//   allocations
//
// Loading makes one allocation of exactly StagePlan::bytes per rank. A step allocates nothing
// (gemm aside: oneDNN and runtime/kernels keep scratch memory of their own for each thread).
#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/data/Data.h"
#include "runtime/device/Device.h"
#include "runtime/exec/Bf16Choice.h"
#include "runtime/exec/RankExecutor.h"

#include <array>
#include <chrono>
#include <optional>
#include <span>

namespace mgc {

// Processes that may use the same cores of a machine take parts of them.
struct CoreShare {
  int64_t index = 0, parts = 1;
};

struct EngineOptions {
  int threadsPerRank = 0;                     // 0: the cores this process may use over the ranks, at least 1
  std::chrono::milliseconds timeout{600'000}; // of each wait for another rank
  uint64_t seed = 1234;                       // of dropout
  std::function<Status(const ExecutionPlace &)> inject = nullptr; // see ExecutorOptions
  TimelineOptions timeline = {};
  // The communicator of this process's rank, if ranks are processes; it outlives the engine. Null: all ranks are here.
  Communicator *communicator = nullptr;
  CoreShare cores = {};
  std::optional<Bf16Options> bf16 = {}; // of a plan of bf16 on the CPU; none: as bf16Product() is
};

struct StepResult {
  double loss = 0; // mean over the tokens counted
  double tokens = 0;
  double gradientNorm = 0;
  double hostSeconds = 0; // before the ranks' device had all its work; 0 where they are on the CPU
};

// The ranks' timelines in this process, as EngineOptions::timeline asks. Complete between steps, after an error too.
struct Recording {
  struct Rank {
    const RankRecord *record = nullptr;
    const Timeline *timeline = nullptr;
  };
  std::vector<Rank> ranks;         // none when nothing was asked for
  std::vector<double> stepSeconds; // of the measured steps, the last kMeasuredSteps of them
  double seconds = 0;              // of all measured steps
  int64_t steps = 0;
  void add(double step); // a measured step
};
inline constexpr size_t kMeasuredSteps = 4096;

// Scalars that the update of a step reads: plan::kStepScalars.
using StepScalars = std::array<float, 8>;

// Values that a step leaves in a rank: plan::kResults.
using StepValues = std::array<float, 3>;
StepResult resultOf(const StepValues &values);
// All ranks have the same, to the bit: they come out of sums over all ranks, in one order.
Status verifyAgreement(std::span<const StepValues> ranks);

struct MachineRates; // MachineRates.h

// Bytes of a device's memory. ofPlan: the plan's, for this process's ranks. before: in use when the device was opened,
// by its contexts and by others. beside: in use since then, not the plan's, by libraries, code, graphs or others.
struct DeviceMemory {
  int64_t ofPlan = 0, before = 0, beside = 0;
};

// A part of the ranks' memory that is copied to or from the host.
enum class Part { weights, gradients };

class Engine {
public:
  // The plan must have passed verifyPlan; the device outlives the engine.
  static Result<std::unique_ptr<Engine>> create(plan::Plan plan, const std::string &bundle, Device &device,
                                                EngineOptions options = {});
  virtual ~Engine() = default;
  virtual const plan::Plan &plan() const = 0;
  // By rank; null: not in this process. The ranks' memory, or where that is not the host's, a copy which upload() and
  // download() bring up to date: as it is made, it is zero.
  virtual std::span<std::byte *const> arenas() const = 0;
  virtual Status upload(Part) { return Status::ok(); } // weights: values and masters; moments become zero
  virtual Status download(Part) { return Status::ok(); }
  virtual int threadsPerRank() const = 0;        // of the host
  virtual std::string whereRanksAre() const = 0; // for people: "2 threads each", "sharing device 0, .."
  virtual std::vector<std::string> notes() const { return {}; } // of loading, for people
  virtual std::optional<DeviceMemory> deviceMemory() const {
    return std::nullopt;
  } // now; nothing: the host's
  virtual const Recording &recording() const = 0;
  virtual Result<MachineRates> measureRates() = 0;

  // Calls work(rank) for every rank of this process on the rank's own thread, and returns when all are done. Between
  // steps only.
  virtual void onRanks(const std::function<void(int64_t rank)> &work) = 0;
  // The greatest of the numbers that the processes give. All must call it, between steps.
  virtual Result<int32_t> greatest(int32_t own) = 0;

  // One training step. `step` counts from 0 and names the global samples (step * globalBatchSize + i).
  // beforeUpdate, if given, is called once in each process, on some thread, when all ranks have complete gradients and
  // none updates yet; arenas() have the gradients then. After an error the engine runs no more steps; the error is the
  // root cause, with its place.
  virtual Result<StepResult> step(int64_t step, const GlobalBatch &batch, const StepScalars &scalars,
                                  const std::function<Status()> &beforeUpdate = nullptr) = 0;
  // Where the host would only wait while the ranks work, step() asks for the batch of the step after it; null: there is
  // none.
  using NextBatch = std::function<const GlobalBatch *(int64_t step)>;
  virtual void readAhead(NextBatch) {}
  // The results of the step that runs, for use in beforeUpdate; tokens are complete then.
  virtual StepResult results() const = 0;
  // Makes the step that runs end with this error. From any thread.
  virtual void abort(const Status &cause) = 0;
};

} // namespace mgc
