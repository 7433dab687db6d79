// Whether orders of tasks are a schedule. In: one list of tasks per stage, from a text or a solver. Out: every step that is
// wrong, with the step that it contradicts.
#pragma once

#include "compiler/schedule/Schedule.h"

#include <functional>

namespace mgc::schedule {

// The task as a text of schedules spells it: "F0" of microbatch 0; with several chunks per stage the global chunk goes
// first, "3F0", as in PyTorch.
std::string tokenOf(const Shape &shape, int64_t stage, const ScheduledTask &task);

// How messages name the step `index` of a stage; empty: "stage 1 step 4 B0".
using StepNames = std::function<std::string(int64_t stage, int64_t index)>;

// Whether any backward is in two tasks, input and weight.
bool isSplit(const std::vector<Order> &orders);

// Every task of the shape exactly once, after those of its stage that it needs; the gradients of a chunk in ascending order of
// microbatches; no stages that wait for each other. All violations are in the message (at most 20).
Status checkOrders(const Shape &shape, const std::vector<Order> &orders, const StepNames &names = {});

} // namespace mgc::schedule
