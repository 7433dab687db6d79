// The main function of test programs that need a device.
#pragma once

#include "runtime/base/Status.h"

#include <gtest/gtest.h>
#include <iostream>

namespace mgc::test {

// open(), all tests, close(). Where open() fails there is no device: says why and gives 77, which ctest reports as skipped.
inline int runOnDevices(int argc, char **argv, Status (*open)(), void (*close)()) {
  testing::InitGoogleTest(&argc, argv);
  if (const Status opened = open(); !opened.isOk()) {
    std::cout << "skipped, for there is no device: " << opened.message() << "\n";
    return 77;
  }
  const int failed = RUN_ALL_TESTS();
  close();
  return failed;
}

} // namespace mgc::test
