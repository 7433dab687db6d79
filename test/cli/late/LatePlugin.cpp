// A plugin for MPI in front of the one that lies next to it as NAME.real. In a process with the variable LATE a world
// is dropped two seconds late, as where the machine has not let it run. Into the file that the variable ORDER names
// goes when a world was dropped, and when the end of MPI began: "dropped" or "stop", and nanoseconds of the machine's
// steady clock.
#include "runtime/comm/mpi/MpiApi.h"

#include <chrono>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
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

void note(const char *what) {
  if (const char *path = std::getenv("ORDER"))
    std::ofstream(path, std::ios::app) << what << ' ' << std::chrono::steady_clock::now().time_since_epoch().count()
                                       << '\n';
}

void dropLate(mgc_mpi_world *world) {
  if (std::getenv("LATE"))
    std::this_thread::sleep_for(std::chrono::seconds(2));
  real->drop_world(world);
  note("dropped");
}

int stop(mgc_error *error) {
  note("stop");
  return real->stop(error);
}

} // namespace

extern "C" const mgc_mpi_api_table *mgc_mpi_api(void) {
  static mgc_mpi_api_table table = real ? *real : mgc_mpi_api_table{};
  table.drop_world = dropLate;
  table.stop = stop;
  return &table;
}
