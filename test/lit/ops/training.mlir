// #mg.training: fields in the order of their list, whatever the order in a file; fields at their defaults are not printed.
// RUN: %mg-opt %s -split-input-file | FileCheck %s
// RUN: %mg-opt %s -split-input-file | %mg-opt -split-input-file | FileCheck %s

// CHECK: module attributes {mg.training = #mg.training<sequence_length = 8, microbatches = 2, schedule = "auto", schedule_memory = 7.500000e-01, chunks_in_v = true, dtype = bf16, context_types = ["p2p", "a2a"], objective = "masked", start_token = 0, images = {channels = 3 : i64, class_tokens = 0 : i64, columns = 2 : i64, first_feature = 0 : i64, patch_size = 4 : i64, rows = 2 : i64, token = 5 : i64}, settings = {{\[\[}}"--dtype", "bf16", "noted"]]>}
module attributes {mg.training = #mg.training<microbatches = 2, sequence_length = 8 : i64, schedule = "auto", dtype = bf16,
  schedule_memory = 0.75, settings = [["--dtype", "bf16", "noted"]], context_types = ["p2p", "a2a"], objective = "masked",
  start_token = 0, images = {channels = 3, patch_size = 4, rows = 2, columns = 2, token = 5}, chunks_in_v = true>} {}

// -----

// CHECK: module attributes {mg.training = #mg.training<>}
module attributes {mg.training = #mg.training<microbatches = 1, split_backward = false, dtype = f32, gradient_dtype = f32,
  virtual_stages = 1, zigzag = 1, objective = "causal", moe_token_drop_policy = "probs", schedule = "">} {}
