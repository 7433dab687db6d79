// RUN: %each %s > %t && %mg-opt %t -split-input-file -verify-diagnostics

// EACH

// expected-error@+1 {{mg.training has no field 'microbatchs'; did you mean microbatches?}}
module attributes {mg.training = #mg.training<zero = 1, microbatchs = 2>} {}

// expected-error@+1 {{mg.training has no field 'ranks'; expected one of sequence_length, encoder_seq_length, micro_batch_size,}}
module attributes {mg.training = #mg.training<ranks = 2>} {}

// expected-error@+1 {{mg.training: zero is given twice}}
module attributes {mg.training = #mg.training<zero = 1, zero = 1>} {}

// expected-error@+1 {{mg.training: zero = "1"; expected a whole number}}
module attributes {mg.training = #mg.training<zero = "1">} {}

// expected-error@+1 {{mg.training: zero = true; expected a whole number}}
module attributes {mg.training = #mg.training<zero = true>} {}

// expected-error@+1 {{mg.training: microbatches = -1 : i64; expected 0 or more}}
module attributes {mg.training = #mg.training<microbatches = -1>} {}

// expected-error@+1 {{mg.training: split_backward = 1 : i64; expected true or false}}
module attributes {mg.training = #mg.training<split_backward = 1>} {}

// expected-error@+1 {{mg.training: schedule_memory = 1 : i64; expected a number with a point}}
module attributes {mg.training = #mg.training<schedule_memory = 1>} {}

// expected-error@+1 {{mg.training: schedule = 1 : i64; expected a text in quotes}}
module attributes {mg.training = #mg.training<schedule = 1>} {}

// expected-error@+1 {{mg.training: dtype = f16; expected f32 or bf16}}
module attributes {mg.training = #mg.training<dtype = f16>} {}

// expected-error@+1 {{mg.training: dtype = f32, gradient_dtype = bf16; expected gradients of that type or f32 (training_c1)}}
module attributes {mg.training = #mg.training<gradient_dtype = bf16>} {}

// expected-error@+1 {{mg.training: moe_rows_factor = 5.000000e-01; expected 0, or at least 1: the mean of rows (training_c2)}}
module attributes {mg.training = #mg.training<moe_rows_factor = 0.5>} {}

// expected-error@+1 {{mg.training: objective = "wild"; expected one of "causal", "masked"}}
module attributes {mg.training = #mg.training<objective = "wild">} {}

// expected-error@+1 {{mg.training: context_types = ["p2p", 1]; expected a list, each entry of it a text in quotes}}
module attributes {mg.training = #mg.training<context_types = ["p2p", 1]>} {}

// expected-error@+1 {{mg.training: images = {chanels = 3 : i64}; expected whole numbers {channels, patch_size, rows,}}
module attributes {mg.training = #mg.training<images = {chanels = 3}>} {}

// expected-error@+1 {{expected a list, each entry of it a flag, a value and one of "refused", "noted"}}
module attributes {mg.training = #mg.training<settings = [["--zero", "1"]]>} {}

// expected-error@+1 {{has mg.training = {zero = 1 : i64}; expected #mg.training<field = value, ..>}}
module attributes {mg.training = {zero = 1}} {}
