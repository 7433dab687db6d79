#include "runtime/device/CallFacts.h"

#include <cstring>

namespace mgc {

namespace {

using plan::Of;

static_assert(int(plan::DType::f32) == MGC_F32 && int(plan::DType::bf16) == MGC_BF16 &&
              int(plan::DType::i32) == MGC_I32);
static_assert(int(plan::Epilogue::none) == MGC_NO_EPILOGUE && int(plan::Epilogue::bias) == MGC_BIAS);

// --- The members of a plan's struct, each with the member of the ABI's struct that has the same value ----------------

template <typename Visit> constexpr void members(Of<plan::Gemm>, Visit same) {
  using P = plan::Gemm;
  using F = mgc_gemm_facts;
  same(&P::m, &F::m), same(&P::n, &F::n), same(&P::k, &F::k);
  same(&P::transposeA, &F::transpose_a), same(&P::transposeB, &F::transpose_b), same(&P::accumulate, &F::accumulate);
  same(&P::inputType, &F::input), same(&P::outputType, &F::output);
  same(&P::workspaceBytes, &F::workspace_bytes), same(&P::epilogue, &F::epilogue);
}

template <typename Visit> constexpr void members(Of<plan::GroupedGemm>, Visit same) {
  using P = plan::GroupedGemm;
  using F = mgc_grouped_gemm_facts;
  static_assert(int(P::Form::rows) == 0 && int(P::Form::sums) == 1);
  same(&P::form, &F::sums), same(&P::transposeB, &F::transpose_b), same(&P::accumulate, &F::accumulate);
  same(&P::inputType, &F::input), same(&P::outputType, &F::output);
  same(&P::groups, &F::groups), same(&P::rows, &F::rows);
  same(&P::m, &F::m), same(&P::n, &F::n), same(&P::k, &F::k);
}

template <typename Visit> constexpr void members(Of<plan::DropChoices>, Visit same) {
  using P = plan::DropChoices;
  using F = mgc_drop_choices_facts;
  same(&P::byPosition, &F::by_position);
  same(&P::tokens, &F::tokens), same(&P::sequences, &F::sequences), same(&P::chosen, &F::chosen);
  same(&P::experts, &F::experts), same(&P::capacity, &F::capacity), same(&P::together, &F::together);
}

template <typename Visit> constexpr void members(Of<plan::ExchangeRows>, Visit same) {
  using P = plan::ExchangeRows;
  using F = mgc_exchange_rows_facts;
  same(&P::back, &F::back), same(&P::type, &F::type);
  same(&P::groups, &F::groups), same(&P::rows, &F::rows), same(&P::places, &F::places), same(&P::width, &F::width);
}

template <typename Visit> constexpr void members(Of<plan::Attention>, Visit same) {
  using P = plan::Attention;
  using F = mgc_attention_facts;
  same(&P::backward, &F::backward), same(&P::causal, &F::causal);
  same(&P::documents, &F::documents), same(&P::ends, &F::ends), same(&P::sinks, &F::sinks);
  same(&P::type, &F::type), same(&P::resultsInF32, &F::results_in_f32), same(&P::zigzag, &F::zigzag);
  same(&P::s, &F::s), same(&P::t, &F::t), same(&P::b, &F::b);
  same(&P::g, &F::g), same(&P::r, &F::r), same(&P::d, &F::d), same(&P::w, &F::w);
  same(&P::scale, &F::scale), same(&P::softcap, &F::softcap), same(&P::window, &F::window);
  same(&P::biasBuckets, &F::bias_buckets), same(&P::biasMaxDistance, &F::bias_max_distance);
  same(&P::dropout, &F::dropout), same(&P::site, &F::site), same(&P::groupStride, &F::group_stride);
  same(&P::qStride, &F::q_stride), same(&P::kStride, &F::k_stride), same(&P::vStride, &F::v_stride);
  same(&P::dqStride, &F::dq_stride), same(&P::dkStride, &F::dk_stride), same(&P::dvStride, &F::dv_stride);
  same(&P::workspaceBytes, &F::workspace_bytes);
}

struct FieldCount {
  int count = 0;
  constexpr void required(std::string_view, auto) { ++count; }
  constexpr void optional(std::string_view, auto) { ++count; }
};
// The number of fields in plan.json that are not among `members`.
template <typename Plan> constexpr int fieldsApart() {
  FieldCount all;
  fields(all, Of<Plan>());
  members(Of<Plan>(), [&](auto, auto) { --all.count; });
  return all.count;
}
static_assert(fieldsApart<plan::Gemm>() == 1); // path
static_assert(fieldsApart<plan::GroupedGemm>() == 0);
static_assert(fieldsApart<plan::DropChoices>() == 0);
static_assert(fieldsApart<plan::ExchangeRows>() == 1); // axes
static_assert(fieldsApart<plan::Attention>() == 5);    // slopes, seed, instance, headOffset, queryAxes

template <typename To, typename From> void set(To &to, From from) { to = static_cast<To>(from); }

template <typename Facts, typename Plan> Facts convertPlan(const Plan &plan) {
  Facts facts;
  std::memset(&facts, 0, sizeof facts); // padding too: equal facts have equal bytes
  members(Of<Plan>(), [&](auto ofPlan, auto ofFacts) { set(facts.*ofFacts, plan.*ofPlan); });
  return facts;
}

template <typename Plan, typename Facts> Plan convertFacts(const Facts &facts) {
  Plan plan;
  members(Of<Plan>(), [&](auto ofPlan, auto ofFacts) { set(plan.*ofPlan, facts.*ofFacts); });
  return plan;
}

} // namespace

mgc_type deviceType(plan::DType type) { return static_cast<mgc_type>(type); }

mgc_reduce deviceReduce(plan::ReduceKind kind) { return kind == plan::ReduceKind::max ? MGC_MAX : MGC_SUM; }

mgc_gemm_facts factsOf(const plan::Gemm &gemm) { return convertPlan<mgc_gemm_facts>(gemm); }
mgc_grouped_gemm_facts factsOf(const plan::GroupedGemm &gemm) { return convertPlan<mgc_grouped_gemm_facts>(gemm); }
mgc_drop_choices_facts factsOf(const plan::DropChoices &what) { return convertPlan<mgc_drop_choices_facts>(what); }

mgc_exchange_rows_facts factsOf(const plan::ExchangeRows &what, int64_t ranks, int64_t index) {
  auto facts = convertPlan<mgc_exchange_rows_facts>(what);
  facts.ranks = ranks, facts.index = index;
  return facts;
}

mgc_attention_facts factsOf(const plan::Attention &attention) {
  auto facts = convertPlan<mgc_attention_facts>(attention);
  facts.slopes = attention.slopes.data(), facts.slope_count = std::ssize(attention.slopes);
  // Calls must not differ in fields that they do not read.
  if (attention.dropout <= 0)
    facts.site = 0;
  if (!attention.knowsHeads())
    facts.group_stride = 0;
  return facts;
}

plan::Gemm planOf(const mgc_gemm_facts &facts) { return convertFacts<plan::Gemm>(facts); }
plan::GroupedGemm planOf(const mgc_grouped_gemm_facts &facts) { return convertFacts<plan::GroupedGemm>(facts); }
plan::DropChoices planOf(const mgc_drop_choices_facts &facts) { return convertFacts<plan::DropChoices>(facts); }

plan::Attention planOf(const mgc_attention_facts &facts) {
  auto attention = convertFacts<plan::Attention>(facts);
  attention.slopes.assign(facts.slopes, facts.slopes + facts.slope_count);
  attention.seed.value = facts.seed, attention.instance.value = facts.instance;
  attention.headOffset.value = facts.head_offset;
  return attention;
}

} // namespace mgc
