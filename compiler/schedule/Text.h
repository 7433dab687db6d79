// Schedules as text. In: a text, one row of tasks per stage. Out: the orders and the shape they are for; and back.
//
//   # a comment                       0F0,,3F0,3B0,0B0
//   stage 0: 0F0 3F0 3B0 0B0          1F0,2F0,,2B0,1B0
//   stage 1: 1F0 2F0 2B0 1B0
//
// Both say the same. A task is the global chunk, what runs (F forward, B backward; or I input gradient and W weight gradient)
// and the microbatch; where each stage has one chunk, the chunk may be left out: F0. The right form is the one that PyTorch
// writes (torch.distributed.pipelining): one line per rank, without names, empty cells where it is idle, SEND_ and RECV_ of
// tasks perhaps, which are skipped: messages follow from the order. Two tasks that run at the same time are one word, 0F4+3B0, in
// PyTorch's form (0F4;3B0)OVERLAP_F_B; each text may have either. Stages, chunks, microbatches and placement are those that
// the tasks have. Where any backward is split, a B is read as I and W, one after the other.
#pragma once

#include "compiler/schedule/Schedule.h"

#include <string_view>

namespace mgc::schedule {

struct ScheduleText {
  Shape shape;
  std::vector<Order> orders; // checked by checkOrders
  bool splitBackward = false;
};

// An error names the steps that are wrong, with line and column; all of them (at most 20).
Result<ScheduleText> readScheduleText(std::string_view text);

enum class TextForm { rows, csv };
// A text that reads back as these orders, without comments.
std::string writeScheduleText(const Shape &shape, const std::vector<Order> &orders, TextForm form = TextForm::rows);

} // namespace mgc::schedule
