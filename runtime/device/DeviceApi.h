/* The boundary between the executor and a device: a C ABI, so that one mgrun starts on every machine and opens what the
 * machine has. A plugin is a shared library that exports mgc_device_api(); runtime/device/cuda is one. The CPU's table,
 * runtime/device/cpu, is part of mgrun. runtime/device/Plugin.h opens devices and wraps them for C++.
 *
 * Every function that can fail returns 0, or -1 with a message in `error`: where, what was found, what was expected,
 * what would work. Addresses of device memory are numbers that only the plugin can follow. Calls that enqueue return at
 * once; work is done in the order of the stream; its failure is found by `synchronize` or `check`, whichever is first.
 * A failed device stays failed. Several threads share a device; one uses each stream, event, graph or communicator.
 *
 * A device of host memory (mgc_device_facts) does what is enqueued before the call returns. A caller that feeds its
 * streams from several threads orders them. */
#ifndef MGC_RUNTIME_DEVICE_DEVICEAPI_H
#define MGC_RUNTIME_DEVICE_DEVICEAPI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MGC_DEVICE_API_VERSION = 13 };

typedef uint64_t mgc_address; /* address in device memory, 0: none */
typedef struct mgc_device mgc_device;
typedef struct mgc_stream mgc_stream;
typedef struct mgc_event mgc_event;
typedef struct mgc_module mgc_module;
typedef struct mgc_kernel mgc_kernel; /* belongs to its module */
typedef struct mgc_gemm mgc_gemm;
typedef struct mgc_attention mgc_attention;
typedef struct mgc_graph mgc_graph;
typedef struct mgc_comm mgc_comm;

typedef struct {
  char text[2048]; /* ends with 0; a longer message is cut */
} mgc_error;

typedef enum { MGC_F32 = 0, MGC_BF16 = 1, MGC_I32 = 2 } mgc_type;
typedef enum { MGC_SUM = 0, MGC_MAX = 1 } mgc_reduce;
typedef enum { MGC_NO_EPILOGUE = 0, MGC_BIAS = 1 } mgc_epilogue;

typedef struct {
  char name[256];
  int32_t capability; /* plan::KernelLevelFacts; 90: compute capability 9.0 */
  int32_t multiprocessors;
  int32_t host_memory; /* 1: addresses are pointers of this process, new memory is zero, and nothing is done later */
  int64_t total_bytes, free_bytes; /* device memory, now */
  char versions[512]; /* versions of driver and libraries, for people: "driver 13.0, cuBLASLt 13.0.2, .." */
  /* The key of matrix products' algorithms, the same for equal devices: "NVIDIA H200, 132 multiprocessors, cuBLASLt 13.0.2" */
  char products[384];
} mgc_device_facts;

/* C[m,n] = (accumulate ? C : 0) + op(A)[m,k] op(B)[k,n], row-major and dense; A is stored [k,m], B [n,k] when transposed.
 * MGC_BIAS adds bias[n] to each row. */
typedef struct {
  int64_t m, n, k;
  int32_t transpose_a, transpose_b, accumulate;
  /* input: A and B; output: all other operands. Sums are f32; rounding: docs/plan-format.md, Gemm. */
  mgc_type input, output;
  int64_t workspace_bytes; /* workspace that a run will be given; its address is a multiple of 256 */
  int64_t alignment;       /* in bytes, a power of two: what divides the address of each operand of each run */
  int64_t algorithm; /* 0: what the library thinks best; otherwise as choose_gemm said; of the CPU a plan::GemmPath */
  mgc_epilogue epilogue; /* none where it accumulates */
} mgc_gemm_facts;

typedef struct {
  mgc_address a, b, bias, c, workspace; /* 0: not given */
} mgc_gemm_operands;

/* As plan::GroupedGemm: matrix products of groups of rows, whose counts (i32) are read where the stream comes to them. Wrong data of this
 * and the next three makes a device fail, with an error that names it; nothing is written. Not so where memory is the host's: the call
 * fails. */
typedef struct {
  int32_t sums, transpose_b, accumulate;
  mgc_type input, output;
  int64_t groups, rows, m, n, k;
} mgc_grouped_gemm_facts;

typedef struct {
  mgc_address a, b, counts, c;
} mgc_grouped_gemm_operands;

/* As plan::GroupRows, of a rank with the groups from `first` on, of `all`; rows of the number `all` are of none. */
typedef struct {
  int64_t groups, rows, places, first, all;
} mgc_group_rows_facts;

typedef struct { /* all i32 */
  mgc_address numbers, counts, places, sources;
} mgc_group_rows_operands;

/* As plan::DropChoices. */
typedef struct {
  int32_t by_position;
  int64_t tokens, sequences, chosen, experts, capacity, together;
} mgc_drop_choices_facts;

typedef struct { /* all i32 but the weights, f32 */
  mgc_address experts, weights, positions, kept, workspace;
} mgc_drop_choices_operands;

/* As plan::ExchangeRows, of the rank `index` of `ranks` that share a device, 256 at most: this rank's part, which reads the sources
 * of all. */
typedef struct {
  int32_t back;
  mgc_type type;
  int64_t groups, rows, places, width;
  int64_t ranks, index;
} mgc_exchange_rows_facts;

typedef struct {
  mgc_address counts;       /* i32 */
  mgc_address other_counts; /* the counts of the rank before this one (of rank 0: the last): they must be equal */
  const mgc_address *sources;
  const int32_t *names; /* numbers of the ranks, for errors */
  mgc_address destination;
} mgc_exchange_rows_operands;

/* As plan::Attention; strides in elements, 0: dense. */
typedef struct {
  int32_t backward, causal, documents, ends, sinks;
  int32_t results_in_f32; /* with bf16 operands, o (or dq, dk and dv) are f32 */
  mgc_type type;
  /* zigzag: order of the keys (plan/SequenceOrder.h), 0: only the data has it. part: the queries are this one of t / s parts. */
  int64_t zigzag, part;
  int64_t s, t, b, g, r, d, w;
  double scale, softcap;
  int64_t window;
  /* Slopes of all query heads, slope_count of them, on the host: only make_attention reads them. */
  const double *slopes;
  int64_t slope_count;
  int64_t bias_buckets, bias_max_distance; /* 0: no bias */
  double dropout;
  int64_t site, seed, instance, head_offset, group_stride;
  int64_t q_stride, k_stride, v_stride, dq_stride, dk_stride, dv_stride;
  int64_t workspace_bytes;
} mgc_attention_facts;

typedef struct {
  mgc_address q, k, v, query_positions, key_positions, starts, ends, samples, sinks, bias, o, lse, output_gradient, dq,
      dk, dv, dbias, workspace; /* 0: not given */
} mgc_attention_operands;

typedef struct {
  char bytes[128];
} mgc_comm_id; /* ncclUniqueId */

/* How long the host waits for other ranks: `timeout_ms`, or until has_ended(context), which is asked meanwhile, is not 0. */
typedef struct {
  int64_t timeout_ms;
  int32_t (*has_ended)(void *context); /* null: nothing ends it early */
  void *context;                       /* outlives the communicator */
} mgc_patience;

typedef struct {
  int32_t version; /* MGC_DEVICE_API_VERSION */

  /* --- The device. `deterministic`: no algorithm whose bits differ from run to run. */
  int (*count)(int32_t *devices, mgc_error *error);
  int (*open)(int32_t ordinal, int32_t deterministic, mgc_device **device, mgc_error *error);
  void (*close)(mgc_device *device);
  int (*describe)(mgc_device *device, mgc_device_facts *facts, mgc_error *error);
  int (*check)(mgc_device *device, mgc_error *error); /* whether the device has failed */

  /* --- Memory. Device memory is not set to anything. Host memory is pinned, zero, and seen by the device. */
  int (*allocate)(mgc_device *device, int64_t bytes, mgc_address *address, mgc_error *error);
  void (*release)(mgc_device *device, mgc_address address); /* returns when what was enqueued before is done with it */
  int (*allocate_host)(mgc_device *device, int64_t bytes, void **data, mgc_error *error);
  void (*release_host)(mgc_device *device, void *data);
  /* Pins memory of this process, which stays its own, until it is unpinned; the device has nothing to do with it then. */
  int (*pin)(mgc_device *device, void *data, int64_t bytes, mgc_error *error);
  void (*unpin)(mgc_device *device, void *data);

  /* --- Streams and events. */
  int (*make_stream)(mgc_device *device, int32_t high_priority, mgc_stream **stream, mgc_error *error);
  void (*drop_stream)(mgc_stream *stream); /* its work is still completed, maybe later */
  int (*make_event)(mgc_device *device, int32_t timed, mgc_event **event, mgc_error *error);
  void (*drop_event)(mgc_event *event);
  int (*record)(mgc_stream *stream, mgc_event *event, mgc_error *error);
  int (*wait)(mgc_stream *stream, mgc_event *event, mgc_error *error); /* for its last record; none: no wait */
  int (*query)(mgc_event *event, int32_t *done, mgc_error *error);
  int (*milliseconds)(mgc_event *begin, mgc_event *end, double *value, mgc_error *error); /* both timed and done */
  int (*synchronize)(mgc_stream *stream, int64_t timeout_ms,
                     mgc_error *error); /* an error at the deadline too; < 0: none */
  /* Writes `value` into pinned host memory when the stream comes there: how far it has come, also after a fault. */
  int (*mark)(mgc_stream *stream, uint32_t *host, uint32_t value, mgc_error *error);

  /* --- Copies and fills. Host memory is pinned. */
  int (*copy_in)(mgc_stream *stream, mgc_address to, const void *from, int64_t bytes, mgc_error *error);
  int (*copy_out)(mgc_stream *stream, void *to, mgc_address from, int64_t bytes, mgc_error *error);
  int (*copy)(mgc_stream *stream, mgc_address to, mgc_address from, int64_t bytes, mgc_error *error);
  /* `rows` times `bytes`, from one begin to the next `to_pitch` and `from_pitch`. */
  int (*copy_rows)(mgc_stream *stream, mgc_address to, int64_t to_pitch, mgc_address from, int64_t from_pitch,
                   int64_t bytes, int64_t rows, mgc_error *error);
  int (*fill)(mgc_stream *stream, mgc_address to, uint8_t byte, int64_t bytes, mgc_error *error);

  /* --- Row kernels: a file of the plan, as docs/plan-format.md describes it: its text, and where it lies. */
  int (*load_module)(mgc_device *device, const char *path, const char *text, int64_t bytes, mgc_module **module,
                     mgc_error *error);
  void (*drop_module)(mgc_module *module);
  int (*find_kernel)(mgc_module *module, const char *symbol, mgc_kernel **kernel, mgc_error *error);
  /* The i64 array `symbol` of the module into values[0, capacity); `count`: how many it has, -1 when there is none. */
  int (*read_array)(mgc_module *module, const char *symbol, int64_t *values, int64_t capacity, int64_t *count,
                    mgc_error *error);
  int (*launch)(mgc_stream *stream, mgc_kernel *kernel, int64_t blocks, int64_t threads, int64_t shared_bytes,
                const mgc_address *operands, int64_t operand_count, const int64_t *scalars, int64_t scalar_count,
                mgc_error *error);

  /* --- Library calls. A call object is used on one stream at a time; its algorithm is chosen when it is made. */
  /* Times the algorithms that there are for a product on `stream`, with operands and workspace in `room`, which it overwrites;
   * `algorithm` is the fastest, or 0 where none is clearly faster, for mgc_gemm_facts of an equal device and library, and nothing
   * else. Measurements vary: who wants equal bits from run to run keeps the answer. `room_needed` is said, and nothing timed,
   * where `room` is 0. */
  int (*choose_gemm)(mgc_stream *stream, const mgc_gemm_facts *facts, mgc_address room, int64_t *room_needed,
                     int64_t *algorithm, mgc_error *error);
  int (*make_gemm)(mgc_device *device, const mgc_gemm_facts *facts, mgc_gemm **gemm, mgc_error *error);
  void (*drop_gemm)(mgc_gemm *gemm);
  int (*run_gemm)(mgc_stream *stream, mgc_gemm *gemm, const mgc_gemm_operands *operands, mgc_error *error);
  int (*run_grouped_gemm)(mgc_stream *stream, const mgc_grouped_gemm_facts *facts,
                          const mgc_grouped_gemm_operands *operands, mgc_error *error);
  int (*run_group_rows)(mgc_stream *stream, const mgc_group_rows_facts *facts, const mgc_group_rows_operands *operands,
                        mgc_error *error);
  int (*run_drop_choices)(mgc_stream *stream, const mgc_drop_choices_facts *facts,
                          const mgc_drop_choices_operands *operands, mgc_error *error);
  int (*run_exchange_rows)(mgc_stream *stream, const mgc_exchange_rows_facts *facts,
                           const mgc_exchange_rows_operands *operands, mgc_error *error);
  int (*make_attention)(mgc_device *device, const mgc_attention_facts *facts, mgc_attention **attention,
                        mgc_error *error);
  void (*drop_attention)(mgc_attention *attention);
  int (*run_attention)(mgc_stream *stream, mgc_attention *attention, const mgc_attention_operands *operands,
                       mgc_error *error);

  /* to[i] = the sum (in f32, in the order of the sources, rounded once) or maximum of sources[..][i], `elements` of `type`: for
   * ranks that share a device. `to` may be one of the sources. At most 256 sources. */
  int (*combine)(mgc_stream *stream, mgc_reduce reduce, mgc_type type, mgc_address to, const mgc_address *sources,
                 int64_t count, int64_t elements, mgc_error *error);

  /* --- Graphs: what is enqueued on `stream`, and on streams that wait for its events, from begin to end, is not done but kept. Meanwhile
   * the thread that began allocates nothing, makes nothing, and asks and waits for nothing on the device; others may. */
  int (*begin_capture)(mgc_stream *stream, mgc_error *error);
  int (*end_capture)(mgc_stream *stream, mgc_graph **graph, mgc_error *error);
  void (*drop_graph)(mgc_graph *graph);
  int (*launch_graph)(mgc_stream *stream, mgc_graph *graph, mgc_error *error);

  /* --- NCCL: one process a rank. `patience` is for what the host waits for: the others at make_comm, and connections that the
   * first use makes. Enqueued work has no deadline but the caller's: abort from any thread ends it. */
  int (*make_comm_id)(mgc_device *device, mgc_comm_id *id, mgc_error *error);
  int (*make_comm)(mgc_device *device, const mgc_comm_id *id, int64_t ranks, int64_t rank, const mgc_patience *patience,
                   mgc_comm **comm, mgc_error *error);
  void (*drop_comm)(mgc_comm *comm);
  /* All that a rank has at once: an operation of one may hold up the end of another. Their graphs are dropped before. Returns
   * when they have ended, or after some seconds, when what they use is left to the end of the process. */
  void (*abort_comms)(mgc_comm *const *comms, int64_t count);
  int (*check_comm)(mgc_comm *comm, mgc_error *error); /* asynchronous errors */
  int (*all_reduce)(mgc_stream *stream, mgc_comm *comm, mgc_reduce reduce, mgc_type type, mgc_address to,
                    mgc_address from, int64_t elements, mgc_error *error);
  int (*all_gather)(mgc_stream *stream, mgc_comm *comm, mgc_type type, mgc_address to, mgc_address from,
                    int64_t elements, mgc_error *error); /* elements of each rank */
  int (*reduce_scatter)(mgc_stream *stream, mgc_comm *comm, mgc_reduce reduce, mgc_type type, mgc_address to,
                        mgc_address from, int64_t elements, mgc_error *error); /* elements of each rank's result */
  int (*send)(mgc_stream *stream, mgc_comm *comm, mgc_address from, int64_t bytes, int64_t peer, mgc_error *error);
  int (*receive)(mgc_stream *stream, mgc_comm *comm, mgc_address to, int64_t bytes, int64_t peer, mgc_error *error);
  int (*begin_group)(mgc_device *device, mgc_error *error); /* opens a group of collectives and transfers */
  int (*end_group)(mgc_device *device, mgc_error *error);   /* closes the group, on the thread that opened it */
} mgc_device_api_table;

/* The function that a plugin exports. */
typedef const mgc_device_api_table *(*mgc_device_api_function)(void);
#define MGC_DEVICE_API_SYMBOL "mgc_device_api"

#ifdef __cplusplus
}
#endif

#endif
