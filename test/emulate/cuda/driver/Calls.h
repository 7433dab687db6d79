// How often the functions of the driver were called. With the setting `calls` a line at the end of the process says it:
//     emulated driver: 3 cuGraphLaunch, 120 cuLaunchKernel, 360 kernels run
#pragma once

namespace mgc::emulate {

void countCall(const char *function);
void countKernel();

} // namespace mgc::emulate
