// The table that the plugin exports: each entry is a function of Internal.h, its Status as a number and a message.
#include "runtime/device/PluginEntry.h"
#include "runtime/device/cuda/Internal.h"

#include <cstring>

namespace mgc::cuda {

namespace {

using plugin::entry;

constexpr mgc_device_api_table kTable = {
    .version = MGC_DEVICE_API_VERSION,
    .count = entry<deviceCount>,
    .open = entry<openDevice>,
    .close = closeDevice,
    .describe = entry<describeDevice>,
    .check = entry<checkDevice>,
    .allocate = entry<allocate>,
    .release = release,
    .allocate_host = entry<allocateHost>,
    .release_host = releaseHost,
    .pin = entry<pin>,
    .unpin = unpin,
    .make_stream = entry<makeStream>,
    .drop_stream = dropStream,
    .make_event = entry<makeEvent>,
    .drop_event = dropEvent,
    .record = entry<record>,
    .wait = entry<wait>,
    .query = entry<query>,
    .milliseconds = entry<milliseconds>,
    .synchronize = entry<synchronize>,
    .mark = entry<mark>,
    .copy_in = entry<copyIn>,
    .copy_out = entry<copyOut>,
    .copy = entry<copy>,
    .copy_rows = entry<copyRows>,
    .fill = entry<fill>,
    .load_module = entry<loadModule>,
    .drop_module = dropModule,
    .find_kernel = entry<findKernel>,
    .read_array = entry<readArray>,
    .launch = entry<launch>,
    .choose_gemm = entry<chooseGemm>,
    .make_gemm = entry<makeGemm>,
    .drop_gemm = dropGemm,
    .run_gemm = entry<runGemm>,
    .run_grouped_gemm = entry<runGroupedGemm>,
    .run_group_rows = entry<runGroupRows>,
    .run_drop_choices = entry<runDropChoices>,
    .run_exchange_rows = entry<runExchangeRows>,
    .make_attention = entry<makeAttention>,
    .drop_attention = dropAttention,
    .run_attention = entry<runAttention>,
    .combine = entry<combine>,
    .begin_capture = entry<beginCapture>,
    .end_capture = entry<endCapture>,
    .drop_graph = dropGraph,
    .launch_graph = entry<launchGraph>,
    .make_comm_id = entry<makeCommId>,
    .make_comm = entry<makeComm>,
    .drop_comm = dropComm,
    .abort_comms = abortComms,
    .check_comm = entry<checkComm>,
    .all_reduce = entry<allReduce>,
    .all_gather = entry<allGather>,
    .reduce_scatter = entry<reduceScatter>,
    .send = entry<send>,
    .receive = entry<receive>,
    .begin_group = entry<beginGroup>,
    .end_group = entry<endGroup>,
};

} // namespace

} // namespace mgc::cuda

extern "C" __attribute__((visibility("default"))) const mgc_device_api_table *mgc_device_api(void) {
  return &mgc::cuda::kTable;
}
