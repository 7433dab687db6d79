// See Plugin.h.
#include "runtime/device/Plugin.h"

#include "plan/Plan.h"
#include "runtime/device/PluginFile.h"

namespace mgc::plugin {

namespace {

// The handle that a function of the table makes as its last argument, wrapped.
template <typename Wrapper, auto Function, typename Raw, typename... Args>
Result<Wrapper> make(const Table &api, Args... args) {
  Raw *raw = nullptr;
  MGC_TRY((call<Function>(api, args..., &raw)));
  return Wrapper(api, raw);
}

} // namespace

Result<Plugin> Plugin::open(const std::string &name, const std::string &path) {
  const PluginFacts facts = {name,
                             fmt::format("the plugin for {} devices", name),
                             "where the toolkit is found when CMake configures (preset cuda; configuring says why not)",
                             "devices",
                             MGC_DEVICE_API_SYMBOL,
                             MGC_DEVICE_API_VERSION};
  MGC_ASSIGN(opened, openPlugin(facts, path));
  return Plugin(*static_cast<const Table *>(opened.table), opened.path);
}

Result<int32_t> Plugin::countDevices() const {
  int32_t count = 0;
  MGC_TRY(call<&Table::count>(*api_, &count));
  return count;
}

Result<PluginDevice> Plugin::openDevice(int32_t ordinal, bool deterministic) const {
  mgc_device *raw = nullptr;
  MGC_TRY(call<&Table::open>(*api_, ordinal, int32_t(deterministic), &raw));
  return PluginDevice(*api_, raw);
}

static Result<std::string> describeDevices(const Plugin &plugin) {
  MGC_ASSIGN(count, plugin.countDevices());
  if (count == 0)
    return std::string("no device");
  MGC_ASSIGN(device, plugin.openDevice(0));
  MGC_ASSIGN(facts, device.describe());
  return fmt::format("{} device{}, {}", count, count == 1 ? "" : "s", facts.versions);
}

std::string describePlugin(const std::string &name) {
  const Result<Plugin> plugin = Plugin::open(name);
  if (!plugin.isOk())
    return inOneLine(plugin.status());
  const Result<std::string> devices = describeDevices(*plugin);
  return fmt::format("{} by {}: {}", name, plugin->path(), devices.isOk() ? *devices : inOneLine(devices.status()));
}

Result<bool> Event::isDone() const {
  int32_t done = 0;
  MGC_TRY(call<&Table::query>(api(), raw(), &done));
  return done != 0;
}

Result<double> milliseconds(const Event &begin, const Event &end) {
  double value = 0;
  MGC_TRY(call<&Table::milliseconds>(begin.api(), begin.raw(), end.raw(), &value));
  return value;
}

Result<std::optional<std::vector<int64_t>>> Module::array(const std::string &symbol) const {
  int64_t count = 0;
  MGC_TRY(call<&Table::read_array>(api(), raw(), symbol.c_str(), nullptr, int64_t(0), &count));
  if (count < 0)
    return std::optional<std::vector<int64_t>>();
  std::vector<int64_t> values(count);
  MGC_TRY(call<&Table::read_array>(api(), raw(), symbol.c_str(), values.data(), count, &count));
  return std::optional(std::move(values));
}

Result<Kernel> Module::find(const std::string &symbol) const {
  Kernel kernel;
  MGC_TRY(call<&Table::find_kernel>(api(), raw(), symbol.c_str(), &kernel.raw));
  MGC_ASSIGN(launch, array(symbol + std::string(plan::kLaunchSuffix)));
  if (!launch || launch->size() != 3)
    return errorf("kernel '{}': its module does not say how to launch it: expected an array {}_launch of blocks, "
                  "threads, bytes of shared memory; compile the plan again",
                  symbol, symbol);
  kernel.blocks = (*launch)[0];
  kernel.threads = (*launch)[1];
  kernel.sharedBytes = (*launch)[2];
  return kernel;
}

Status Stream::synchronize(std::optional<std::chrono::milliseconds> timeout) const {
  return call<&Table::synchronize>(api(), raw(), timeout ? int64_t(timeout->count()) : int64_t(-1));
}

Status Stream::launch(const Kernel &kernel, std::span<const mgc_address> operands,
                      std::span<const int64_t> scalars) const {
  return call<&Table::launch>(api(), raw(), kernel.raw, kernel.blocks, kernel.threads, kernel.sharedBytes,
                              operands.data(), int64_t(operands.size()), scalars.data(), int64_t(scalars.size()));
}

Status Stream::combine(mgc_reduce reduce, mgc_type type, mgc_address to, std::span<const mgc_address> sources,
                       int64_t elements) const {
  return call<&Table::combine>(api(), raw(), reduce, type, to, sources.data(), int64_t(sources.size()), elements);
}

Result<Graph> Stream::endCapture() const { return make<Graph, &Table::end_capture, mgc_graph>(api(), raw()); }

Result<mgc_device_facts> PluginDevice::describe() const {
  mgc_device_facts facts;
  MGC_TRY(call<&Table::describe>(api(), raw(), &facts));
  return facts;
}

Result<DeviceBuffer> PluginDevice::allocate(int64_t bytes) const {
  mgc_address address = 0;
  MGC_TRY(call<&Table::allocate>(api(), raw(), bytes, &address));
  return DeviceBuffer(api(), raw(), address, bytes);
}

Result<PinnedBuffer> PluginDevice::allocateHost(int64_t bytes) const {
  void *data = nullptr;
  MGC_TRY(call<&Table::allocate_host>(api(), raw(), bytes, &data));
  return PinnedBuffer(api(), raw(), data, bytes);
}

Result<PinnedRange> PluginDevice::pin(std::byte *data, int64_t bytes) const {
  MGC_TRY(call<&Table::pin>(api(), raw(), static_cast<void *>(data), bytes));
  return PinnedRange(api(), raw(), data, bytes);
}

Result<Stream> PluginDevice::makeStream(bool highPriority) const {
  return make<Stream, &Table::make_stream, mgc_stream>(api(), raw(), int32_t(highPriority));
}

Result<Event> PluginDevice::makeEvent(bool timed) const {
  return make<Event, &Table::make_event, mgc_event>(api(), raw(), int32_t(timed));
}

Result<Module> PluginDevice::loadModule(const std::string &path, std::string_view text) const {
  return make<Module, &Table::load_module, mgc_module>(api(), raw(), path.c_str(), text.data(), int64_t(text.size()));
}

Result<int64_t> PluginDevice::roomToChooseGemm(const Stream &stream, const mgc_gemm_facts &facts) const {
  int64_t room = 0, algorithm = 0;
  MGC_TRY(call<&Table::choose_gemm>(api(), stream.raw(), &facts, mgc_address(0), &room, &algorithm));
  return room;
}

Result<int64_t> PluginDevice::chooseGemm(const Stream &stream, const mgc_gemm_facts &facts, mgc_address room) const {
  int64_t needed = 0, algorithm = 0;
  MGC_TRY(call<&Table::choose_gemm>(api(), stream.raw(), &facts, room, &needed, &algorithm));
  return algorithm;
}

Result<GemmCall> PluginDevice::makeGemm(const mgc_gemm_facts &facts) const {
  return make<GemmCall, &Table::make_gemm, mgc_gemm>(api(), raw(), &facts);
}

Result<AttentionCall> PluginDevice::makeAttention(const mgc_attention_facts &facts) const {
  return make<AttentionCall, &Table::make_attention, mgc_attention>(api(), raw(), &facts);
}

Result<mgc_comm_id> PluginDevice::makeCommId() const {
  mgc_comm_id id;
  MGC_TRY(call<&Table::make_comm_id>(api(), raw(), &id));
  return id;
}

Result<Comm> PluginDevice::makeComm(const mgc_comm_id &id, int64_t ranks, int64_t rank,
                                    const Patience &patience) const {
  const auto hasEnded = [](void *context) { return int32_t(static_cast<const Patience *>(context)->hasEnded()); };
  const mgc_patience given{patience.timeout.count(), patience.hasEnded ? +hasEnded : nullptr,
                           const_cast<Patience *>(&patience)};
  return make<Comm, &Table::make_comm, mgc_comm>(api(), raw(), &id, ranks, rank, &given);
}

} // namespace mgc::plugin
