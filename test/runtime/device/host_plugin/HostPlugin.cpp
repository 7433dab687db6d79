// The C ABI of runtime/device/DeviceApi.h on the host. "PTX" is a shared object of row kernels as the CPU has them;
// products and attention are those of runtime/kernels: the same plan gives the bits that it gives on the CPU.
#include "plan/Plan.h"
#include "plan/instructions/RowErrors.h"
#include "plan/targets/AttentionWorkspace.h"
#include "runtime/comm/RowExchange.h"
#include "runtime/device/CallFacts.h"
#include "runtime/device/KernelNeeds.h"
#include "runtime/kernels/CpuAttention.h"
#include "runtime/kernels/CpuGemm.h"
#include "runtime/kernels/DropChoices.h"
#include "runtime/kernels/GroupRows.h"
#include "runtime/kernels/GroupedGemm.h"
#include "test/runtime/device/host_plugin/HostComm.h"

#include <array>
#include <bit>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace mgc;
using namespace mgc::test;

struct mgc_device : HostDevice {};
struct mgc_stream : HostStream {
  using HostStream::HostStream;
};
struct mgc_event : HostEvent {};
struct mgc_graph {
  std::unique_ptr<HostGraph> graph;
};
struct mgc_comm : HostComm {
  using HostComm::HostComm;
};
struct mgc_gemm {
  mgc_gemm_facts facts;
};
struct mgc_attention {
  plan::Attention plan;
};
struct mgc_kernel {
  std::string symbol;
  RowFunction function = nullptr;
  KernelNeeds needs;
  std::atomic<int64_t> calls{0};
};
struct mgc_module {
  void *handle = nullptr;
  std::map<std::string, mgc_kernel> kernels;
};

namespace {

int report(const Status &status, mgc_error *error) {
  if (status.isOk())
    return 0;
  std::snprintf(error->text, sizeof error->text, "%s", status.message().c_str());
  return -1;
}

template <typename T, typename To> int give(Result<T> result, To *to, mgc_error *error) {
  if (result.isOk())
    *to = result.take();
  return report(result.status(), error);
}

// Enqueues the work.
int submit(mgc_stream *stream, mgc_error *error, Work work) { return report(stream->submit(std::move(work)), error); }

// Where the operands lie, of so many bytes each.
Result<std::vector<std::byte *>> dataOf(mgc_stream *stream,
                                        const std::vector<std::pair<mgc_address, int64_t>> &operands) {
  std::vector<std::byte *> data;
  for (const auto &[address, bytes] : operands) {
    MGC_ASSIGN(operand, stream->device().at(address, bytes));
    data.push_back(reinterpret_cast<std::byte *>(operand));
  }
  return data;
}
int32_t *numbersAt(std::byte *data) { return reinterpret_cast<int32_t *>(data); }

// --- The device and its memory

int describe(mgc_device *device, mgc_device_facts *facts, mgc_error *) {
  *facts = {};
  std::snprintf(facts->name, sizeof facts->name, "stand-in on the host");
  facts->capability = controls().computeCapability;
  facts->multiprocessors = 1;
  facts->total_bytes = controls().totalBytes;
  facts->free_bytes = device->freeBytes();
  std::snprintf(facts->versions, sizeof facts->versions, "none");
  std::snprintf(facts->products, sizeof facts->products, "products of the host");
  return 0;
}

int open(int32_t ordinal, int32_t /*deterministic*/, mgc_device **device, mgc_error *error) {
  if (ordinal < 0 || ordinal >= controls().devices)
    return report(errorf("device {}: this machine has {}", ordinal, controls().devices), error);
  *device = new mgc_device;
  return 0;
}

// --- Streams, copies, fills

int milliseconds(mgc_event *begin, mgc_event *end, double *value, mgc_error *error) {
  for (const mgc_event *event : {begin, end})
    if (!event->last || !event->last->isSet())
      return report(errorf("an event that is not done has no time"), error);
  *value = std::chrono::duration<double, std::milli>(end->last->time() - begin->last->time()).count();
  return 0;
}

Work copyWork(mgc_stream *stream, mgc_address to, int64_t toPitch, mgc_address from, int64_t fromPitch, int64_t bytes,
              int64_t rows) {
  return [=]() -> Status {
    for (int64_t row = 0; row < rows; ++row) {
      MGC_ASSIGN(target, stream->device().at(to + uint64_t(row * toPitch), bytes));
      MGC_ASSIGN(source, stream->device().at(from + uint64_t(row * fromPitch), bytes));
      if (bytes > 0)
        std::memmove(target, source, size_t(bytes));
    }
    return Status::ok();
  };
}

int copyIn(mgc_stream *stream, mgc_address to, const void *from, int64_t bytes, mgc_error *error) {
  return submit(stream, error, [=]() -> Status {
    MGC_TRY(stream->device().checkPinned(from, bytes));
    MGC_ASSIGN(target, stream->device().at(to, bytes));
    std::memcpy(target, from, size_t(bytes));
    return Status::ok();
  });
}

int copyOut(mgc_stream *stream, void *to, mgc_address from, int64_t bytes, mgc_error *error) {
  return submit(stream, error, [=]() -> Status {
    MGC_TRY(stream->device().checkPinned(to, bytes));
    MGC_ASSIGN(source, stream->device().at(from, bytes));
    std::memcpy(to, source, size_t(bytes));
    return Status::ok();
  });
}

int fill(mgc_stream *stream, mgc_address to, uint8_t byte, int64_t bytes, mgc_error *error) {
  return submit(stream, error, [=]() -> Status {
    MGC_ASSIGN(target, stream->device().at(to, bytes));
    if (bytes > 0)
      std::memset(target, byte, size_t(bytes));
    return Status::ok();
  });
}

int mark(mgc_stream *stream, uint32_t *host, uint32_t value, mgc_error *error) {
  return submit(stream, error, [=]() -> Status {
    MGC_TRY(stream->device().checkPinned(host, sizeof value));
    std::atomic_ref<uint32_t>(*host).store(value);
    return Status::ok();
  });
}

// --- Row kernels

int loadModule(mgc_device *, const char *, const char *text, int64_t bytes, mgc_module **module, mgc_error *error) {
  const int file = memfd_create("row kernels", MFD_CLOEXEC);
  if (file < 0 || ::write(file, text, size_t(bytes)) != bytes)
    return report(errorf("no memory for a module of {} bytes", bytes), error);
  void *handle = dlopen(fmt::format("/proc/self/fd/{}", file).c_str(), RTLD_NOW | RTLD_LOCAL);
  ::close(file);
  if (!handle)
    return report(errorf("the module cannot be loaded: {}", dlerror()), error);
  *module = new mgc_module{handle, {}};
  return 0;
}

void dropModule(mgc_module *module) {
  dlclose(module->handle);
  delete module;
}

const int64_t *arrayOf(mgc_module *module, const std::string &symbol) {
  return static_cast<const int64_t *>(dlsym(module->handle, symbol.c_str()));
}

// A kernel on the host has needs, and no launch: one block of one thread does all.
int readArray(mgc_module *module, const char *symbol, int64_t *values, int64_t capacity, int64_t *count,
              mgc_error *error) {
  std::vector<int64_t> found;
  const std::string name = symbol;
  if (name.ends_with("_launch") && dlsym(module->handle, name.substr(0, name.size() - 7).c_str()))
    found = {1, 1, 0};
  else if (const int64_t *needs = arrayOf(module, name))
    found.assign(needs, needs + needsSize(needs[2]));
  else
    return *count = -1, 0;
  *count = int64_t(found.size());
  std::copy_n(found.begin(), std::min(*count, capacity), values);
  return 0;
}

int findKernel(mgc_module *module, const char *symbol, mgc_kernel **kernel, mgc_error *error) {
  auto *function = reinterpret_cast<RowFunction>(dlsym(module->handle, symbol));
  const int64_t *needs = arrayOf(module, std::string(symbol) + "_needs");
  if (!function || !needs)
    return report(errorf("no kernel '{}' in the module", symbol), error);
  mgc_kernel &found = module->kernels[symbol];
  found.symbol = symbol;
  found.function = function;
  if (std::optional<KernelNeeds> known = needsIn({needs, size_t(needsSize(needs[2]))}))
    found.needs = *std::move(known);
  else
    return report(errorf("'{}_needs' is no list of needs", symbol), error);
  *kernel = &found;
  return 0;
}

bool hangs(const mgc_kernel &kernel) {
  const std::lock_guard lock(controls().mutex);
  return kernel.symbol == controls().hangingKernel;
}

Status faultOf(mgc_kernel *kernel) {
  if (hangs(*kernel))
    while (!controls().released)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const std::lock_guard lock(controls().mutex);
  if (kernel->symbol != controls().faultyKernel)
    return Status::ok();
  return kernel->calls++ == controls().faultyCall ? errorf("an illegal memory access") : Status::ok();
}

// From an operand's address to the end of its last row.
int64_t spanOf(const plan::RowKernel::Operand &operand) {
  return plan::OperandInfo{"", operand.bytes, operand.use, operand.rowBytes, operand.rowStride}.span().value();
}

int launch(mgc_stream *stream, mgc_kernel *kernel, int64_t, int64_t, int64_t, const mgc_address *operands,
           int64_t operandCount, const int64_t *scalars, int64_t scalarCount, mgc_error *error) {
  const std::vector<mgc_address> addresses(operands, operands + operandCount);
  const std::vector<int64_t> values(scalars, scalars + scalarCount);
  return submit(stream, error, [=]() -> Status {
    MGC_TRY(faultOf(kernel));
    std::vector<void *> pointers;
    for (size_t i = 0; i < addresses.size(); ++i) {
      MGC_ASSIGN(pointer, stream->device().at(addresses[i], spanOf(kernel->needs.operands[i])));
      pointers.push_back(pointer);
    }
    kernel->function(pointers.data(), values.data(), 0, kernel->needs.range);
    return Status::ok();
  });
}

// --- Library calls

// Room for the operands, which it overwrites; the answer is the test's.
int chooseGemm(mgc_stream *stream, const mgc_gemm_facts *facts, mgc_address room, int64_t *roomNeeded,
               int64_t *algorithm, mgc_error *error) {
  const int64_t input = bytesOf(facts->input), output = bytesOf(facts->output);
  const int64_t biases = facts->epilogue == MGC_NO_EPILOGUE ? 0 : facts->n;
  const int64_t bytes = (facts->m + facts->n) * facts->k * input + (facts->m * facts->n + biases) * output;
  *roomNeeded = bytes + controls().choosingBytes;
  *algorithm = 0;
  if (room == 0)
    return 0;
  ++controls().choices;
  *algorithm = controls().fastestAlgorithm;
  return submit(stream, error, [=]() -> Status {
    MGC_ASSIGN(memory, stream->device().at(room, bytes));
    std::memset(memory, 0xFF, size_t(bytes));
    return Status::ok();
  });
}

int makeGemm(mgc_device *, const mgc_gemm_facts *facts, mgc_gemm **gemm, mgc_error *error) {
  if (facts->algorithm >= controls().algorithms)
    return report(errorf("algorithm {} of {}", facts->algorithm, controls().algorithms), error);
  controls().otherAlgorithms += facts->algorithm != 0;
  *gemm = new mgc_gemm{*facts};
  return 0;
}

Status checkAlignment(const mgc_gemm_facts &facts, std::initializer_list<mgc_address> operands) {
  for (mgc_address operand : operands)
    if (operand % uint64_t(facts.alignment) != 0)
      return errorf("an operand of a product at {:#x}, expected a multiple of {}", operand, facts.alignment);
  return Status::ok();
}

// Applies the epilogue to the sums in C, in f32 alone.
Status runEpilogue(mgc_stream *stream, const mgc_gemm_facts &facts, const mgc_gemm_operands &operands, float *c) {
  if (facts.epilogue == MGC_NO_EPILOGUE)
    return Status::ok();
  MGC_ASSIGN(bias, stream->device().at(operands.bias, facts.n * 4));
  for (int64_t i = 0; i < facts.m * facts.n; ++i)
    c[i] += reinterpret_cast<const float *>(bias)[i % facts.n];
  return Status::ok();
}

int runGemm(mgc_stream *stream, mgc_gemm *gemm, const mgc_gemm_operands *operands, mgc_error *error) {
  return submit(stream, error, [stream, facts = gemm->facts, at = *operands]() -> Status {
    MGC_TRY(checkAlignment(facts, {at.a, at.b, at.bias, at.c}));
    const int64_t input = bytesOf(facts.input), output = bytesOf(facts.output);
    MGC_ASSIGN(first, stream->device().at(at.a, facts.m * facts.k * input));
    MGC_ASSIGN(second, stream->device().at(at.b, facts.k * facts.n * input));
    MGC_ASSIGN(third, stream->device().at(at.c, facts.m * facts.n * output));
    if (at.workspace != 0)
      MGC_TRY(stream->device().at(at.workspace, facts.workspace_bytes).status());
    mgc::gemm(planOf(facts), reinterpret_cast<const float *>(first), reinterpret_cast<const float *>(second),
              reinterpret_cast<float *>(third), 1);
    return runEpilogue(stream, facts, at, reinterpret_cast<float *>(third));
  });
}

int runGroupedGemm(mgc_stream *stream, const mgc_grouped_gemm_facts *facts, const mgc_grouped_gemm_operands *operands,
                   mgc_error *error) {
  return submit(stream, error, [stream, facts = *facts, at = *operands]() -> Status {
    const plan::GroupedGemm gemm = planOf(facts);
    const std::vector<plan::OperandInfo> infos = gemm.operands({});
    MGC_ASSIGN(data, dataOf(stream, {{at.a, *infos[0].bytes},
                                     {at.b, *infos[1].bytes},
                                     {at.counts, *infos[2].bytes},
                                     {at.c, *infos[3].bytes}}));
    return groupedGemm(gemm, data[0], data[1], numbersAt(data[2]), data[3], 1);
  });
}

int runGroupRows(mgc_stream *stream, const mgc_group_rows_facts *facts, const mgc_group_rows_operands *operands,
                 mgc_error *error) {
  return submit(stream, error, [=, what = *facts, at = *operands]() -> Status {
    MGC_ASSIGN(data, dataOf(stream, {{at.numbers, 4 * what.rows},
                                     {at.counts, 4 * what.groups},
                                     {at.places, 4 * what.rows},
                                     {at.sources, 4 * what.places}}));
    return groupRows({.groups = what.groups, .rows = what.rows, .places = what.places}, {what.first, what.all},
                     numbersAt(data[0]), numbersAt(data[1]), numbersAt(data[2]), numbersAt(data[3]));
  });
}

int runDropChoices(mgc_stream *stream, const mgc_drop_choices_facts *facts, const mgc_drop_choices_operands *operands,
                   mgc_error *error) {
  return submit(stream, error, [=, what = planOf(*facts), at = *operands]() -> Status {
    const std::array<mgc_address, 5> addresses = {at.experts, at.weights, at.positions, at.kept, at.workspace};
    const plan::OperandInfos infos = what.operands({});
    std::vector<std::pair<mgc_address, int64_t>> operandsAt;
    for (size_t i = 0; i < infos.size(); ++i)
      operandsAt.emplace_back(addresses[i], *infos[i].bytes);
    MGC_ASSIGN(data, dataOf(stream, operandsAt));
    return dropChoices(what, numbersAt(data[0]), reinterpret_cast<const float *>(data[1]), numbersAt(data[2]),
                       numbersAt(data[3]), numbersAt(data[4]));
  });
}

// By RowExchange, of which the communicators' own tests say that it is right.
int runExchangeRows(mgc_stream *stream, const mgc_exchange_rows_facts *facts,
                    const mgc_exchange_rows_operands *operands, mgc_error *error) {
  const std::vector<mgc_address> sources(operands->sources, operands->sources + facts->ranks);
  const std::vector<int64_t> names(operands->names, operands->names + facts->ranks);
  return submit(stream, error, [=, f = *facts, at = *operands]() -> Status {
    const int64_t rowBytes = f.width * bytesOf(f.type), numbers = f.ranks * f.ranks * f.groups;
    const int64_t given = f.back ? f.places : f.rows, room = f.back ? f.rows : f.places;
    MGC_ASSIGN(counts, stream->device().at(at.counts, numbers * 4));
    MGC_ASSIGN(others, stream->device().at(at.other_counts, numbers * 4));
    if (std::memcmp(counts, others, size_t(numbers * 4)) != 0)
      return plan::otherCounts(names[f.index], names[(f.index + f.ranks - 1) % f.ranks]);
    RowExchange rows;
    MGC_TRY(rows.read({.groups = f.groups, .rows = f.rows, .places = f.places, .width = f.width}, names,
                      reinterpret_cast<const int32_t *>(counts)));
    MGC_ASSIGN(to, stream->device().at(at.destination, room * rowBytes));
    for (int64_t peer = 0; peer < f.ranks; ++peer) {
      MGC_ASSIGN(from, stream->device().at(sources[peer], given * rowBytes));
      for (int64_t group = 0; group < f.groups; ++group) {
        const RowExchange::Piece &piece = f.back ? rows.piece(f.index, peer, group) : rows.piece(peer, f.index, group);
        const int64_t own = piece.own * rowBytes, there = piece.there * rowBytes;
        std::memcpy(to + (f.back ? own : there), from + (f.back ? there : own), size_t(piece.count * rowBytes));
      }
    }
    return Status::ok();
  });
}

int makeAttention(mgc_device *, const mgc_attention_facts *facts, mgc_attention **attention, mgc_error *error) {
  if (const int64_t needed = attentionWorkspaceBytes(planOf(*facts)); facts->workspace_bytes < needed)
    return report(errorf("the workspace has {} bytes, expected at least {}", facts->workspace_bytes, needed), error);
  *attention = new mgc_attention{planOf(*facts)};
  return 0;
}

// The beginnings of operands are checked; how far they go, attention itself knows.
int runAttention(mgc_stream *stream, mgc_attention *attention, const mgc_attention_operands *operands,
                 mgc_error *error) {
  return submit(stream, error, [stream, call = attention->plan, from = *operands]() -> Status {
    auto addresses = std::bit_cast<std::array<mgc_address, sizeof from / sizeof(mgc_address)>>(from);
    for (mgc_address &address : addresses)
      if (const bool isWorkspace = &address == &addresses.back(); isWorkspace || address != 0) {
        MGC_ASSIGN(data, stream->device().at(address, isWorkspace ? call.workspaceBytes : 4));
        address = reinterpret_cast<mgc_address>(data);
      }
    mgc::attention(call, std::bit_cast<AttentionOperands>(addresses), 1);
    return Status::ok();
  });
}

int combine(mgc_stream *stream, mgc_reduce kind, mgc_type type, mgc_address to, const mgc_address *sources,
            int64_t count, int64_t elements, mgc_error *error) {
  const std::vector<mgc_address> addresses(sources, sources + count);
  return submit(stream, error, [=]() -> Status {
    const int64_t bytes = elements * bytesOf(type);
    MGC_ASSIGN(target, stream->device().at(to, bytes));
    std::vector<const std::byte *> pointers;
    for (mgc_address address : addresses) {
      MGC_ASSIGN(pointer, stream->device().at(address, bytes));
      pointers.push_back(pointer);
    }
    return reduce(kind, type, target, pointers, elements);
  });
}

const mgc_device_api_table kTable = {
    .version = MGC_DEVICE_API_VERSION,
    .count = [](int32_t *devices, mgc_error *) { return *devices = controls().devices, 0; },
    .open = open,
    .close = [](mgc_device *device) { delete device; },
    .describe = describe,
    .check = [](mgc_device *device, mgc_error *error) { return report(device->check(), error); },
    .allocate = [](mgc_device *device, int64_t bytes, mgc_address *to,
                   mgc_error *error) { return give(device->allocate(bytes), to, error); },
    .release = [](mgc_device *device, mgc_address address) { device->release(address); },
    .allocate_host = [](mgc_device *device, int64_t bytes, void **to,
                        mgc_error *error) { return give(device->allocateHost(bytes), to, error); },
    .release_host = [](mgc_device *device, void *data) { device->releaseHost(data); },
    .pin = [](mgc_device *device, void *data, int64_t bytes, mgc_error *) { return device->pin(data, bytes), 0; },
    .unpin = [](mgc_device *device, void *data) { device->unpin(data); },
    .make_stream = [](mgc_device *device, int32_t, mgc_stream **stream,
                      mgc_error *) { return *stream = new mgc_stream(*device), 0; },
    .drop_stream = [](mgc_stream *stream) { delete stream; },
    .make_event = [](mgc_device *, int32_t, mgc_event **event, mgc_error *) { return *event = new mgc_event, 0; },
    .drop_event = [](mgc_event *event) { delete event; },
    .record = [](mgc_stream *stream, mgc_event *event,
                 mgc_error *error) { return report(stream->record(*event), error); },
    .wait = [](mgc_stream *stream, mgc_event *event, mgc_error *error) { return report(stream->wait(*event), error); },
    .query = [](mgc_event *event, int32_t *done,
                mgc_error *) { return *done = !event->last || event->last->isSet(), 0; },
    .milliseconds = milliseconds,
    .synchronize = [](mgc_stream *stream, int64_t timeout,
                      mgc_error *error) { return report(stream->synchronize(timeout), error); },
    .mark = mark,
    .copy_in = copyIn,
    .copy_out = copyOut,
    .copy = [](mgc_stream *stream, mgc_address to, mgc_address from, int64_t bytes,
               mgc_error *error) { return report(stream->submit(copyWork(stream, to, 0, from, 0, bytes, 1)), error); },
    .copy_rows =
        [](mgc_stream *stream, mgc_address to, int64_t toPitch, mgc_address from, int64_t fromPitch, int64_t bytes,
           int64_t rows, mgc_error *error) {
          return report(stream->submit(copyWork(stream, to, toPitch, from, fromPitch, bytes, rows)), error);
        },
    .fill = fill,
    .load_module = loadModule,
    .drop_module = dropModule,
    .find_kernel = findKernel,
    .read_array = readArray,
    .launch = launch,
    .choose_gemm = chooseGemm,
    .make_gemm = makeGemm,
    .drop_gemm = [](mgc_gemm *gemm) { delete gemm; },
    .run_gemm = runGemm,
    .run_grouped_gemm = runGroupedGemm,
    .run_group_rows = runGroupRows,
    .run_drop_choices = runDropChoices,
    .run_exchange_rows = runExchangeRows,
    .make_attention = makeAttention,
    .drop_attention = [](mgc_attention *attention) { delete attention; },
    .run_attention = runAttention,
    .combine = combine,
    .begin_capture = [](mgc_stream *stream, mgc_error *error) { return report(stream->beginCapture(), error); },
    .end_capture =
        [](mgc_stream *stream, mgc_graph **graph, mgc_error *error) {
          auto ended = stream->endCapture();
          if (ended.isOk())
            *graph = new mgc_graph{ended.take()};
          return report(ended.status(), error);
        },
    .drop_graph = [](mgc_graph *graph) { delete graph; },
    .launch_graph = [](mgc_stream *stream, mgc_graph *graph,
                       mgc_error *error) { return report(stream->launch(*graph->graph), error); },
    .make_comm_id = [](mgc_device *, mgc_comm_id *id, mgc_error *error) { return give(HostComm::makeId(), id, error); },
    .make_comm = [](mgc_device *device, const mgc_comm_id *id, int64_t ranks, int64_t rank, const mgc_patience *,
                    mgc_comm **comm, mgc_error *) { return *comm = new mgc_comm(*device, *id, ranks, rank), 0; },
    .drop_comm = [](mgc_comm *comm) { delete comm; },
    .abort_comms =
        [](mgc_comm *const *comms, int64_t count) {
          for (int64_t i = 0; i < count; ++i)
            comms[i]->abort();
        },
    .check_comm = [](mgc_comm *comm, mgc_error *error) { return report(comm->check(), error); },
    .all_reduce =
        [](mgc_stream *stream, mgc_comm *comm, mgc_reduce reduce, mgc_type type, mgc_address to, mgc_address from,
           int64_t elements,
           mgc_error *error) { return report(comm->allReduce(*stream, reduce, type, to, from, elements), error); },
    .all_gather = [](mgc_stream *stream, mgc_comm *comm, mgc_type type, mgc_address to, mgc_address from,
                     int64_t elements,
                     mgc_error *error) { return report(comm->allGather(*stream, type, to, from, elements), error); },
    .reduce_scatter =
        [](mgc_stream *stream, mgc_comm *comm, mgc_reduce reduce, mgc_type type, mgc_address to, mgc_address from,
           int64_t elements,
           mgc_error *error) { return report(comm->reduceScatter(*stream, reduce, type, to, from, elements), error); },
    .send = [](mgc_stream *stream, mgc_comm *comm, mgc_address from, int64_t bytes, int64_t peer,
               mgc_error *error) { return report(comm->send(*stream, from, bytes, peer), error); },
    .receive = [](mgc_stream *stream, mgc_comm *comm, mgc_address to, int64_t bytes, int64_t peer,
                  mgc_error *error) { return report(comm->receive(*stream, to, bytes, peer), error); },
    .begin_group = [](mgc_device *, mgc_error *error) { return report(HostComm::beginGroup(), error); },
    .end_group = [](mgc_device *, mgc_error *error) { return report(HostComm::endGroup(), error); },
};

} // namespace

extern "C" {
__attribute__((visibility("default"))) const mgc_device_api_table *mgc_device_api() { return &kTable; }
__attribute__((visibility("default"))) HostPluginControls *mgc_host_plugin_controls() { return &controls(); }
}
