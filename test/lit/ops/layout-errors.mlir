// RUN: %mg-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{dimension name 's' repeated or reserved (layout_c1)}}
func.func private @repeated_name(tensor<2x2xf32, #mg.layout<s, s>>)

// -----

// expected-error@+1 {{axis 'tp' occurs twice in one layout (layout_c2)}}
func.func private @axis_twice(tensor<2x2xf32, #mg.layout<s [tp], b [tp]>>)

// -----

// expected-error@+1 {{axis 'tp' occurs twice in one layout (layout_c2)}}
func.func private @axis_split_and_pending(tensor<2xf32, #mg.layout<s [tp], sum [tp]>>)

// -----

// expected-error@+1 {{(layout_c3)}}
func.func private @too_few_names(tensor<2x2xf32, #mg.layout<s>>)
