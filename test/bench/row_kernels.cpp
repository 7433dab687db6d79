// Every distinct row kernel that the first rank of a plan runs, against memory bandwidth.
//
//   row_kernels [--threads N] [--only TEXT] PLAN_FOLDER...        TEXT: a part of the kernels' labels
//
// Kernels run with their real sizes on the operands that the plan gives them, out of cache: before each call as much
// other memory is read as the last-level cache holds twice. GB/s counts each byte that a kernel must read or write
// once. The bandwidth next to it is that of the STREAM benchmark's a[i] = s * b[i] over as many bytes, out of cache as
// well, on the same threads, timed alternately with the kernel; the fraction is of the best times. Processors read a
// line before they write it: a kernel that works in place has that for nothing and is held against a[i] = s * a[i].
// Kernels of less than 1 MB are left out.
#include "plan/json/PlanJson.h"
#include "plan/prove/VerifyPlan.h"
#include "runtime/comm/thread/ThreadWorld.h"
#include "runtime/data/Inputs.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/exec/Resolve.h"
#include "runtime/exec/RowKernels.h"
#include "runtime/kernels/Parallel.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <set>
#include <thread>
#include <unistd.h>

using namespace mgc;

namespace {

constexpr double kLeastBytes = 1e6;
constexpr int kRounds = 9;

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Work on [begin, end) of a range, by all threads.
template <typename Body> void onThreads(int threads, int64_t range, const Body &body) {
  const int64_t parts = std::min<int64_t>(threads, range);
  parallelFor(threads, parts, parts,
              [&](int64_t part, int64_t) { body(range * part / parts, range * (part + 1) / parts); });
}

std::byte *dataOf(const plugin::DeviceBuffer &buffer) { return reinterpret_cast<std::byte *>(buffer.address()); }

class Memory {
public:
  explicit Memory(int threads)
      : threads_(threads), other_(2 * std::max<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE), 32 << 20) / 4, 1.0f) {}

  void leaveCache() {
    onThreads(threads_, int64_t(other_.size()), [&](int64_t begin, int64_t end) {
      float sum = 0;
      for (int64_t i = begin; i < end; i += 16) // one of each line
        sum += other_[i];
      sink_ = sum;
    });
  }

  // The time of a[i] = s * b[i] that reads and writes `bytes` bytes together; in place b is a.
  double streamSeconds(double bytes, bool inPlace) {
    const auto count = int64_t(bytes / 8);
    if (operands_.bytes() < count * 8) {
      operands_ = device_.allocate(count * 8).take();
      std::memset(dataOf(operands_), 0, operands_.bytes());
    }
    leaveCache();
    const double start = seconds();
    onThreads(threads_, count, [&](int64_t begin, int64_t end) {
      auto *a = reinterpret_cast<float *>(dataOf(operands_));
      const float *b = inPlace ? a : a + count;
      for (int64_t i = begin; i < end; ++i)
        a[i] = 3.0f * b[i];
    });
    return seconds() - start;
  }

private:
  int threads_;
  std::vector<float> other_;
  plugin::PluginDevice device_ = openCpuDevice();
  plugin::DeviceBuffer operands_; // a and b, in memory as a rank has it
  volatile float sink_ = 0;
};

struct Kernel {
  RowFunction function = nullptr;
  const plan::RowKernel *row = nullptr;
  std::string label;
  std::vector<void *> operands;
  const int64_t *scalars = nullptr;
  bool isInPlace() const { // some result where an operand is
    return std::set<void *>(operands.begin(), operands.end()).size() < operands.size();
  }
};

// A plan, the allocation of its first rank filled with numbers, and the kernels that the rank runs.
class Rank {
public:
  static Result<std::unique_ptr<Rank>> load(const std::string &folder) {
    auto rank = std::make_unique<Rank>();
    MGC_ASSIGN(plan, plan::readPlan(folder));
    rank->plan_ = std::move(plan);
    MGC_TRY(plan::verifyPlan(rank->plan_));
    MGC_ASSIGN(kernels, RowKernels::load(rank->plan_, folder, rank->device_));
    rank->kernels_ = std::move(kernels);
    rank->world_ = std::make_unique<ThreadWorld>(rank->plan_.mesh.worldSize());
    MGC_SET(rank->record_, resolveRank(rank->plan_, 1, rank->world_->communicator(0)));
    MGC_SET(rank->buffer_, rank->device_.allocate(rank->record_.stage->bytes));
    MGC_TRY(rank->fill());
    return rank;
  }

  std::vector<Kernel> kernels() const {
    std::map<RowFunction, const plan::RowKernel *> rows;
    for (const plan::Program &program : plan_.programs)
      for (const plan::Instruction &instruction : program.instructions)
        if (const auto *row = std::get_if<plan::RowKernel>(&instruction.body))
          rows[functionOf(*row)] = row;
    std::vector<Kernel> kernels;
    for (const StepRecord &step : record_.schedule)
      if (step.step.kind == plan::ExpandedStep::Kind::run)
        addKernels(step.step, rows, kernels);
    return kernels;
  }

private:
  RowFunction functionOf(const plan::RowKernel &row) const {
    return reinterpret_cast<RowFunction>(kernels_->kernel(row).raw);
  }
  // Takes kernels out of `rows` that it adds.
  void addKernels(const plan::ExpandedStep &step, std::map<RowFunction, const plan::RowKernel *> &rows,
                  std::vector<Kernel> &kernels) const {
    const ChunkRecord &chunk = record_.chunks[step.chunk];
    for (const InstructionRecord &instruction : chunk.instructions) {
      const auto *row = std::get_if<plan::RowKernel>(&instruction.instruction->body);
      const auto found = row ? rows.find(functionOf(*row)) : rows.end();
      if (found == rows.end())
        continue;
      Kernel kernel{
          functionOf(*row), found->second, instruction.instruction->label, {}, chunk.scalarsOf(instruction).data()};
      for (int64_t i = 0; i < instruction.operandCount; ++i) {
        const OperandRecord &operand = chunk.operands[instruction.firstOperand + i];
        kernel.operands.push_back(dataOf(buffer_) + (operand.slot ? step.slots[operand.slot - 1] : 0) + operand.offset);
      }
      kernels.push_back(std::move(kernel));
      rows.erase(found);
    }
  }

  // Numbers near 1, which no kernel turns into NaN or subnormals; tokens and labels all over the vocabulary.
  Status fill() {
    auto *floats = reinterpret_cast<float *>(dataOf(buffer_));
    uint32_t state = 1;
    for (int64_t i = 0; i < buffer_.bytes() / 4; ++i)
      floats[i] = 0.5f + float((state = state * 1664525u + 1013904223u) >> 9) * 0x1p-23f;
    MGC_ASSIGN(batch, GlobalBatch::create(plan_));
    for (std::vector<int32_t> *ids : {&batch.tokens, &batch.labels})
      for (int32_t &id : *ids)
        id = int32_t((state = state * 1664525u + 1013904223u) % uint64_t(plan_.vocabulary));
    for (const InputRecord &input : resolveInputs(plan_, 0))
      writeInput(input, plan_, batch, dataOf(buffer_));
    return Status::ok();
  }

  plan::Plan plan_;
  plugin::PluginDevice device_ = openCpuDevice();
  std::unique_ptr<RowKernels> kernels_;
  std::unique_ptr<ThreadWorld> world_;
  RankRecord record_;
  plugin::DeviceBuffer buffer_;
};

void measure(const Kernel &kernel, Memory &memory, int threads) {
  double best = 1e9, bestStream = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    memory.leaveCache();
    const double start = seconds();
    onThreads(threads, kernel.row->range,
              [&](int64_t begin, int64_t end) { kernel.function(kernel.operands.data(), kernel.scalars, begin, end); });
    best = std::min(best, seconds() - start);
    bestStream = std::min(bestStream, memory.streamSeconds(kernel.row->bytes, kernel.isInPlace()));
  }
  const double bytes = kernel.row->bytes;
  fmt::print("{:8.2f} {:8.3f} {:8.2f} {:8.2f} {:8.2f}  {}{}\n", bytes * 1e-6, best * 1e3, bytes / best * 1e-9,
             bytes / bestStream * 1e-9, bestStream / best, kernel.label, kernel.isInPlace() ? " (in place)" : "");
  std::fflush(stdout);
}

Status measurePlan(const std::string &folder, Memory &memory, int threads, const std::string &only) {
  MGC_ASSIGN(rank, Rank::load(folder));
  fmt::print("{}\n{:>8} {:>8} {:>8} {:>8} {:>8}  kernel\n", folder, "MB", "ms", "GB/s", "stream", "fraction");
  size_t small = 0;
  for (const Kernel &kernel : rank->kernels())
    if (kernel.label.find(only) == std::string::npos)
      continue;
    else if (kernel.row->bytes < kLeastBytes)
      ++small;
    else
      measure(kernel, memory, threads);
  fmt::print("{} kernels of less than 1 MB\n", small);
  return Status::ok();
}

} // namespace

int main(int argc, char **argv) {
  std::vector<std::string> folders(argv + 1, argv + argc);
  int threads = int(std::thread::hardware_concurrency());
  std::string only;
  while (folders.size() >= 2 && (folders[0] == "--threads" || folders[0] == "--only")) {
    if (folders[0] == "--threads")
      threads = std::max(1, std::atoi(folders[1].c_str()));
    else
      only = folders[1];
    folders.erase(folders.begin(), folders.begin() + 2);
  }
  if (folders.empty()) {
    fmt::print(stderr, "usage: row_kernels [--threads N] [--only TEXT] PLAN_FOLDER...\n");
    return 2;
  }
  setLibraryThreads(threads);
  Memory memory(threads);
  for (const std::string &folder : folders)
    if (Status status = measurePlan(folder, memory, threads, only); !status.isOk()) {
      fmt::print(stderr, "row_kernels: {}\n", status.message());
      return 1;
    }
}
