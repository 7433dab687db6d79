// Functions of phase fuse whose frames FrameTest.cpp checks.
!x = tensor<4x32xf32, #mg.layout<s, h>>
!j = tensor<4x2x32xf32, #mg.layout<s, j, h>>
!w = tensor<2x32x32xf32, #mg.layout<j, h, f>>
!y = tensor<4x32xf32, #mg.layout<s, f>>
!part = tensor<2x32xf32, #mg.layout<s, h>>
!t = tensor<4x32xf32, #mg.layout<t, h>>
!g = tensor<128xf32, #mg.layout<flat>>
!c = tensor<32xf32, #mg.layout<h>>
!tokens = tensor<4xi32, #mg.layout<s>>
!tpart = tensor<2x32xf32, #mg.layout<t, h>>

module attributes {mg.mesh = #mg.mesh<tp = 2>} {

// 512 bytes each: the third value lives where the first did; what is returned has no place in the frame.
func.func @reuse.forward(%x: !x) -> !x attributes {mg.block = "reuse", mg.pass = "forward"} {
  %0 = mg.kernel {
    %a = mg.silu %x : (!x) -> !x
    mg.yield %a : !x
  } : !x
  %1 = mg.all_gather %0 over [] {dim = 0} : !x -> !x
  %2 = mg.kernel {
    %a = mg.silu %1 : (!x) -> !x
    mg.yield %a : !x
  } : !x
  %3 = mg.kernel {
    %a = mg.add %1, %2 : (!x, !x) -> !x
    mg.yield %a : !x
  } : !x
  return %3 : !x
}

// A value that dies in an all-reduce is reduced in place, its other name too; one that is read again is not.
func.func @in_place.forward(%x: !x) -> !t attributes {mg.block = "in_place", mg.pass = "forward"} {
  %0 = mg.kernel {
    %a = mg.silu %x : (!x) -> !x
    mg.yield %a : !x
  } : !x
  %1 = mg.all_reduce %0 over ["tp"] : !x -> !x
  %2 = mg.rename %1 {from = "s", to = "t"} : (!x) -> !t
  %3 = mg.all_reduce %2 over ["tp"] : !t -> !t
  %4 = mg.kernel {
    %a = mg.add %2, %3 : (!t, !t) -> !t
    mg.yield %a : !t
  } : !t
  return %4 : !t
}

// A joined value has its memory before its first part is made, until its parts are read for the last time: 2 x 512 bytes,
// apart from the 512 that live between. Its parts, and those of an argument, have no places of their own.
func.func @views.forward(%x: !j, %y: !x, %w: !w {mg.param = {tensor = "w"}}) -> (!y, !x) attributes {mg.block = "views", mg.pass = "forward"} {
  %a, %b = mg.parts %x along "j" : !j -> (!x, !x)
  %0 = mg.kernel {
    %k = mg.silu %a : (!x) -> !x
    mg.yield %k : !x
  } : !x
  %1 = mg.all_gather %y over [] {dim = 0} : !x -> !x
  %2 = mg.kernel {
    %k = mg.add %1, %b : (!x, !x) -> !x
    mg.yield %k : !x
  } : !x
  %all = mg.join %0, %2 along "j" : (!x, !x) -> !j
  %3 = mg.einsum %all, %w : (!j, !w) -> !y
  %4 = mg.kernel {
    %k = mg.silu %0 : (!x) -> !x
    mg.yield %k : !x
  } : !x
  return %3, %4 : !y, !x
}

// A joined value is not reduced in place: its parts are read after that.
func.func @joined.forward(%x: !x, %w: !w {mg.param = {tensor = "w"}}) -> (!y, !x) attributes {mg.block = "joined", mg.pass = "forward"} {
  %0:2 = mg.kernel {
    %k = mg.silu %x : (!x) -> !x
    %l = mg.scale %x {factor = 2.0} : (!x) -> !x
    mg.yield %k, %l : !x, !x
  } : !x, !x
  %all = mg.join %0#0, %0#1 along "j" : (!x, !x) -> !j
  %1 = mg.all_reduce %all over ["tp"] : !j -> !j
  %2 = mg.einsum %1, %w : (!j, !w) -> !y
  %3 = mg.kernel {
    %k = mg.silu %0#0 : (!x) -> !x
    mg.yield %k : !x
  } : !x
  return %2, %3 : !y, !x
}

// A kernel's result takes over the memory of a value of its type that dies there, one result each, be it one that nobody
// reads; the others, and what dies later, have places of their own.
func.func @take_over.forward(%x: !x) -> !x attributes {mg.block = "take_over", mg.pass = "forward"} {
  %0 = mg.all_gather %x over [] {dim = 0} : !x -> !x
  %1:3 = mg.kernel {
    %a = mg.silu %0 : (!x) -> !x
    %b = mg.scale %0 {factor = 2.0} : (!x) -> !x
    %c = mg.scale %0 {factor = 3.0} : (!x) -> !x
    mg.yield %a, %b, %c : !x, !x, !x
  } : !x, !x, !x
  %2 = mg.kernel {
    %a = mg.add %1#1, %1#2 : (!x, !x) -> !x
    mg.yield %a : !x
  } : !x
  %3 = mg.all_gather %2 over [] {dim = 0} : !x -> !x
  return %3 : !x
}

// No result takes over the memory of a value that its kernel reads in other places or more often than it writes: of one
// row where it sums all rows, of one whose rows it adds to rows of its choice or takes in an order of its choice, of one
// that has other names.
func.func @summed.forward(%x: !x, %v: !c) -> !c attributes {mg.block = "summed", mg.pass = "forward"} {
  %0 = mg.all_gather %v over [] {dim = 0} : !c -> !c
  %1 = mg.kernel {
    %a = mg.mul %x, %0 : (!x, !c) -> !x
    %b = mg.sum %a : (!x) -> !c
    mg.yield %b : !c
  } : !c
  %2 = mg.all_gather %1 over [] {dim = 0} : !c -> !c
  return %2 : !c
}
func.func @added.forward(%tokens: !tokens, %x: !x) -> !x attributes {mg.block = "added", mg.pass = "forward"} {
  %0 = mg.all_gather %x over [] {dim = 0} : !x -> !x
  %1 = mg.kernel {
    %a = mg.embed_grad %tokens, %0 : (!tokens, !x) -> !x
    mg.yield %a : !x
  } : !x
  %2 = mg.all_gather %1 over [] {dim = 0} : !x -> !x
  return %2 : !x
}
func.func @gathered.forward(%ids: !tokens, %x: !x) -> !x attributes {mg.block = "gathered", mg.pass = "forward"} {
  %0 = mg.all_gather %x over [] {dim = 0} : !x -> !x
  %1 = mg.kernel {
    %a = mg.embed %ids, %0 : (!tokens, !x) -> !x
    mg.yield %a : !x
  } : !x
  %2 = mg.all_gather %1 over [] {dim = 0} : !x -> !x
  return %2 : !x
}
func.func @viewed.forward(%x: !j) -> !j attributes {mg.block = "viewed", mg.pass = "forward"} {
  %0 = mg.all_gather %x over [] {dim = 0} : !j -> !j
  %a, %b = mg.parts %0 along "j" : !j -> (!x, !x)
  %1 = mg.kernel {
    %k = mg.add %a, %b : (!x, !x) -> !x
    mg.yield %k : !x
  } : !x
  %2 = mg.kernel {
    %k = mg.silu %0 : (!j) -> !j
    mg.yield %k : !j
  } : !j
  %3 = mg.all_gather %2 over [] {dim = 0} : !j -> !j
  %4 = mg.all_gather %1 over [] {dim = 0} : !x -> !x
  return %3 : !j
}

// A bucket of gradients is reduced where it lies.
func.func @reduce.0(%g: !g {mg.buffer = {kind = "gradient", index = 0}}) -> (!g {mg.buffer = {kind = "gradient", index = 0}})
    attributes {mg.pass = "reduce"} {
  %0 = mg.all_reduce %g over ["tp"] : !g -> !g
  %1 = mg.all_reduce %0 over ["tp"] : !g -> !g
  return %1 : !g
}

// A value that a tile reads lives until its last part is done, and what it makes from its first on: neither shares memory
// with what the body makes, which is once there for all parts. 512 + 512 + 256 bytes.
func.func @tiled.forward(%x: !x) -> !x attributes {mg.block = "tiled", mg.pass = "forward"} {
  %0 = mg.kernel {
    %a = mg.silu %x : (!x) -> !x
    mg.yield %a : !x
  } : !x
  %1 = mg.tile 2 of %0 : (!x) -> !x {
  ^bb0(%p: !part):
    %2 = mg.kernel {
      %a = mg.silu %p : (!part) -> !part
      mg.yield %a : !part
    } : !part
    %3 = mg.kernel {
      %a = mg.silu %2 : (!part) -> !part
      mg.yield %a : !part
    } : !part
    mg.yield %3 : !part
  }
  %4 = mg.kernel {
    %a = mg.silu %1 : (!x) -> !x
    mg.yield %a : !x
  } : !x
  return %4 : !x
}

// The operand of a collective that runs concurrently lives until the first use of its result; if nothing runs
// concurrently, until it has run.
func.func @beside.forward(%x: !x, %y: !tpart) -> (!x, !tpart) attributes {mg.block = "beside", mg.pass = "forward"} {
  %0 = mg.kernel {
    %a = mg.silu %x : (!x) -> !x
    mg.yield %a : !x
  } : !x
  %1 = mg.reduce_scatter %0 over ["tp"] {dim = 0} : !x -> !part
  %2 = mg.rename %1 {from = "s", to = "t"} : (!part) -> !tpart
  %3 = mg.kernel {
    %a = mg.silu %x : (!x) -> !x
    mg.yield %a : !x
  } : !x
  %4 = mg.kernel {
    %a = mg.add %2, %y : (!tpart, !tpart) -> !tpart
    mg.yield %a : !tpart
  } : !tpart
  %5 = mg.all_gather %3 over [] {dim = 0} : !x -> !x
  %6 = mg.kernel {
    %a = mg.add %5, %3 : (!x, !x) -> !x
    mg.yield %a : !x
  } : !x
  return %6, %4 : !x, !tpart
}
}
