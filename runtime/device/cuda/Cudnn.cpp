// See Cudnn.h.
#include "runtime/device/cuda/Cudnn.h"

#include <algorithm>

namespace mgc::cuda {

namespace {

constexpr std::array kNames = {"libcudnn.so.9"};
constexpr const char *kHelp =
    "It is in NVIDIA's cuDNN packages, also in the Python package nvidia-cudnn-cu13: name its folder in "
    "LD_LIBRARY_PATH. Without it attention takes this plugin's own kernels, which use no tensor cores.";
constexpr size_t kLeastVersion = 91000; // before it, attention's masks and head sizes had more limits

Result<CudnnTable> load() {
  MGC_ASSIGN(library, Library::open(kNames, kHelp));
  CudnnTable table;
  MGC_CUDNN_FUNCTIONS(MGC_FIND_FUNCTION)
  MGC_TRY(library.complete("cuDNN 9.10 or later"));
  if (table.cudnnGetVersion() < kLeastVersion)
    return errorf("{} is version {}; expected {} or later", library.path(), table.cudnnGetVersion(), kLeastVersion);
  return table;
}

// The library's text about its last error: lines, the first of which names the reason.
std::string lastError(const CudnnTable &api) {
  char text[1024] = {};
  api.cudnnGetLastErrorString(text, sizeof text);
  return text;
}

} // namespace

Result<const CudnnTable *> CudnnTable::get() {
  static const Result<CudnnTable> table = load();
  return table.address();
}

Cudnn::~Cudnn() {
  if (handle)
    api.cudnnDestroy(handle);
}

Result<std::shared_ptr<Cudnn>> Cudnn::of(mgc_device &device) {
  MGC_TRY(device.enter());
  std::lock_guard lock(device.mutex);
  if (!device.cudnn) {
    MGC_ASSIGN(api, CudnnTable::get());
    auto made = std::make_shared<Cudnn>(*api);
    if (const cudnnStatus_t result = api->cudnnCreate(&made->handle); result != CUDNN_STATUS_SUCCESS)
      return errorf("opening cuDNN {}: {}: {}", api->cudnnGetVersion(), api->cudnnGetErrorString(result),
                    lastError(*api));
    device.cudnn = made;
  }
  return device.cudnn;
}

Result<std::shared_ptr<Cudnn>> Cudnn::without(std::string_view properties) {
  MGC_ASSIGN(api, CudnnTable::get());
  auto made = std::make_shared<Cudnn>(*api);
  made->properties.emplace(*api, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  made->properties->set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                        std::span(properties.data(), properties.size() + 1)); // with the 0 behind it
  made->properties->finalize();
  MGC_TRY(made->properties->status());
  return made;
}

std::string cudnnVersion() {
  const auto table = CudnnTable::get();
  if (!table.isOk())
    return "no cuDNN";
  const size_t version = (*table)->cudnnGetVersion();
  return fmt::format("cuDNN {}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

// --- Descriptors.

CudnnDescriptor::CudnnDescriptor(const CudnnTable &api, cudnnBackendDescriptorType_t type) : api_(&api) {
  check(api.cudnnBackendCreateDescriptor(type, &handle_), fmt::format("descriptor {}", static_cast<int>(type)));
}

CudnnDescriptor &CudnnDescriptor::operator=(CudnnDescriptor &&other) noexcept {
  std::swap(api_, other.api_), std::swap(handle_, other.handle_), std::swap(status_, other.status_);
  return *this;
}

CudnnDescriptor::~CudnnDescriptor() {
  if (handle_)
    api_->cudnnBackendDestroyDescriptor(handle_);
}

void CudnnDescriptor::setRaw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                             const void *values) {
  if (status_.isOk())
    check(api_->cudnnBackendSetAttribute(handle_, name, type, count, values),
          fmt::format("attribute {}", static_cast<int>(name)));
}

void CudnnDescriptor::finalize() {
  if (status_.isOk())
    check(api_->cudnnBackendFinalize(handle_), "finalize");
}

void CudnnDescriptor::check(cudnnStatus_t result, std::string_view what) {
  if (result != CUDNN_STATUS_SUCCESS)
    status_ = errorf("{}: {}: {}", what, api_->cudnnGetErrorString(result), lastError(*api_));
}

} // namespace mgc::cuda
