// A value and its parts in one memory, so that one matrix product can replace several. dialects/mg/View.h has their places.
include "dialects/mg/ops/OpBase.td"

def Mg_PartsOp : Mg_Op<"parts", [Pure, MgGradient,
    Mg_MovesData, DeclareOpInterfaceMethods<Mg_ComputeOpInterface, ["getRuleText", "getAxisRule"]>]> {
  let summary = "The parts that a value has along one dimension, one after another";
  let description = [{
    A part has the dimensions of the value but for `along`: in its place a dimension of its own, as many positions of
    `along` as its size; or none, and it is one position.

        %q, %k, %v = mg.parts %qkv along "j"
            : tensor<.., #mg.layout<s, b, g, j, d>> -> (tensor<.., #mg.layout<s, b, g, r, d>>,
              tensor<.., #mg.layout<s, b, g, d>>, tensor<.., #mg.layout<s, b, g, d>>)

    `along`, and the dimension that replaces it, is whole here. No data moves: a part lies in the value's memory, its rows as far
    apart as those of the value. Each part has a gradient: something depends on it.
    1. each part has the names of the value with `along` left out or replaced by a name of its own (parts_c1)
    2. the parts take as many positions as `along` has (parts_c2)
    3. the parts have the element type of the value (parts_c3)
  }];
  let arguments = (ins Mg_Float:$whole, StrAttr:$along);
  let results = (outs Variadic<Mg_Float>:$parts);
  let assemblyFormat = "$whole `along` $along attr-dict `:` type($whole) `->` `(` type($parts) `)`";
  let hasVerifier = 1;
}

def Mg_JoinOp : Mg_Op<"join", [Pure, MgGradient,
    Mg_MovesData, DeclareOpInterfaceMethods<Mg_ComputeOpInterface, ["getRuleText", "getAxisRule"]>]> {
  let summary = "The value that has these parts along one dimension: the reverse of mg.parts";
  let description = [{
    No data moves: the op that makes a part writes it into the value.
    1. each part has the names of the value with `along` left out or replaced by a name of its own (join_c1)
    2. the parts take as many positions as `along` has (join_c2)
    3. the parts have the element type of the value (join_c3)
  }];
  let arguments = (ins Variadic<Mg_Float>:$parts, StrAttr:$along);
  let results = (outs Mg_Float:$whole);
  let assemblyFormat = "$parts `along` $along attr-dict `:` `(` type($parts) `)` `->` type($whole)";
  let hasVerifier = 1;
}

// Two values whose elements alternate in a third: no views, as no matrix product reads rows of one element.
def Mg_UnzipOp : Mg_ComputeOp<"unzip", [MgGradient, MgRowSpace]> {
  let summary = "The first and the second of each pair that the last dimension of a value has";
  let description = [{
        %gate, %up = mg.unzip %x : (tensor<512x16x2xf32, #mg.layout<c, m, j>>)
            -> (tensor<512x16xf32, #mg.layout<c, m>>, tensor<512x16xf32, #mg.layout<c, m>>)

    1. the last dimension has 2 positions (unzip_c1)
  }];
  let arguments = (ins Mg_Float:$pairs);
  let results = (outs Mg_Float:$first, Mg_Float:$second);
  let rule = "~* n! -> *, *";
  let hasVerifier = 1;
}
def Mg_ZipOp : Mg_ComputeOp<"zip", [MgGradient, MgRowSpace]> {
  let summary = "The value that has pairs of two others along its last dimension: the reverse of mg.unzip";
  let description = "1. the last dimension has 2 positions (zip_c1)";
  let arguments = (ins Mg_Float:$first, Mg_Float:$second);
  let results = (outs Mg_Float:$pairs);
  let rule = "&*, &* -> * n!";
  let hasVerifier = 1;
}
