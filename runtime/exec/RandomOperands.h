// Operands for matrix products that are only timed.
#pragma once

#include "runtime/device/Plugin.h"

namespace mgc {

// Fills device memory with numbers from -1 to 1 whose bits vary, read as bf16 or as f32. Equal ones would make matrix
// products faster than they are in a run: a device that switches fewer bits draws less power and keeps its clock
// higher.
Status fillWithNumbers(const plugin::PluginDevice &device, const plugin::Stream &stream, mgc_address to, int64_t bytes);

} // namespace mgc
