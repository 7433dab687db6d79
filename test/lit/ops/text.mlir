// A text is printed behind the program, verbatim.
// RUN: %mg-opt %s | FileCheck %s
// RUN: %mg-opt %s | %mg-opt | FileCheck %s
// CHECK: module attributes {mg.model = {config = #mg.text<config>}} {
// CHECK: dialect_resources
// CHECK: config: "{\22hidden_size\22: 8}"
module attributes {mg.model = {config = #mg.text<config>}} {
}

{-#
  dialect_resources: {
    mg: {
      config: "{\22hidden_size\22: 8}"
    }
  }
#-}
