// See Driver.h.
#include "runtime/device/cuda/Driver.h"

#include <array>
#include <cstdlib>

namespace mgc::cuda {

namespace {

constexpr std::array kNames = {"libcuda.so.1"};
constexpr const char *kHelp =
    "It is part of the NVIDIA driver (nvidia-smi shows it): install the driver, run on a machine "
    "that has a GPU, or compile the plan with --target cpu.";

// A rank has its own stream for each kind of collective and each channel of transfers. Where they share one of the
// queues that the driver has by default, 8, one waits behind another.
constexpr const char *kQueues = "CUDA_DEVICE_MAX_CONNECTIONS", *kMostQueues = "32";

constexpr const char *kKernelFault =
    "a kernel went wrong, on this stream or on another; the device takes no more work: end the process";
constexpr const char *kHardware = "the GPU has a fault (nvidia-smi -q says more): end the process, use another GPU";
constexpr const char *kOtherPtx =
    "the code was made by a newer CUDA toolkit than the driver knows: install a newer driver, or "
    "build with an older toolkit";

constexpr std::array kAnswers = {
    DriverAnswer{CUDA_ERROR_OUT_OF_MEMORY, false, "other processes may use the GPU (nvidia-smi lists them)"},
    DriverAnswer{CUDA_ERROR_NO_DEVICE, false, "the driver sees no GPU: see nvidia-smi and CUDA_VISIBLE_DEVICES"},
    DriverAnswer{CUDA_ERROR_INVALID_DEVICE, false, "there are fewer GPUs: see nvidia-smi and CUDA_VISIBLE_DEVICES"},
    DriverAnswer{CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, false,
                 "the driver's library and its kernel module are of different versions: restart the machine"},
    DriverAnswer{CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, false, "this GPU needs a newer driver"},
    DriverAnswer{CUDA_ERROR_SYSTEM_NOT_READY, false,
                 "a service of the driver does not run: nvidia-fabricmanager on machines with NVSwitch"},
    DriverAnswer{CUDA_ERROR_DEVICE_UNAVAILABLE, false,
                 "another process has the GPU for itself (nvidia-smi: compute mode)"},
    DriverAnswer{CUDA_ERROR_UNSUPPORTED_PTX_VERSION, false, kOtherPtx},
    DriverAnswer{CUDA_ERROR_INVALID_PTX, false, "the code is damaged, or for a newer GPU: compile the plan again"},
    DriverAnswer{CUDA_ERROR_NO_BINARY_FOR_GPU, false, "the code is for a newer GPU: compile the plan for this one"},
    DriverAnswer{CUDA_ERROR_ILLEGAL_ADDRESS, true, kKernelFault},
    DriverAnswer{CUDA_ERROR_MISALIGNED_ADDRESS, true, kKernelFault},
    DriverAnswer{CUDA_ERROR_ILLEGAL_INSTRUCTION, true, kKernelFault},
    DriverAnswer{CUDA_ERROR_INVALID_ADDRESS_SPACE, true, kKernelFault},
    DriverAnswer{CUDA_ERROR_INVALID_PC, true, kKernelFault},
    DriverAnswer{CUDA_ERROR_HARDWARE_STACK_ERROR, true, kKernelFault},
    DriverAnswer{CUDA_ERROR_LAUNCH_FAILED, true, kKernelFault},
    DriverAnswer{CUDA_ERROR_ASSERT, true, kKernelFault},
    DriverAnswer{CUDA_ERROR_LAUNCH_TIMEOUT, true,
                 "a kernel ran longer than the system allows on a GPU that drives a screen"},
    DriverAnswer{CUDA_ERROR_CONTEXT_IS_DESTROYED, true, "the process has reset the GPU"},
    DriverAnswer{CUDA_ERROR_ECC_UNCORRECTABLE, true, kHardware},
    DriverAnswer{CUDA_ERROR_NVLINK_UNCORRECTABLE, true, kHardware},
    DriverAnswer{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, false,
                 "this cannot be part of a graph: do it before begin_capture or after end_capture"},
    DriverAnswer{CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, false,
                 "something before it was refused while the graph was captured: the first error says what"},
    DriverAnswer{CUDA_ERROR_STREAM_CAPTURE_UNJOINED, false,
                 "a stream that joined the capture has work that the first stream does not wait for: wait "
                 "for its last event"},
    DriverAnswer{CUDA_ERROR_STREAM_CAPTURE_ISOLATION, false,
                 "an event from outside of the capture was waited for, or one from inside by a stream outside"},
};

Result<Driver> load() {
  MGC_ASSIGN(library, Library::open(kNames, kHelp));
  Driver table;
  MGC_DRIVER_FUNCTIONS(MGC_FIND_FUNCTION)
  MGC_TRY(library.complete("the driver of CUDA " + versionText(CUDA_VERSION) + " or a later one"));
  setenv(kQueues, kMostQueues, 0);
  if (const CUresult result = table.cuInit(0); result != CUDA_SUCCESS)
    return errorf("the NVIDIA driver {} does not start: {}", library.path(), describe(table, result));
  if (const CUresult result = table.cuDriverGetVersion(&table.version); result != CUDA_SUCCESS)
    return errorf("the NVIDIA driver {} does not say its version: {}", library.path(), describe(table, result));
  return table;
}

} // namespace

Result<const Driver *> Driver::get() {
  static const Result<Driver> driver = load();
  return driver.address();
}

const DriverAnswer &explain(CUresult result) {
  static constexpr DriverAnswer kOther{CUDA_ERROR_UNKNOWN, false, ""};
  for (const DriverAnswer &answer : kAnswers)
    if (answer.result == result)
      return answer;
  return kOther;
}

std::string describe(const Driver &driver, CUresult result) {
  const char *name = nullptr, *description = nullptr;
  driver.cuGetErrorName(result, &name);
  driver.cuGetErrorString(result, &description);
  const char *help = explain(result).help;
  return fmt::format("{} ({}){}{}", name ? name : fmt::format("error {}", int(result)),
                     description ? description : "unknown to this driver", *help ? "; " : "", help);
}

std::string versionText(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

} // namespace mgc::cuda
