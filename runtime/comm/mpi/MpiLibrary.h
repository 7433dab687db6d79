// MpiLibrary: the plugin for one kind of MPI, found and opened. Contracts are those of MpiApi.h.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/comm/bootstrap/Launch.h"
#include "runtime/comm/mpi/MpiApi.h"

namespace mgc {

using MpiTable = mgc_mpi_api_table;

// One call of the table: mpiCall<&MpiTable::stop>(table).
template <auto Function, typename... Args> Status mpiCall(const MpiTable &table, Args... args) {
  mgc_error error;
  error.text[0] = 0;
  return (table.*Function)(args..., &error) == 0 ? Status::ok() : Status::error(error.text);
}

const char *nameOf(MpiKind kind); // "Open MPI"

// libmgc_mpi_<kind>.so; the error says what else would work.
Result<const MpiTable *> openMpi(MpiKind kind, const std::string &path = {});

// For people, of the plugin and its library: "Open MPI 4.1.4 by /usr/lib/libmgc_mpi_openmpi.so", or why there is none.
std::string describePlugin(MpiKind kind);

} // namespace mgc
