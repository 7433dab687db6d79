// A plugin of a version that no mgrun has.
#include "runtime/device/DeviceApi.h"

extern "C" const mgc_device_api_table *mgc_device_api(void) {
  static mgc_device_api_table table = {};
  table.version = MGC_DEVICE_API_VERSION + 1000;
  return &table;
}
