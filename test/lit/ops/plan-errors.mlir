// RUN: %each %s > %t && %mg-opt %t -split-input-file -verify-diagnostics

!x = tensor<4x8xf32, #mg.layout<s, h>>
!scalar = tensor<f32, #mg.layout<>>
!ch = tensor<4x8xf32, #mg.layout<c, h>>
!h = tensor<8xf32, #mg.layout<h>>

func.func @f(%x: !x, %w: tensor<8x8xf32, #mg.layout<h, f>>, %y: tensor<4x9xf32, #mg.layout<s, f>>,
    %x2: tensor<4x8xf32, #mg.layout<s, v>>, %ids: tensor<4xi32, #mg.layout<s>>, %x3: !scalar,
    %x4: tensor<2xf32, #mg.layout<scalar>>, %x5: tensor<4xf32>, %x6: !ch, %n: tensor<2xi32, #mg.layout<e>>,
    %n2: tensor<i32, #mg.layout<>>) {
  // EACH
  return
}

// expected-error@+1 {{the ops inside are not row ops over one space (kernel_c1)}}
%0 = mg.kernel {
  %1 = mg.einsum %x, %w : (!x, tensor<8x8xf32, #mg.layout<h, f>>) -> tensor<4x8xf32, #mg.layout<s, f>>
  mg.yield %1 : tensor<4x8xf32, #mg.layout<s, f>>
} : tensor<4x8xf32, #mg.layout<s, f>>

// expected-error@+1 {{the ops inside are not row ops over one space (kernel_c1)}}
%0:2 = mg.kernel {
  %1 = mg.silu %x : (!x) -> !x
  %2 = mg.silu %y : (tensor<4x9xf32, #mg.layout<s, f>>) -> tensor<4x9xf32, #mg.layout<s, f>>
  mg.yield %1, %2 : !x, tensor<4x9xf32, #mg.layout<s, f>>
} : !x, tensor<4x9xf32, #mg.layout<s, f>>

%0 = mg.kernel {
  %1 = mg.silu %x2 : (tensor<4x8xf32, #mg.layout<s, v>>) -> tensor<4x8xf32, #mg.layout<s, v>>
  // expected-error@+1 {{reads a table or a sum over rows of its own kernel (kernel_c2)}}
  %2 = mg.pick %1, %ids : (tensor<4x8xf32, #mg.layout<s, v>>, tensor<4xi32, #mg.layout<s>>) -> tensor<4xf32, #mg.layout<s>>
  mg.yield %2 : tensor<4xf32, #mg.layout<s>>
} : tensor<4xf32, #mg.layout<s>>

// expected-error@+1 {{as many scalars as elements expected (pack_c1)}}
%0 = mg.pack %x3, %x3 : (!scalar, !scalar) -> tensor<3xf32, #mg.layout<scalar>>

// expected-error@+1 {{as many scalars as elements expected (unpack_c1)}}
%0 = mg.unpack %x4 : (tensor<2xf32, #mg.layout<scalar>>) -> (!scalar)

// The ops inside are verified first.
%0 = mg.kernel {
  // expected-error@+1 {{a type without #mg.layout (rule_c1)}}
  %1 = mg.relu %x5 : (tensor<4xf32>) -> tensor<4xf32>
  mg.yield %1 : tensor<4xf32>
} : tensor<4xf32>

// expected-error@+1 {{yields a value that it does not make (kernel_c1)}}
%0 = mg.kernel {
  %1 = mg.silu %x : (!x) -> !x
  mg.yield %x : !x
} : !x

// expected-error@+1 {{yields a value twice (kernel_c3)}}
%0:2 = mg.kernel {
  %1 = mg.silu %x : (!x) -> !x
  mg.yield %1, %1 : !x, !x
} : !x, !x

// Kernel of a list.
// expected-error@+1 {{(kernel_c4)}}
%0 = mg.kernel of %n : tensor<2xi32, #mg.layout<e>> {
  %1 = mg.silu %x6 : (!ch) -> !ch
  mg.yield %1 : !ch
} : !ch

// expected-error@+1 {{expected a number without dimensions, and ops whose first dimension is one and not summed over (kernel_c4)}}
%0 = mg.kernel of %n2 : tensor<i32, #mg.layout<>> {
  %1 = mg.sum %x6 : (!ch) -> !h
  mg.yield %1 : !h
} : !h

%0 = mg.kernel {
  %1 = mg.sum %x : (!x) -> !h
  // expected-error@+1 {{reads a table or a sum over rows of its own kernel (kernel_c2)}}
  %2 = mg.mul %x, %1 : (!x, !h) -> !x
  mg.yield %2 : !x
} : !x

func.func @f() { return }
func.func @layer.forward(%w: tensor<8xf32, #mg.layout<h>> {mg.param = {}}) attributes {mg.block = "layer", mg.pass = "forward"} { return }
mg.stage 0 begin @f reduce @f update @f {
  mg.bucket 16 {split = [], reduce = [], data = [], tied = array<i64>}
  // EACH
}

// expected-error@+1 {{argument 1 of layer.forward is no parameter (stage_c2)}}
mg.place @layer 1 instances 0 count 1 bucket 0 offset 0 stride 0

// expected-error@+1 {{bucket 1 of 1 (stage_c2)}}
mg.place @layer 0 instances 0 count 1 bucket 1 offset 0 stride 0

// expected-error@+1 {{ends at element 24 of a bucket of 16 (stage_c2)}}
mg.place @layer 0 instances 0 count 2 bucket 0 offset 0 stride 16

// expected-error@+1 {{ends at element 2^63 or more of a bucket of 16 (stage_c2)}}
mg.place @layer 0 instances 0 count 9223372036854775807 bucket 0 offset 0 stride 8

// expected-error@+1 {{offset 0 stride 0; expected instances of 8 elements one behind the other (stage_c2)}}
mg.place @layer 0 instances 0 count 9223372036854775807 bucket 0 offset 0 stride 0

// expected-error@+1 {{instances 2 count 9223372036854775807; expected at least one, and numbers below 2^63 (stage_c2)}}
mg.place @layer 0 instances 2 count 9223372036854775807 bucket 0 offset 0 stride 8

// expected-error@+1 {{instances 0 count 0; expected at least one, and numbers below 2^63 (stage_c2)}}
mg.place @layer 0 instances 0 count 0 bucket 0 offset 0 stride 8

func.func @f() { return }
// EACH

// expected-error@+1 {{@missing is no function (stage_c3)}}
mg.stage 0 begin @missing reduce @f update @f {
  mg.bucket 16 {split = [], reduce = [], data = [], tied = array<i64>}
}

func.func @layer.forward() attributes {mg.block = "layer", mg.pass = "forward"} { return }
mg.stage 0 begin @f reduce @f update @f {
  // expected-error@+1 {{expected number 0 and at least one instance (stage_c1)}}
  mg.chunk 1 { mg.instance @layer }
}

mg.stage 0 begin @f reduce @f update @f {
  mg.chunk 0 {
    // expected-error@+1 {{layer.forward is no function of a block (stage_c1)}}
    mg.instance @layer
  }
}

mg.stage 0 begin @f reduce @f update @f {
  // expected-error@+1 {{0 times 2 parts from part 0 on; expected at least one of each, from 0 on (pieces_c1)}}
  mg.pieces bucket 0 first 0 parts 2 count 0 update @f
}

mg.stage 0 begin @f reduce @f update @f {
  // expected-error@+1 {{3 units of 32 elements; expected 1, or with perUnit a number that divides these (bucket_c2)}}
  mg.bucket 32 {split = [], reduce = [], data = [], tied = array<i64>, units = 3 : i64, perUnit}
}

mg.stage 0 begin @f reduce @f update @f {
  // expected-error@+1 {{gather = 'later'; expected one of never, use, microbatch, step, never without shard, use with perUnit alone (bucket_c3)}}
  mg.bucket 32 {split = [], reduce = [], data = ["dp"], shard = ["dp"], tied = array<i64>, gather = "later"}
}

mg.stage 0 begin @f reduce @f update @f {
  // expected-error@+1 {{gather = 'step'; expected one of never, use, microbatch, step, never without shard, use with perUnit alone (bucket_c3)}}
  mg.bucket 32 {split = [], reduce = [], data = ["dp"], tied = array<i64>, gather = "step"}
}

mg.stage 0 begin @f reduce @f update @f {
  // expected-error@+1 {{gather = 'use'; expected one of never, use, microbatch, step, never without shard, use with perUnit alone (bucket_c3)}}
  mg.bucket 32 {split = [], reduce = [], data = ["dp"], shard = ["dp"], tied = array<i64>, gather = "use"}
}

mg.stage 0 begin @f reduce @f update @f {
  // expected-error@+1 {{use = 'thawed'; expected one of trained, routerBias, loadCounter, frozen (bucket_c1)}}
  mg.bucket 32 {split = [], reduce = [], data = [], tied = array<i64>, use = "thawed"}
}

func.func @layer.forward(%w: tensor<8xf32, #mg.layout<h>> {mg.param = {}}) attributes {mg.block = "layer", mg.pass = "forward"} { return }
mg.stage 0 begin @f reduce @f update @f {
  mg.bucket 32 {split = [], reduce = [], data = [], tied = array<i64>}
  mg.place @layer 0 instances 0 count 2 bucket 0 offset 0 stride 16
  mg.chunk 0 {
    // expected-error@+1 {{argument 0 has a place in 1 of 2 instances (stage_c4)}}
    mg.instance @layer first 1 count 2
  }
}

func.func @layer.forward(%w: tensor<8xf32, #mg.layout<h>> {mg.param = {}}) attributes {mg.block = "layer", mg.pass = "forward"} { return }
mg.stage 0 begin @f reduce @f update @f {
  mg.bucket 32 {split = [], reduce = [], data = [], tied = array<i64>}
  mg.place @layer 0 instances 0 count 1 bucket 0 offset 0 stride 16
  // expected-error@+1 {{is a second one of argument 0 of layer.forward in the same instances (stage_c4)}}
  mg.place @layer 0 instances 0 count 1 bucket 0 offset 16 stride 16
  mg.chunk 0 {
    mg.instance @layer count 2
  }
}
