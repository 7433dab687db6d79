// See MpiLibrary.h.
#include "runtime/comm/mpi/MpiLibrary.h"

#include "runtime/device/PluginFile.h"

#include <string_view>

namespace mgc {

namespace {

plugin::PluginFacts factsOf(MpiKind kind) {
  return {kind == MpiKind::openMpi ? "mpi_openmpi" : "mpi_mpich",
          fmt::format("the plugin for {}", nameOf(kind)),
          fmt::format("where CMake finds an mpicc of {} (MGC_MPICC says where to look)", nameOf(kind)),
          "MPI",
          MGC_MPI_API_SYMBOL,
          MGC_MPI_API_VERSION};
}

} // namespace

const char *nameOf(MpiKind kind) {
  switch (kind) {
  case MpiKind::openMpi:
    return "Open MPI";
  case MpiKind::mpich:
    return "MPICH";
  case MpiKind::none:
    break;
  }
  return "no MPI";
}

Result<const MpiTable *> openMpi(MpiKind kind, const std::string &path) {
  const Result<plugin::OpenedPlugin> opened = plugin::openPlugin(factsOf(kind), path);
  if (!opened.isOk()) {
    const MpiKind other = kind == MpiKind::openMpi ? MpiKind::mpich : MpiKind::openMpi;
    const bool hasOther = path.empty() && plugin::openPlugin(factsOf(other)).isOk();
    return errorf("{}{}", opened.status().message(),
                  hasOther ? fmt::format("\n  there is that for {}: its mpirun would work", nameOf(other)) : "");
  }
  const auto *table = static_cast<const MpiTable *>(opened->table);
  if (std::string_view(table->kind) != nameOf(kind))
    return errorf("{}: was built for {}, the launcher is that of {}; expected the plugin for {}, or the mpirun of {}",
                  opened->path, table->kind, nameOf(kind), nameOf(kind), table->kind);
  return table;
}

std::string describePlugin(MpiKind kind) {
  const Result<plugin::OpenedPlugin> opened = plugin::openPlugin(factsOf(kind));
  if (!opened.isOk())
    return plugin::inOneLine(opened.status());
  mgc_mpi_version version{};
  static_cast<const MpiTable *>(opened->table)->describe(&version);
  return fmt::format("{} by {}", version.text, opened->path);
}

} // namespace mgc
