// See CpuDevice.h. The handles of the ABI are pointers to the types of this file.
#include "runtime/device/cpu/CpuDevice.h"

#include "runtime/device/CallFacts.h"
#include "runtime/device/KernelNeeds.h"
#include "runtime/device/PluginEntry.h"
#include "runtime/device/PluginFile.h"
#include "runtime/device/cpu/CpuMemory.h"
#include "runtime/kernels/CpuAttention.h"
#include "runtime/kernels/CpuGemm.h"
#include "runtime/kernels/DropChoices.h"
#include "runtime/kernels/GroupRows.h"
#include "runtime/kernels/GroupedGemm.h"
#include "runtime/kernels/Move.h"
#include "runtime/kernels/Parallel.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <mutex>
#include <tuple>
#include <unordered_map>

namespace mgc {

namespace {

using Clock = std::chrono::steady_clock;

struct CpuDevice {
  CpuDeviceOptions options;
  std::mutex mutex;
  std::unordered_map<mgc_address, int64_t> bytesOf; // sizes of its allocations
};

struct CpuStream {
  int threads = 1;
};

struct CpuEvent {
  Clock::time_point time;
};

struct CpuModule {
  void *library = nullptr;
};

CpuDevice &of(mgc_device *device) { return *reinterpret_cast<CpuDevice *>(device); }
CpuStream &of(mgc_stream *stream) { return *reinterpret_cast<CpuStream *>(stream); }
CpuEvent &of(mgc_event *event) { return *reinterpret_cast<CpuEvent *>(event); }
CpuModule &of(mgc_module *module) { return *reinterpret_cast<CpuModule *>(module); }
plan::Gemm &of(mgc_gemm *gemm) { return *reinterpret_cast<plan::Gemm *>(gemm); }
plan::Attention &of(mgc_attention *attention) { return *reinterpret_cast<plan::Attention *>(attention); }

template <typename T = std::byte> T *at(mgc_address address) { return reinterpret_cast<T *>(address); }

using plugin::entry;
template <auto Function> struct SureEntry;
template <typename... Args, void (*Function)(Args...)> struct SureEntry<Function> {
  static int call(Args... args, mgc_error *) { return Function(args...), 0; }
};
template <auto Function> constexpr auto sureEntry = &SureEntry<Function>::call;

// --- The device and its memory

void describe(mgc_device *device, mgc_device_facts *facts) {
  const std::optional<plan::KernelLevel> level = of(device).options.level;
  *facts = {};
  std::snprintf(facts->name, sizeof facts->name, "CPU");
  facts->capability = level ? static_cast<int32_t>(plan::factsOf(*level).capability) : 0;
  facts->multiprocessors = of(device).options.threads;
  facts->host_memory = 1;
  std::snprintf(facts->versions, sizeof facts->versions, "%s", gemmLibrary().c_str());
}

void check(mgc_device *) {}

Status allocate(mgc_device *device, int64_t bytes, mgc_address *address) {
  MGC_ASSIGN(data, allocateCpuMemory(bytes));
  *address = reinterpret_cast<mgc_address>(data);
  const std::lock_guard lock(of(device).mutex);
  of(device).bytesOf[*address] = bytes;
  return Status::ok();
}

void release(mgc_device *device, mgc_address address) {
  int64_t bytes = 0;
  {
    const std::lock_guard lock(of(device).mutex);
    const auto found = of(device).bytesOf.find(address);
    bytes = found->second;
    of(device).bytesOf.erase(found);
  }
  freeCpuMemory(at(address), bytes);
}

Status allocateHost(mgc_device *device, int64_t bytes, void **data) {
  mgc_address address = 0;
  MGC_TRY(allocate(device, bytes, &address));
  *data = at(address);
  return Status::ok();
}

void releaseHost(mgc_device *device, void *data) { release(device, reinterpret_cast<mgc_address>(data)); }

// --- Streams and events

void makeStream(mgc_device *device, int32_t isHighPriority, mgc_stream **stream) {
  *stream = reinterpret_cast<mgc_stream *>(new CpuStream{isHighPriority ? 1 : of(device).options.threads});
}

void makeEvent(mgc_device *, int32_t, mgc_event **event) { *event = reinterpret_cast<mgc_event *>(new CpuEvent); }

void record(mgc_stream *, mgc_event *event) { of(event).time = Clock::now(); }
void wait(mgc_stream *, mgc_event *) {}
void query(mgc_event *, int32_t *done) { *done = 1; }
void synchronize(mgc_stream *, int64_t) {}
void mark(mgc_stream *, uint32_t *host, uint32_t value) { *host = value; }

void milliseconds(mgc_event *begin, mgc_event *end, double *value) {
  *value = std::chrono::duration<double, std::milli>(of(end).time - of(begin).time).count();
}

// --- Copies and fills

void copyRowsBetween(mgc_stream *stream, mgc_address to, int64_t toPitch, mgc_address from, int64_t fromPitch,
                     int64_t bytes, int64_t rows) {
  copyRows(of(stream).threads, at(to), at(from), {rows, bytes, fromPitch, toPitch});
}

void copy(mgc_stream *stream, mgc_address to, mgc_address from, int64_t bytes) {
  copyRowsBetween(stream, to, bytes, from, bytes, bytes, 1);
}

void copyIn(mgc_stream *stream, mgc_address to, const void *from, int64_t bytes) {
  copy(stream, to, reinterpret_cast<mgc_address>(from), bytes);
}

void copyOut(mgc_stream *stream, void *to, mgc_address from, int64_t bytes) {
  copy(stream, reinterpret_cast<mgc_address>(to), from, bytes);
}

void fill(mgc_stream *stream, mgc_address to, uint8_t byte, int64_t bytes) {
  if (byte == 0)
    fillZero(of(stream).threads, at(to), bytes);
  else
    std::memset(at(to), byte, static_cast<size_t>(bytes));
}

// --- Row kernels: the loader maps the file itself, for debuggers and profilers know it by its path.

Status loadModule(mgc_device *, const char *path, const char *, int64_t, mgc_module **module) {
  MGC_TRY(plugin::verifyWhole(path));
  // An absolute path keeps dlopen from searching the library path for a name without a slash.
  void *library = dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return errorf("cannot be loaded: {}", dlerror());
  *module = reinterpret_cast<mgc_module *>(new CpuModule{library});
  return Status::ok();
}

void dropModule(mgc_module *module) {
  dlclose(of(module).library);
  delete &of(module);
}

Status findKernel(mgc_module *module, const char *symbol, mgc_kernel **kernel) {
  *kernel = static_cast<mgc_kernel *>(dlsym(of(module).library, symbol));
  return *kernel ? Status::ok()
                 : errorf("no kernel '{}' in it; it does not belong to this plan: compile the plan again", symbol);
}

// A kernel is launched as one block of one thread, which has all of its range; the file says nothing of it.
void readArray(mgc_module *module, const char *symbol, int64_t *values, int64_t capacity, int64_t *count) {
  constexpr std::array<int64_t, 3> kLaunch = {1, 1, 0};
  std::span<const int64_t> found;
  if (std::string_view(symbol).ends_with(plan::kLaunchSuffix))
    found = kLaunch;
  else if (const auto *needs = static_cast<const int64_t *>(dlsym(of(module).library, symbol)))
    found = {needs, static_cast<size_t>(needsSize(needs[2]))};
  *count = found.empty() ? -1 : std::ssize(found);
  std::copy_n(found.begin(), std::min<int64_t>(std::ssize(found), capacity), values);
}

// `blocks`: rows of the range. Parts of a row kernel are independent, so the number of threads does not change a bit.
void launch(mgc_stream *stream, mgc_kernel *kernel, int64_t blocks, int64_t, int64_t, const mgc_address *operands,
            int64_t, const int64_t *scalars, int64_t) {
  static_assert(sizeof(mgc_address) == sizeof(void *));
  const auto function = reinterpret_cast<RowFunction>(kernel);
  const auto *pointers = reinterpret_cast<void *const *>(operands);
  const int64_t parts = std::min<int64_t>(of(stream).threads, blocks);
  if (parts <= 1)
    return function(pointers, scalars, 0, blocks);
  parallelFor(of(stream).threads, parts, parts, [&](int64_t part, int64_t) {
    function(pointers, scalars, blocks * part / parts, blocks * (part + 1) / parts);
  });
}

// --- Library calls

Status chooseGemm(mgc_stream *, const mgc_gemm_facts *, mgc_address, int64_t *, int64_t *) {
  return errorf("the CPU's products are chosen when a plan is compiled: mgc compile --tune");
}

Status makeGemm(mgc_device *, const mgc_gemm_facts *facts, mgc_gemm **gemm) {
  if (facts->epilogue != MGC_NO_EPILOGUE)
    return errorf("the CPU makes no product with an epilogue");
  auto made = std::make_unique<plan::Gemm>(planOf(*facts));
  made->path = static_cast<plan::GemmPath>(facts->algorithm);
  *gemm = reinterpret_cast<mgc_gemm *>(made.release());
  return Status::ok();
}

void runGemm(mgc_stream *stream, mgc_gemm *gemm, const mgc_gemm_operands *operands) {
  mgc::gemm(of(gemm), at(operands->a), at(operands->b), at(operands->c), of(stream).threads);
}

Status runGroupedGemm(mgc_stream *stream, const mgc_grouped_gemm_facts *facts,
                      const mgc_grouped_gemm_operands *operands) {
  return groupedGemm(planOf(*facts), at(operands->a), at(operands->b), at<int32_t>(operands->counts), at(operands->c),
                     of(stream).threads);
}

Status runGroupRows(mgc_stream *, const mgc_group_rows_facts *facts, const mgc_group_rows_operands *operands) {
  const plan::GroupRows what{.groups = facts->groups, .rows = facts->rows, .places = facts->places};
  return groupRows(what, {facts->first, facts->all}, at<int32_t>(operands->numbers), at<int32_t>(operands->counts),
                   at<int32_t>(operands->places), at<int32_t>(operands->sources));
}

Status runDropChoices(mgc_stream *, const mgc_drop_choices_facts *facts, const mgc_drop_choices_operands *operands) {
  return dropChoices(planOf(*facts), at<int32_t>(operands->experts), at<float>(operands->weights),
                     at<int32_t>(operands->positions), at<int32_t>(operands->kept), at<int32_t>(operands->workspace));
}

Status makeAttention(mgc_device *, const mgc_attention_facts *facts, mgc_attention **attention) {
  *attention = reinterpret_cast<mgc_attention *>(new plan::Attention(planOf(*facts)));
  return Status::ok();
}

void runAttention(mgc_stream *stream, mgc_attention *attention, const mgc_attention_operands *operands) {
  mgc::attention(of(attention), std::bit_cast<AttentionOperands>(*operands), of(stream).threads);
}

// --- Functions that the CPU lacks. Callers that know that its memory is the host's do not call them.

template <typename Pointer> struct Absent;
template <typename... Args> struct Absent<int (*)(Args...)> {
  static int call(Args... args) {
    mgc_error *error = std::get<sizeof...(Args) - 1>(std::tuple(args...)); // the last argument
    return plugin::report(errorf("the CPU has no graphs, no NCCL, nothing for ranks that share it, and no number"),
                          error);
  }
};
template <auto Member>
constexpr auto absent = &Absent<std::decay_t<decltype(std::declval<mgc_device_api_table &>().*Member)>>::call;
using Table = mgc_device_api_table;

constexpr mgc_device_api_table kTable = {
    .version = MGC_DEVICE_API_VERSION,
    .count = absent<&Table::count>,
    .open = absent<&Table::open>,
    .close = [](mgc_device *device) { delete &of(device); },
    .describe = sureEntry<describe>,
    .check = sureEntry<check>,
    .allocate = entry<allocate>,
    .release = release,
    .allocate_host = entry<allocateHost>,
    .release_host = releaseHost,
    .pin = [](mgc_device *, void *, int64_t, mgc_error *) { return 0; },
    .unpin = [](mgc_device *, void *) {},
    .make_stream = sureEntry<makeStream>,
    .drop_stream = [](mgc_stream *stream) { delete &of(stream); },
    .make_event = sureEntry<makeEvent>,
    .drop_event = [](mgc_event *event) { delete &of(event); },
    .record = sureEntry<record>,
    .wait = sureEntry<wait>,
    .query = sureEntry<query>,
    .milliseconds = sureEntry<milliseconds>,
    .synchronize = sureEntry<synchronize>,
    .mark = sureEntry<mark>,
    .copy_in = sureEntry<copyIn>,
    .copy_out = sureEntry<copyOut>,
    .copy = sureEntry<copy>,
    .copy_rows = sureEntry<copyRowsBetween>,
    .fill = sureEntry<fill>,
    .load_module = entry<loadModule>,
    .drop_module = dropModule,
    .find_kernel = entry<findKernel>,
    .read_array = sureEntry<readArray>,
    .launch = sureEntry<launch>,
    .choose_gemm = entry<chooseGemm>,
    .make_gemm = entry<makeGemm>,
    .drop_gemm = [](mgc_gemm *gemm) { delete &of(gemm); },
    .run_gemm = sureEntry<runGemm>,
    .run_grouped_gemm = entry<runGroupedGemm>,
    .run_group_rows = entry<runGroupRows>,
    .run_drop_choices = entry<runDropChoices>,
    .run_exchange_rows = absent<&Table::run_exchange_rows>,
    .make_attention = entry<makeAttention>,
    .drop_attention = [](mgc_attention *attention) { delete &of(attention); },
    .run_attention = sureEntry<runAttention>,
    .combine = absent<&Table::combine>,
    .begin_capture = absent<&Table::begin_capture>,
    .end_capture = absent<&Table::end_capture>,
    .drop_graph = [](mgc_graph *) {},
    .launch_graph = absent<&Table::launch_graph>,
    .make_comm_id = absent<&Table::make_comm_id>,
    .make_comm = absent<&Table::make_comm>,
    .drop_comm = [](mgc_comm *) {},
    .abort_comms = [](mgc_comm *const *, int64_t) {},
    .check_comm = absent<&Table::check_comm>,
    .all_reduce = absent<&Table::all_reduce>,
    .all_gather = absent<&Table::all_gather>,
    .reduce_scatter = absent<&Table::reduce_scatter>,
    .send = absent<&Table::send>,
    .receive = absent<&Table::receive>,
    .begin_group = absent<&Table::begin_group>,
    .end_group = absent<&Table::end_group>,
};

} // namespace

std::optional<plan::KernelLevel> levelOfThisCpu() {
  if (__builtin_cpu_supports("x86-64-v4"))
    return plan::KernelLevel::v4;
  if (__builtin_cpu_supports("x86-64-v3"))
    return plan::KernelLevel::v3;
  return std::nullopt;
}

plugin::PluginDevice openCpuDevice(const CpuDeviceOptions &options) {
  return plugin::PluginDevice(kTable, reinterpret_cast<mgc_device *>(new CpuDevice{options, {}, {}}));
}

} // namespace mgc
