/* The boundary between mgrun and an MPI: a C ABI, so that one mgrun starts on machines without MPI and under either kind.
 * runtime/comm/mpi/plugin is built once for each kind found (cmake/MgcMpi.cmake); MpiLibrary.h opens the one that the
 * launcher needs.
 *
 * Functions that can fail return 0, or -1 with a message in `error`. One thread at a time calls the table. Only start, stop
 * and open_world wait for other ranks; all ranks call them, in one order.
 *
 * What send and receive begin ends in a completion, with the token of the call. Messages between two ranks of a world match in
 * the order of the calls with one tag. */
#ifndef MGC_RUNTIME_COMM_MPI_MPIAPI_H
#define MGC_RUNTIME_COMM_MPI_MPIAPI_H

#include "runtime/device/DeviceApi.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MGC_MPI_API_VERSION = 3 };
enum { MGC_MPI_ANY_RANK = -1 };

typedef struct mgc_mpi_world mgc_mpi_world;

/* The opened library, for people: "Open MPI 4.1.4". */
typedef struct {
  char text[256];
} mgc_mpi_version;

typedef struct {
  int64_t rank, ranks;             /* numbering of all processes that were started together */
  int64_t local_rank, local_ranks; /* numbering of the processes on this machine */
  mgc_mpi_version version;
} mgc_mpi_facts;

/* `rows` pieces of `row_bytes`, `stride` bytes from one to the next. Only read of what is sent. */
typedef struct {
  void *base;
  int64_t rows, row_bytes, stride;
} mgc_mpi_region;

typedef struct {
  uint64_t token;
  int64_t rank, bytes; /* a receive: the sender, and the number of bytes that came */
} mgc_mpi_completion;

typedef struct {
  int32_t version;
  const char *kind;                           /* the MPI that the plugin was built for: "Open MPI" or "MPICH" */
  void (*describe)(mgc_mpi_version *version); /* before start, too */
  int (*start)(mgc_mpi_facts *facts, mgc_error *error);
  int (*stop)(mgc_error *error);
  /* Ends all processes of the job with `code`, this one too, those that hang as well; returns where their launcher does so by
   * itself once one has ended with a code. No message is waited for. */
  void (*abandon)(int32_t code);
  int (*open_world)(mgc_mpi_world **world, mgc_error *error);
  /* Does not wait. Receives that have not completed are dropped. */
  void (*drop_world)(mgc_mpi_world *world);
  /* The region stays until the completion. `done`, where it is not null: 1 when the message has left already, and no completion
   * comes. */
  int (*send)(mgc_mpi_world *world, const mgc_mpi_region *region, int64_t to, int32_t tag, uint64_t token,
              int32_t *done, mgc_error *error);
  /* A message may be shorter than the region of one row. */
  int (*receive)(mgc_mpi_world *world, const mgc_mpi_region *region, int64_t from, int32_t tag, uint64_t token,
                 mgc_error *error);
  /* Returns the requests completed since the last call; the list is valid until the next call. */
  int (*poll)(mgc_mpi_world *world, const mgc_mpi_completion **completions, int64_t *count, mgc_error *error);
} mgc_mpi_api_table;

/* The function that a plugin exports. */
typedef const mgc_mpi_api_table *(*mgc_mpi_api_function)(void);
#define MGC_MPI_API_SYMBOL "mgc_mpi_api"

#ifdef __cplusplus
}
#endif

#endif
