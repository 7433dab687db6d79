// The terms of the loss that keep the load of experts even (docs/experts.md), by the names of Megatron-LM.
#pragma once

#include "frontend/layout/Layout.h"

namespace mgc::frontend {

// Values of --moe-router-load-balancing-type: those that are possible, and why one of Megatron-LM's others is not; empty: it
// is none of them.
std::vector<std::string> balanceTypes(const Supported &);
std::string refusedBalanceType(const std::string &type);

// Values of --moe-token-drop-policy.
std::vector<std::string> dropPolicies(const Supported &);

// Records what is wrong with the layout's balance for the model.
void checkBalance(const ModelDescription &model, const Layout &layout, Problems &problems);

} // namespace mgc::frontend
