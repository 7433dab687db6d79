// A plugin for MPI in front of the one that lies beside it as NAME.real: a world is dropped two seconds late where the variable
// LATE is set, as by a process that the machine has not let run.
#include "runtime/comm/mpi/MpiApi.h"

#include <chrono>
#include <cstdlib>
#include <dlfcn.h>
#include <string>
#include <thread>

namespace {

const mgc_mpi_api_table *openReal() {
  Dl_info own{};
  if (!dladdr(reinterpret_cast<const void *>(&openReal), &own))
    return nullptr;
  void *real = dlopen((std::string(own.dli_fname) + ".real").c_str(), RTLD_NOW);
  const auto table = real ? reinterpret_cast<mgc_mpi_api_function>(dlsym(real, MGC_MPI_API_SYMBOL)) : nullptr;
  return table ? table() : nullptr;
}

const mgc_mpi_api_table *const real = openReal();

void dropLate(mgc_mpi_world *world) {
  if (std::getenv("LATE"))
    std::this_thread::sleep_for(std::chrono::seconds(2));
  real->drop_world(world);
}

} // namespace

extern "C" const mgc_mpi_api_table *mgc_mpi_api(void) {
  static mgc_mpi_api_table table = real ? *real : mgc_mpi_api_table{};
  table.drop_world = dropLate;
  return &table;
}
