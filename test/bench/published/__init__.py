"""Published runs of test/tables as rows that predictions are measured against; docs/published-runs.md."""
from . import fsdp_rows, gpt_rows, nemo_rows
from .row import Row, lines


def excluded(table, reason, model="model"):
    return lambda: [Row(table=table, line=line, model=cells[model], reason=reason) for line, cells in lines(table)]


# The tables of steps, by the rows of which the runs are.
STEPS = (
    nemo_rows.dgxc, nemo_rows.bridge, nemo_rows.mcore_moe, nemo_rows.recomputation, nemo_rows.simumax, nemo_rows.llama3,
    nemo_rows.weak_scaling, fsdp_rows.llm_foundry, fsdp_rows.fms, fsdp_rows.torchtitan, gpt_rows.vtrain_multi,
    gpt_rows.vtrain_single, gpt_rows.narayanan, gpt_rows.narayanan_zero, gpt_rows.narayanan_points, gpt_rows.korthikanti,
    gpt_rows.layer_times, gpt_rows.zero_bubble,
    excluded("nemo_performance_summary", "precision"), excluded("nemo_long_context", "precision"),
    excluded("moe_modelzoo_qwen3", "model"), excluded("moe_parallel_folding_table3", "microbatch"),
    excluded("moe_parallel_folding_table4_scaling", "layout"), excluded("moe_parallel_folding_table5_context", "microbatch"),
    excluded("primus_pipeline", "device"),
)
# Tables without times of steps: sizes, formulas, bubbles, memory, kernels and collectives.
OTHERS = ("korthikanti_fig1_fig7_memory", "korthikanti_table2_activation_formulas", "megatron_pr482_memory", "model_architectures",
          "pipeline_schedule_formulas", "simumax_b200_memory_by_rank", "simumax_kernels", "vtrain_allreduce",
          "zero_bubble_table5_bubble_rates", "zero_bubble_table8_zbv_bubbles")


def rows():
    return [row for table in STEPS for row in table()]
