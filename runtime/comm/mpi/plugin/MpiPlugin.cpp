// libmgc_mpi_KIND.so: the table of MpiApi.h over the MPI whose mpi.h it was compiled with. An MPI_Request of a world stands in
// one array, what is known of it at the same place of others.
#include "runtime/base/Status.h"
#include "runtime/comm/mpi/MpiApi.h"
#include "runtime/device/PluginEntry.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <map>
#include <memory>
#include <mpi.h>
#include <tuple>
#include <vector>

namespace mgc::mpi {

namespace {

#ifdef OPEN_MPI
constexpr const char *kKind = "Open MPI";
#else
constexpr const char *kKind = "MPICH";
#endif
constexpr int64_t kBlock = int64_t(1) << 20; // a large region is so many of these, and a rest: MPI counts in int

Status check(int code, const char *call) {
  if (code == MPI_SUCCESS)
    return Status::ok();
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return errorf("{}: {}", call, text);
}

struct World {
  MPI_Comm comm = MPI_COMM_NULL;
  std::vector<MPI_Request> requests;
  std::vector<uint64_t> tokens;
  std::vector<char> areReceives;
  std::vector<int> indices; // indices that MPI_Testsome finds
  std::vector<MPI_Status> statuses;
  std::vector<mgc_mpi_completion> completions;         // result of the last poll
  using Shape = std::tuple<int64_t, int64_t, int64_t>; // rows, bytes of a row, stride
  // For regions that MPI_BYTE and a count do not describe.
  std::map<Shape, MPI_Datatype> types;

  void add(MPI_Request request, uint64_t token, bool isReceive) {
    requests.push_back(request);
    tokens.push_back(token);
    areReceives.push_back(isReceive);
  }
};

World &of(mgc_mpi_world *world) { return *reinterpret_cast<World *>(world); }

Status makeRows(const mgc_mpi_region &region, MPI_Datatype *type) {
  if (region.rows > INT_MAX || region.row_bytes > INT_MAX)
    return errorf("a region of {} rows of {} bytes; expected at most {} of each", region.rows, region.row_bytes,
                  INT_MAX);
  return check(MPI_Type_create_hvector(int(region.rows), int(region.row_bytes), region.stride, MPI_BYTE, type),
               "MPI_Type_create_hvector");
}

// The pieces of one row of more than INT_MAX bytes.
Status makeLargeRow(int64_t bytes, MPI_Datatype *type) {
  MPI_Datatype block = MPI_DATATYPE_NULL, blocks = MPI_DATATYPE_NULL;
  MGC_TRY(check(MPI_Type_contiguous(int(kBlock), MPI_BYTE, &block), "MPI_Type_contiguous"));
  MGC_TRY(check(MPI_Type_contiguous(int(bytes / kBlock), block, &blocks), "MPI_Type_contiguous"));
  const int counts[] = {1, int(bytes % kBlock)};
  const MPI_Aint places[] = {0, bytes / kBlock * kBlock};
  const MPI_Datatype parts[] = {blocks, MPI_BYTE};
  const Status made = check(MPI_Type_create_struct(2, counts, places, parts, type), "MPI_Type_create_struct");
  MPI_Type_free(&blocks);
  MPI_Type_free(&block);
  return made;
}

struct MpiElements {
  int count = 0;
  MPI_Datatype type = MPI_BYTE;
};

Result<MpiElements> elementsOf(World &world, const mgc_mpi_region &region) {
  const bool isOneRow = region.rows <= 1 || region.stride == region.row_bytes;
  const int64_t bytes = region.rows * region.row_bytes;
  if (isOneRow && bytes <= INT_MAX)
    return MpiElements{int(bytes), MPI_BYTE};
  const World::Shape shape =
      isOneRow ? World::Shape(1, bytes, bytes) : World::Shape(region.rows, region.row_bytes, region.stride);
  const auto [entry, isNew] = world.types.try_emplace(shape, MPI_DATATYPE_NULL);
  if (isNew) {
    MGC_TRY(isOneRow ? makeLargeRow(bytes, &entry->second) : makeRows(region, &entry->second));
    MGC_TRY(check(MPI_Type_commit(&entry->second), "MPI_Type_commit"));
  }
  return MpiElements{1, entry->second};
}

void describe(mgc_mpi_version *version) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  text[std::min(std::strcspn(text, "\n,"), sizeof version->text - 1)] = 0; // drops the description of the build
  std::replace(text, text + std::strlen(text), '\t', ' ');
  std::strcpy(version->text, text);
}

// Signals are mgrun's.
Status start(mgc_mpi_facts *facts) {
  int given = 0;
  MGC_TRY(check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given), "MPI_Init_thread"));
  if (given < MPI_THREAD_SERIALIZED)
    return errorf("this {} lets the thread alone that started it call it; expected MPI_THREAD_SERIALIZED", kKind);
  MPI_Comm machine = MPI_COMM_NULL;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MGC_TRY(check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine),
                "MPI_Comm_split_type"));
  int rank = 0, ranks = 0, localRank = 0, localRanks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(machine, &localRank);
  MPI_Comm_size(machine, &localRanks);
  MPI_Comm_free(&machine);
  *facts = {rank, ranks, localRank, localRanks, {}};
  describe(&facts->version);
  return Status::ok();
}

// Open MPI's mpirun ends the others; MPICH's, with -disable-auto-cleanup, waits for them.
void abandon([[maybe_unused]] int32_t code) {
#ifndef OPEN_MPI
  MPI_Abort(MPI_COMM_WORLD, code);
#endif
}

Status stop() { return check(MPI_Finalize(), "MPI_Finalize"); }

Status openWorld(mgc_mpi_world **opened) {
  auto world = std::make_unique<World>();
  MGC_TRY(check(MPI_Comm_dup(MPI_COMM_WORLD, &world->comm), "MPI_Comm_dup"));
  MPI_Comm_set_errhandler(world->comm, MPI_ERRORS_RETURN);
  *opened = reinterpret_cast<mgc_mpi_world *>(world.release());
  return Status::ok();
}

// The communicator stays: MPI_Comm_free may wait for all.
void dropWorld(mgc_mpi_world *dropped) {
  const std::unique_ptr<World> world(&of(dropped));
  for (size_t i = 0; i < world->requests.size(); ++i) {
    if (world->areReceives[i])
      MPI_Cancel(&world->requests[i]);
    MPI_Request_free(&world->requests[i]);
  }
  for (auto &[shape, type] : world->types)
    MPI_Type_free(&type);
}

Status send(mgc_mpi_world *into, const mgc_mpi_region *region, int64_t to, int32_t tag, uint64_t token, int32_t *done) {
  World &world = of(into);
  MGC_ASSIGN(elements, elementsOf(world, *region));
  MPI_Request request = MPI_REQUEST_NULL;
  MGC_TRY(
      check(MPI_Isend(region->base, elements.count, elements.type, int(to), tag, world.comm, &request), "MPI_Isend"));
  int isDone = 0;
  if (done)
    MGC_TRY(check(MPI_Test(&request, &isDone, MPI_STATUS_IGNORE), "MPI_Test"));
  if (done)
    *done = isDone;
  if (!isDone)
    world.add(request, token, false);
  return Status::ok();
}

Status receive(mgc_mpi_world *into, const mgc_mpi_region *region, int64_t from, int32_t tag, uint64_t token) {
  World &world = of(into);
  MGC_ASSIGN(elements, elementsOf(world, *region));
  MPI_Request request = MPI_REQUEST_NULL;
  const int source = from == MGC_MPI_ANY_RANK ? MPI_ANY_SOURCE : int(from);
  MGC_TRY(
      check(MPI_Irecv(region->base, elements.count, elements.type, source, tag, world.comm, &request), "MPI_Irecv"));
  world.add(request, token, true);
  return Status::ok();
}

void dropCompleted(World &world) {
  size_t kept = 0;
  for (size_t i = 0; i < world.requests.size(); ++i)
    if (world.requests[i] != MPI_REQUEST_NULL) {
      world.requests[kept] = world.requests[i];
      world.tokens[kept] = world.tokens[i];
      world.areReceives[kept++] = world.areReceives[i];
    }
  world.requests.resize(kept);
  world.tokens.resize(kept);
  world.areReceives.resize(kept);
}

Status poll(mgc_mpi_world *from, const mgc_mpi_completion **completions, int64_t *count) {
  World &world = of(from);
  *count = 0;
  const size_t begun = world.requests.size();
  if (begun == 0)
    return Status::ok();
  world.indices.resize(std::max(begun, world.indices.size()));
  world.statuses.resize(std::max(begun, world.statuses.size()));
  int found = 0;
  const int code = MPI_Testsome(int(begun), world.requests.data(), &found, world.indices.data(), world.statuses.data());
  if (code == MPI_ERR_IN_STATUS)
    for (int i = 0; i < found; ++i)
      MGC_TRY(check(world.statuses[i].MPI_ERROR, "a message"));
  MGC_TRY(check(code, "MPI_Testsome"));
  if (found == MPI_UNDEFINED || found == 0)
    return Status::ok();
  world.completions.clear();
  for (int i = 0; i < found; ++i) {
    MPI_Count bytes = 0;
    MPI_Get_elements_x(&world.statuses[i], MPI_BYTE, &bytes);
    world.completions.push_back({world.tokens[world.indices[i]], world.statuses[i].MPI_SOURCE, int64_t(bytes)});
  }
  dropCompleted(world);
  *completions = world.completions.data();
  *count = found;
  return Status::ok();
}

using plugin::entry;

constexpr mgc_mpi_api_table kTable = {.version = MGC_MPI_API_VERSION,
                                      .kind = kKind,
                                      .describe = describe,
                                      .start = entry<start>,
                                      .stop = entry<stop>,
                                      .abandon = abandon,
                                      .open_world = entry<openWorld>,
                                      .drop_world = dropWorld,
                                      .send = entry<send>,
                                      .receive = entry<receive>,
                                      .poll = entry<poll>};

} // namespace

} // namespace mgc::mpi

extern "C" __attribute__((visibility("default"))) const mgc_mpi_api_table *mgc_mpi_api(void) {
  return &mgc::mpi::kTable;
}
