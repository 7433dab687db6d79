// A device (DeviceApi.h) for C++: its handles as move-only objects, its errors as Status; its plugin, found and opened at run
// time.
//
// A Device outlives what is made of it, a Module its kernels. Contracts are those of DeviceApi.h.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/device/DeviceApi.h"

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace mgc::plugin {

using Table = mgc_device_api_table;

// One call of the table: call<&Table::record>(api, stream, event).
template <auto Function, typename... Args> Status call(const Table &api, Args... args) {
  mgc_error error;
  error.text[0] = 0;
  return (api.*Function)(args..., &error) == 0 ? Status::ok() : Status::error(error.text);
}

// Owns what Drop takes back.
template <typename T, void (*Table::*Drop)(T *)> class Handle {
public:
  Handle() = default;
  Handle(const Table &api, T *raw) : api_(&api), raw_(raw) {}
  Handle(Handle &&other) noexcept : api_(other.api_), raw_(std::exchange(other.raw_, nullptr)) {}
  Handle &operator=(Handle other) noexcept {
    std::swap(api_, other.api_), std::swap(raw_, other.raw_);
    return *this;
  }
  ~Handle() {
    if (raw_)
      (api_->*Drop)(raw_);
  }
  T *raw() const { return raw_; }
  const Table &api() const { return *api_; }
  explicit operator bool() const { return raw_ != nullptr; }

private:
  const Table *api_ = nullptr;
  T *raw_ = nullptr;
};

using GemmCall = Handle<mgc_gemm, &Table::drop_gemm>;
using AttentionCall = Handle<mgc_attention, &Table::drop_attention>;
using Graph = Handle<mgc_graph, &Table::drop_graph>;

class Event : public Handle<mgc_event, &Table::drop_event> {
public:
  using Handle::Handle;
  Result<bool> isDone() const;
};
Result<double> milliseconds(const Event &begin, const Event &end);

// How long the host waits for other ranks; hasEnded, which may be missing, says that they will not come.
struct Patience {
  std::chrono::milliseconds timeout;
  std::function<bool()> hasEnded = nullptr;
};

class Comm : public Handle<mgc_comm, &Table::drop_comm> {
public:
  using Handle::Handle;
  Status check() const { return call<&Table::check_comm>(api(), raw()); }
};

// A kernel of a module, with what the module says of it (docs/plan-format.md).
struct Kernel {
  mgc_kernel *raw = nullptr;
  int64_t blocks = 0, threads = 0, sharedBytes = 0;
};

class Module : public Handle<mgc_module, &Table::drop_module> {
public:
  using Handle::Handle;
  // With the launch that the module's `<symbol>_launch` gives.
  Result<Kernel> find(const std::string &symbol) const;
  // The i64 array `symbol`; nothing where the module has none.
  Result<std::optional<std::vector<int64_t>>> array(const std::string &symbol) const;
};

// Everything here is enqueued, and done in order. Host memory is pinned.
class Stream : public Handle<mgc_stream, &Table::drop_stream> {
public:
  using Handle::Handle;
  Status record(const Event &event) const { return call<&Table::record>(api(), raw(), event.raw()); }
  Status wait(const Event &event) const { return call<&Table::wait>(api(), raw(), event.raw()); }
  Status mark(uint32_t *host, uint32_t value) const { return call<&Table::mark>(api(), raw(), host, value); }
  // The host waits; no deadline where there is none.
  Status synchronize(std::optional<std::chrono::milliseconds> timeout = {}) const;

  Status copyIn(mgc_address to, const void *from, int64_t bytes) const {
    return call<&Table::copy_in>(api(), raw(), to, from, bytes);
  }
  Status copyOut(void *to, mgc_address from, int64_t bytes) const {
    return call<&Table::copy_out>(api(), raw(), to, from, bytes);
  }
  Status copy(mgc_address to, mgc_address from, int64_t bytes) const {
    return call<&Table::copy>(api(), raw(), to, from, bytes);
  }
  Status copyRows(mgc_address to, int64_t toPitch, mgc_address from, int64_t fromPitch, int64_t bytes,
                  int64_t rows) const {
    return call<&Table::copy_rows>(api(), raw(), to, toPitch, from, fromPitch, bytes, rows);
  }
  Status fill(mgc_address to, uint8_t byte, int64_t bytes) const {
    return call<&Table::fill>(api(), raw(), to, byte, bytes);
  }
  Status launch(const Kernel &kernel, std::span<const mgc_address> operands, std::span<const int64_t> scalars) const;
  Status groupedGemm(const mgc_grouped_gemm_facts &facts, const mgc_grouped_gemm_operands &operands) const {
    return call<&Table::run_grouped_gemm>(api(), raw(), &facts, &operands);
  }
  Status groupRows(const mgc_group_rows_facts &facts, const mgc_group_rows_operands &operands) const {
    return call<&Table::run_group_rows>(api(), raw(), &facts, &operands);
  }
  Status dropChoices(const mgc_drop_choices_facts &facts, const mgc_drop_choices_operands &operands) const {
    return call<&Table::run_drop_choices>(api(), raw(), &facts, &operands);
  }
  Status exchangeRows(const mgc_exchange_rows_facts &facts, const mgc_exchange_rows_operands &operands) const {
    return call<&Table::run_exchange_rows>(api(), raw(), &facts, &operands);
  }
  Status gemm(const GemmCall &gemm, const mgc_gemm_operands &operands) const {
    return call<&Table::run_gemm>(api(), raw(), gemm.raw(), &operands);
  }
  Status attention(const AttentionCall &attention, const mgc_attention_operands &operands) const {
    return call<&Table::run_attention>(api(), raw(), attention.raw(), &operands);
  }
  Status combine(mgc_reduce reduce, mgc_type type, mgc_address to, std::span<const mgc_address> sources,
                 int64_t elements) const;

  Status beginCapture() const { return call<&Table::begin_capture>(api(), raw()); }
  Result<Graph> endCapture() const;
  Status launch(const Graph &graph) const { return call<&Table::launch_graph>(api(), raw(), graph.raw()); }

  Status allReduce(const Comm &comm, mgc_reduce reduce, mgc_type type, mgc_address to, mgc_address from,
                   int64_t elements) const {
    return call<&Table::all_reduce>(api(), raw(), comm.raw(), reduce, type, to, from, elements);
  }
  Status allGather(const Comm &comm, mgc_type type, mgc_address to, mgc_address from, int64_t elements) const {
    return call<&Table::all_gather>(api(), raw(), comm.raw(), type, to, from, elements);
  }
  Status reduceScatter(const Comm &comm, mgc_reduce reduce, mgc_type type, mgc_address to, mgc_address from,
                       int64_t elements) const {
    return call<&Table::reduce_scatter>(api(), raw(), comm.raw(), reduce, type, to, from, elements);
  }
  Status send(const Comm &comm, mgc_address from, int64_t bytes, int64_t peer) const {
    return call<&Table::send>(api(), raw(), comm.raw(), from, bytes, peer);
  }
  Status receive(const Comm &comm, mgc_address to, int64_t bytes, int64_t peer) const {
    return call<&Table::receive>(api(), raw(), comm.raw(), to, bytes, peer);
  }
};

// Memory that a device has given, taken back by Release.
template <typename Address, auto Release> class Buffer {
public:
  Buffer() = default;
  Buffer(const Table &api, mgc_device *device, Address address, int64_t bytes)
      : api_(&api), device_(device), address_(address), bytes_(bytes) {}
  Buffer(Buffer &&other) noexcept
      : api_(other.api_), device_(other.device_), address_(std::exchange(other.address_, {})),
        bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer &operator=(Buffer other) noexcept {
    std::swap(api_, other.api_), std::swap(device_, other.device_);
    std::swap(address_, other.address_), std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Buffer() {
    if (address_)
      (api_->*Release)(device_, address_);
  }
  Address address() const { return address_; }
  int64_t bytes() const { return bytes_; }

private:
  const Table *api_ = nullptr;
  mgc_device *device_ = nullptr;
  Address address_ = {};
  int64_t bytes_ = 0;
};

using DeviceBuffer = Buffer<mgc_address, &Table::release>;
// Host memory that the device reads and writes.
class PinnedBuffer : public Buffer<void *, &Table::release_host> {
public:
  using Buffer::Buffer;
  std::byte *data() const { return static_cast<std::byte *>(address()); }
};

// Memory of this process that is pinned, and outlives this.
using PinnedRange = Buffer<void *, &Table::unpin>;

class PluginDevice {
public:
  PluginDevice(const Table &api, mgc_device *owned) : handle_(api, owned) {}
  PluginDevice(PluginDevice &&) = default;
  PluginDevice &operator=(PluginDevice &&) = default;

  Result<mgc_device_facts> describe() const;
  Status check() const { return call<&Table::check>(api(), raw()); }

  Result<DeviceBuffer> allocate(int64_t bytes) const;
  Result<PinnedBuffer> allocateHost(int64_t bytes) const;
  Result<PinnedRange> pin(std::byte *data, int64_t bytes) const;
  Result<Stream> makeStream(bool highPriority = false) const;
  Result<Event> makeEvent(bool timed = false) const;
  Result<Module> loadModule(const std::string &path, std::string_view text) const;
  // For choose: the room needed, and with room the algorithm. See DeviceApi.h.
  Result<int64_t> roomToChooseGemm(const Stream &stream, const mgc_gemm_facts &facts) const;
  Result<int64_t> chooseGemm(const Stream &stream, const mgc_gemm_facts &facts, mgc_address room) const;
  Result<GemmCall> makeGemm(const mgc_gemm_facts &facts) const;
  Result<AttentionCall> makeAttention(const mgc_attention_facts &facts) const;

  Result<mgc_comm_id> makeCommId() const;
  // `patience` outlives what is made.
  Result<Comm> makeComm(const mgc_comm_id &id, int64_t ranks, int64_t rank, const Patience &patience) const;
  void abort(std::span<mgc_comm *const> comms) const { // from any thread
    api().abort_comms(comms.data(), int64_t(comms.size()));
  }
  Status beginGroup() const { return call<&Table::begin_group>(api(), raw()); }
  Status endGroup() const { return call<&Table::end_group>(api(), raw()); }

  mgc_device *raw() const { return handle_.raw(); }
  const Table &api() const { return handle_.api(); }

private:
  Handle<mgc_device, &Table::close> handle_;
};

class Plugin {
public:
  // libmgc_<name>.so: `path` where it is given, else where openPlugin looks for it. `name`: "cuda". The plugin stays
  // loaded until the process ends.
  static Result<Plugin> open(const std::string &name, const std::string &path = {});

  Result<int32_t> countDevices() const;
  Result<PluginDevice> openDevice(int32_t ordinal, bool deterministic = true) const;
  const std::string &path() const { return path_; }

private:
  Plugin(const Table &api, std::string path) : api_(&api), path_(std::move(path)) {}
  const Table *api_;
  std::string path_;
};

// For people: the plugin's file, and the devices and libraries that it finds here, or why there are none. `name`: "cuda".
std::string describePlugin(const std::string &name);

} // namespace mgc::plugin
