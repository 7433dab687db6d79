#include "runtime/device/CallFacts.h"

#include <cstring>

namespace mgc {

namespace {

template <typename Facts> Facts zeroed() { // padding too: equal facts have equal bytes
  Facts facts;
  std::memset(&facts, 0, sizeof facts);
  return facts;
}

plan::DType planType(mgc_type type) {
  return type == MGC_F32 ? plan::DType::f32 : type == MGC_BF16 ? plan::DType::bf16 : plan::DType::i32;
}

mgc_epilogue deviceEpilogue(plan::Epilogue epilogue) {
  switch (epilogue) {
  case plan::Epilogue::none:
    break;
  case plan::Epilogue::bias:
    return MGC_BIAS;
  case plan::Epilogue::gelu:
    return MGC_BIAS_GELU;
  }
  return MGC_NO_EPILOGUE;
}

plan::Epilogue planEpilogue(mgc_epilogue epilogue) {
  return epilogue == MGC_BIAS        ? plan::Epilogue::bias
         : epilogue == MGC_BIAS_GELU ? plan::Epilogue::gelu
                                     : plan::Epilogue::none;
}

} // namespace

mgc_type deviceType(plan::DType type) {
  switch (type) {
  case plan::DType::f32:
    return MGC_F32;
  case plan::DType::bf16:
    return MGC_BF16;
  case plan::DType::i32:
    break;
  }
  return MGC_I32;
}

mgc_reduce deviceReduce(plan::ReduceKind kind) { return kind == plan::ReduceKind::max ? MGC_MAX : MGC_SUM; }

mgc_gemm_facts factsOf(const plan::Gemm &gemm) {
  auto facts = zeroed<mgc_gemm_facts>();
  facts.m = gemm.m, facts.n = gemm.n, facts.k = gemm.k;
  facts.transpose_a = gemm.transposeA, facts.transpose_b = gemm.transposeB;
  facts.accumulate = gemm.accumulate;
  facts.input = deviceType(gemm.inputType), facts.output = deviceType(gemm.outputType);
  facts.workspace_bytes = gemm.workspaceBytes;
  facts.epilogue = deviceEpilogue(gemm.epilogue);
  return facts;
}

plan::Gemm planOf(const mgc_gemm_facts &facts) {
  plan::Gemm gemm;
  gemm.m = facts.m, gemm.n = facts.n, gemm.k = facts.k;
  gemm.transposeA = facts.transpose_a != 0, gemm.transposeB = facts.transpose_b != 0;
  gemm.accumulate = facts.accumulate != 0;
  gemm.inputType = planType(facts.input), gemm.outputType = planType(facts.output);
  gemm.workspaceBytes = facts.workspace_bytes;
  gemm.epilogue = planEpilogue(facts.epilogue);
  return gemm;
}

mgc_grouped_gemm_facts factsOf(const plan::GroupedGemm &gemm) {
  auto facts = zeroed<mgc_grouped_gemm_facts>();
  facts.sums = gemm.form == plan::GroupedGemm::Form::sums;
  facts.transpose_b = gemm.transposeB, facts.accumulate = gemm.accumulate;
  facts.input = deviceType(gemm.inputType), facts.output = deviceType(gemm.outputType);
  facts.groups = gemm.groups, facts.rows = gemm.rows;
  facts.m = gemm.m, facts.n = gemm.n, facts.k = gemm.k;
  return facts;
}

mgc_drop_choices_facts factsOf(const plan::DropChoices &what) {
  auto facts = zeroed<mgc_drop_choices_facts>();
  facts.by_position = what.byPosition;
  facts.tokens = what.tokens, facts.sequences = what.sequences, facts.chosen = what.chosen;
  facts.experts = what.experts, facts.capacity = what.capacity, facts.together = what.together;
  return facts;
}

plan::DropChoices planOf(const mgc_drop_choices_facts &facts) {
  return {.tokens = facts.tokens,
          .sequences = facts.sequences,
          .chosen = facts.chosen,
          .experts = facts.experts,
          .capacity = facts.capacity,
          .together = facts.together,
          .byPosition = facts.by_position != 0};
}

plan::GroupedGemm planOf(const mgc_grouped_gemm_facts &facts) {
  plan::GroupedGemm gemm;
  gemm.form = facts.sums != 0 ? plan::GroupedGemm::Form::sums : plan::GroupedGemm::Form::rows;
  gemm.transposeB = facts.transpose_b != 0, gemm.accumulate = facts.accumulate != 0;
  gemm.inputType = planType(facts.input), gemm.outputType = planType(facts.output);
  gemm.groups = facts.groups, gemm.rows = facts.rows;
  gemm.m = facts.m, gemm.n = facts.n, gemm.k = facts.k;
  return gemm;
}

mgc_exchange_rows_facts factsOf(const plan::ExchangeRows &what, int64_t ranks, int64_t index) {
  auto facts = zeroed<mgc_exchange_rows_facts>();
  facts.back = what.back, facts.type = deviceType(what.type);
  facts.groups = what.groups, facts.rows = what.rows, facts.places = what.places, facts.width = what.width;
  facts.ranks = ranks, facts.index = index;
  return facts;
}

mgc_attention_facts factsOf(const plan::Attention &attention) {
  auto facts = zeroed<mgc_attention_facts>();
  facts.backward = attention.backward, facts.causal = attention.causal;
  facts.documents = attention.documents, facts.ends = attention.ends, facts.sinks = attention.sinks;
  facts.type = deviceType(attention.type), facts.results_in_f32 = attention.resultsInF32;
  facts.zigzag = attention.zigzag;
  facts.s = attention.s, facts.t = attention.t, facts.b = attention.b;
  facts.g = attention.g, facts.r = attention.r, facts.d = attention.d, facts.w = attention.w;
  facts.scale = attention.scale, facts.softcap = attention.softcap, facts.window = attention.window;
  facts.slopes = attention.slopes.data(), facts.slope_count = std::ssize(attention.slopes);
  facts.bias_buckets = attention.biasBuckets, facts.bias_max_distance = attention.biasMaxDistance;
  if (attention.dropout > 0) // calls without dropout must not differ in fields that only dropout reads
    facts.dropout = attention.dropout, facts.site = attention.site;
  if (attention.knowsHeads())
    facts.group_stride = attention.groupStride;
  facts.q_stride = attention.qStride, facts.k_stride = attention.kStride, facts.v_stride = attention.vStride;
  facts.dq_stride = attention.dqStride, facts.dk_stride = attention.dkStride, facts.dv_stride = attention.dvStride;
  facts.workspace_bytes = attention.workspaceBytes;
  return facts;
}

plan::Attention planOf(const mgc_attention_facts &facts) {
  plan::Attention attention;
  attention.backward = facts.backward != 0, attention.causal = facts.causal != 0;
  attention.documents = facts.documents != 0, attention.ends = facts.ends != 0;
  attention.sinks = facts.sinks != 0;
  attention.type = planType(facts.type), attention.resultsInF32 = facts.results_in_f32 != 0;
  attention.zigzag = facts.zigzag;
  attention.s = facts.s, attention.t = facts.t, attention.b = facts.b;
  attention.g = facts.g, attention.r = facts.r, attention.d = facts.d, attention.w = facts.w;
  attention.scale = facts.scale, attention.softcap = facts.softcap, attention.window = facts.window;
  attention.slopes.assign(facts.slopes, facts.slopes + facts.slope_count);
  attention.biasBuckets = facts.bias_buckets, attention.biasMaxDistance = facts.bias_max_distance;
  attention.dropout = facts.dropout, attention.site = facts.site, attention.groupStride = facts.group_stride;
  attention.qStride = facts.q_stride, attention.kStride = facts.k_stride, attention.vStride = facts.v_stride;
  attention.dqStride = facts.dq_stride, attention.dkStride = facts.dk_stride, attention.dvStride = facts.dv_stride;
  attention.workspaceBytes = facts.workspace_bytes;
  return attention;
}

} // namespace mgc
