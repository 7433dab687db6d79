// See Nccl.h.
#include "runtime/device/cuda/Nccl.h"

#include "runtime/device/cuda/Internal.h"

namespace mgc::cuda {

namespace {

constexpr std::array kNames = {"libnccl.so.2"};
constexpr const char *kHelp =
    "Ranks on several GPUs need NCCL: install it (libnccl2, or the Python package nvidia-nccl) and name its "
    "folder in LD_LIBRARY_PATH.";
constexpr int kLeastVersion = NCCL_VERSION(2, 18, 0); // communicators that do not block

std::string textOf(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

Result<Nccl> load() {
  MGC_ASSIGN(library, Library::open(kNames, kHelp));
  const std::string expected = fmt::format("NCCL {} or a later 2.x", textOf(kLeastVersion));
  Nccl table;
  MGC_NCCL_FUNCTIONS(MGC_FIND_FUNCTION)
  MGC_TRY(library.complete(expected));
  if (const ncclResult_t result = table.ncclGetVersion(&table.version); result != ncclSuccess)
    return errorf("{} does not say its version: {}", library.path(), table.ncclGetErrorString(result));
  if (table.version < kLeastVersion)
    return errorf("{} is NCCL {}; expected {}", library.path(), textOf(table.version), expected);
  return table;
}

} // namespace

Result<const Nccl *> Nccl::get() {
  static const Result<Nccl> table = load();
  return table.address();
}

std::string ncclVersion() {
  const auto nccl = Nccl::get();
  return nccl.isOk() ? "NCCL " + textOf((*nccl)->version) : "no NCCL";
}

} // namespace mgc::cuda
