// The calls of a device's library as the ABI describes them, and as a plan does.
#pragma once

#include "plan/instructions/Instruction.h"
#include "runtime/device/DeviceApi.h"

namespace mgc {

mgc_type deviceType(plan::DType type);
mgc_reduce deviceReduce(plan::ReduceKind kind);

// The facts of a call as far as a plan has them: not its alignment and algorithm, nor what its dropout depends on.
mgc_gemm_facts factsOf(const plan::Gemm &gemm);
mgc_grouped_gemm_facts factsOf(const plan::GroupedGemm &gemm);
mgc_drop_choices_facts factsOf(const plan::DropChoices &what);
mgc_attention_facts factsOf(const plan::Attention &attention); // its slopes are those of `attention`
mgc_exchange_rows_facts factsOf(const plan::ExchangeRows &what, int64_t ranks, int64_t index);

// The same back; a matrix product's path is left to the rule, and attention's scalars have values, without terms.
plan::Gemm planOf(const mgc_gemm_facts &facts);
plan::GroupedGemm planOf(const mgc_grouped_gemm_facts &facts);
plan::DropChoices planOf(const mgc_drop_choices_facts &facts);
plan::Attention planOf(const mgc_attention_facts &facts);

} // namespace mgc
