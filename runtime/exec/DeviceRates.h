// The best rates of a device, measured with its own libraries: a profile compares steps with them.
#pragma once

#include "runtime/device/Plugin.h"
#include "runtime/exec/MachineRates.h"

namespace mgc {

// Matrix products and copies of growing size, until they take long enough to be measured or there is no more memory; a
// fraction of a second. Products of `type`.
Result<MachineRates> measureDeviceRates(const plugin::PluginDevice &device, plan::DType type);

} // namespace mgc
