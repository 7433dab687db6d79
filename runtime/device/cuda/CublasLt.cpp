// See CublasLt.h.
#include "runtime/device/cuda/CublasLt.h"

namespace mgc::cuda {

namespace {

// The one of the headers first.
#if CUBLAS_VER_MAJOR >= 13
constexpr std::array kNames = {"libcublasLt.so.13", "libcublasLt.so.12"};
#else
constexpr std::array kNames = {"libcublasLt.so.12", "libcublasLt.so.13"};
#endif
constexpr const char *kHelp = "It is part of the CUDA toolkit and of the Python package nvidia-cublas: name "
                              "its folder in LD_LIBRARY_PATH.";

Result<CublasLtTable> load() {
  MGC_ASSIGN(library, Library::open(kNames, kHelp));
  CublasLtTable table;
  MGC_CUBLASLT_FUNCTIONS(MGC_FIND_FUNCTION)
  MGC_TRY(library.complete("cuBLASLt 12 or later"));
  return table;
}

} // namespace

Result<const CublasLtTable *> CublasLtTable::get() {
  static const Result<CublasLtTable> table = load();
  return table.address();
}

Result<std::shared_ptr<CublasLt>> CublasLt::of(mgc_device &device) {
  MGC_TRY(device.enter());
  std::lock_guard lock(device.mutex);
  if (!device.cublasLt) {
    MGC_ASSIGN(api, CublasLtTable::get());
    auto made = std::make_shared<CublasLt>(*api);
    MGC_TRY(made->check(device, api->cublasLtCreate(&made->handle), "opening cuBLASLt"));
    device.cublasLt = made;
  }
  return device.cublasLt;
}

Status CublasLt::check(const mgc_device &device, cublasStatus_t result, std::string_view what) const {
  if (result == CUBLAS_STATUS_SUCCESS)
    return Status::ok();
  return errorf("{}: {}: cuBLASLt {} answers {}", device.name, what, api.cublasLtGetVersion(),
                api.cublasLtGetStatusString(result));
}

// 130002: 13.0.2.
std::string cublasLtVersion() {
  const auto table = CublasLtTable::get();
  if (!table.isOk())
    return "no cuBLASLt";
  const size_t version = (*table)->cublasLtGetVersion();
  return fmt::format("cuBLASLt {}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

} // namespace mgc::cuda
