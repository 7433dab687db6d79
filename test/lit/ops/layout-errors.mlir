// RUN: %each %s > %t && %mg-opt %t -split-input-file -verify-diagnostics

// EACH

// expected-error@+1 {{dimension name 's' repeated or reserved (layout_c1)}}
func.func private @repeated_name(tensor<2x2xf32, #mg.layout<s, s>>)

// expected-error@+1 {{axis 'tp' occurs twice in one layout (layout_c2)}}
func.func private @axis_twice(tensor<2x2xf32, #mg.layout<s [tp], b [tp]>>)

// expected-error@+1 {{axis 'tp' occurs twice in one layout (layout_c2)}}
func.func private @axis_split_and_pending(tensor<2xf32, #mg.layout<s [tp], sum [tp]>>)

// expected-error@+1 {{(layout_c3)}}
func.func private @too_few_names(tensor<2x2xf32, #mg.layout<s>>)

// expected-error@+1 {{axis 'dp' is named twice (mesh_c1)}}
module attributes {mg.mesh = #mg.mesh<dp = 4 : data, dp = 2 : data>} {}

// expected-error@+1 {{'batch' is no role of an axis; expected tensor, sequence, data, stage}}
module attributes {mg.mesh = #mg.mesh<dp = 4 : batch>} {}

// expected-error@+1 {{axis 'dp' is named twice (mesh_c1)}}
module attributes {mg.mesh = #mg.mesh<dp = 4 : data, tp = 2, dp = [tp]>} {}

// expected-error@+1 {{axis 'r' is named twice (mesh_c1)}}
module attributes {mg.mesh = #mg.mesh<dp = 4 : data, tp = 2, r = [tp], r = [dp]>} {}

// expected-error@+1 {{axis 'tp' of extent 1; axes of a mesh have extent 2 or more (mesh_c2)}}
module attributes {mg.mesh = #mg.mesh<tp = 1>} {}

// expected-error@+1 {{axis 'tp' of extent 4294967296 makes more than 2147483648 ranks (mesh_c2)}}
module attributes {mg.mesh = #mg.mesh<dp = 2147483648 : data, tp = 4294967296>} {}

// expected-error@+1 {{named axis 'r' lists 'cp', which is no axis of the mesh or stands there twice (mesh_c3)}}
module attributes {mg.mesh = #mg.mesh<tp = 2, r = [cp]>} {}

// expected-error@+1 {{named axis 'r' lists 'tp', which is no axis of the mesh or stands there twice (mesh_c3)}}
module attributes {mg.mesh = #mg.mesh<tp = 2, r = [tp, tp]>} {}

// expected-error@+1 {{a tensor with a layout has sizes that are known; found '?' (layout_c4)}}
func.func private @unknown_size(tensor<?x2xf32, #mg.layout<s, b>>)
