// The router of a mixture of experts: which experts a token goes to, and with which weights.
include "dialects/mg/ops/OpBase.td"

def Mg_RouteOp : Mg_ComputeOp<"route", [MgGradient, MgRowSpace, Mg_Discontinuous, AttrSizedOperandSegments]> {
  let summary = "The k experts of each token, best first, and their weights";
  let description = [{
    k is the last dimension of the results. Everything is computed in f32, whatever the type of logits:

        score   p[e] = softmax(logits)[e], sigmoid(logits[e]), sqrt(softplus(logits[e])) or, with none, logits[e]
        choice  c[e] = p[e] + bias[e]; the bias counts here alone
        experts those of the k largest c, in descending order; of equal ones the lowest number comes first
        post    g[j] = u[j] with gather, softmax(u)[j] over the k chosen, or sigmoid(u[j]); u[j] = p[experts[j]]
        weights w[j] = scale * g[j] / D; D = sum(g) + epsilon, or max(sum(g), least), or 1 where neither is given

    Without a bias the logits are compared: they have the order of the scores, and scores that round to one number are
    no tie. With groups the experts lie in `groups` equal blocks. The score of a group is the sum of its `groupTop`
    largest c, 1: their maximum. Experts outside of the `keptGroups` best groups are not chosen, whatever their score.

    NaN: in comparisons a NaN is larger than any number. So a token with a NaN among its logits chooses that expert (with
    groups, its group), whose weight is NaN; softmax and D make all its weights NaN. The number of an expert is
    part of the compared value, not found by a comparison: experts are distinct and in [0, e) for any bits of the logits.

    weights are f32, as lse is: rounded to bf16 they would no longer sum to 1, and each would put its error on an
    expert's whole output, for a memory of k numbers a token.

    The choice is constant but for its jumps, and no derivative could move the bias. Instead of a gradient it has the
    load, the number of tokens that chose each expert, by which mg.balance_bias moves it. A router without a bias may have
    `load` instead: a counter, which takes no part in anything, and whose gradient is the load. mg-grad drops the operand.

    The dimension of the experts is whole: the choice needs all of them, and they are few. Results have a dimension k in
    its place, whole too, which no row of a rule table splits:

        %w, %i = mg.route %logits, %bias {score = "sigmoid", groups = 8 : i64, keptGroups = 4 : i64, groupTop = 2 : i64,
                                          epsilon = 1.0e-20 : f64, scale = 2.5 : f64}
            : (tensor<64x4x256xbf16, #mg.layout<s, b, e>>, tensor<256xf32, #mg.layout<e>>)
            -> (tensor<64x4x8xf32, #mg.layout<s, b, k>>, tensor<64x4x8xi32, #mg.layout<s, b, k>>)

    1. score is softmax, sigmoid, sqrtsoftplus or none (route_c1)
    2. post is gather, softmax or sigmoid (route_c2)
    3. epsilon and least are not both given; epsilon is not negative, least is positive, scale is not 0, all are finite
       (route_c3)
    4. there are 1 to 32 groups of equal size, keptGroups is at most groups, groupTop at most the size of a group
       (route_c4)
    5. the kept groups have k experts or more (route_c5)
    6. the load has one place: of bias and load, where both are given, the bias is frozen (route_c6)
  }];
  let arguments = (ins Mg_Float:$logits, Optional<Mg_F32>:$bias, Optional<Mg_F32>:$load, StrAttr:$score,
                       DefaultValuedAttr<StrAttr, "\"gather\"">:$post, DefaultValuedAttr<I64Attr, "1">:$groups,
                       DefaultValuedAttr<I64Attr, "1">:$keptGroups, DefaultValuedAttr<I64Attr, "1">:$groupTop,
                       OptionalAttr<F64Attr>:$epsilon, OptionalAttr<F64Attr>:$least,
                       DefaultValuedAttr<F64Attr, "1.0">:$scale);
  let results = (outs Mg_F32:$weights, Mg_I32:$experts);
  let rule = "* e!, e!, e! -> * k!, * k!";
  let assemblyFormat = "$logits (`,` $bias^)? (`load` $load^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Mg_RouteGradOp : Mg_ComputeOp<"route_grad", [
    DeclareOpInterfaceMethods<Mg_RowOpInterface, ["getLookupTable"]>, Mg_Costly]> {
  let summary = "Gradient of route's logits; the choice has none";
  let description = [{
    With the names of mg.route, and dw the cotangent of weights:

        dg[j] = scale / D * (dw[j] - r), r = sum(dw g) / D where D changes with sum(g), else 0: least > sum(g), D = 1
        du    gather: dg[j]; softmax: g[j] (dg[j] - sum(dg g)); sigmoid: dg[j] g[j] (1 - g[j])
        dp[e] = du[j] where e = experts[j], else 0
        dlogits[e]  softmax: p[e] (dp[e] - sum(du u)); sigmoid: dp[e] p[e] (1 - p[e]);
                    sqrtsoftplus: dp[e] sigmoid(logits[e]) / (2 p[e]), 0 where p[e] = 0; none: dp[e]

    1. score is softmax, sigmoid, sqrtsoftplus or none (route_grad_c1)
    2. post is gather, softmax or sigmoid (route_grad_c2)
    3. epsilon and least are not both given; epsilon is not negative, least is positive, scale is not 0, all are finite
       (route_grad_c3)
  }];
  let arguments = (ins Mg_Float:$logits, Mg_I32:$experts, Mg_F32:$dweights, StrAttr:$score,
                       DefaultValuedAttr<StrAttr, "\"gather\"">:$post, OptionalAttr<F64Attr>:$epsilon,
                       OptionalAttr<F64Attr>:$least, DefaultValuedAttr<F64Attr, "1.0">:$scale);
  let results = (outs Mg_Float:$dlogits);
  let rule = "* e!, * k!, * k! -> * e";
  let hasVerifier = 1;
}

// --- Balance: ops of the terms of the loss (docs/experts.md)

def Mg_MultiHotOp : Mg_ComputeOp<"multi_hot", [MgGradient, MgRow]> {
  let summary = "1 for each expert that a token goes to, else 0";
  let description = [{
        %hot = mg.multi_hot %experts
            : (tensor<64x4x2xi32, #mg.layout<s, b, k>>) -> tensor<64x4x8xf32, #mg.layout<s, b, e>>

    It has no gradient: the choice has none.
  }];
  let arguments = (ins Mg_I32:$experts);
  let results = (outs Mg_F32:$result);
  let rule = "* k! -> * e!";
}
def Mg_RouterProbabilitiesOp : Mg_ComputeOp<"router_probabilities", [MgGradient, MgRow, Mg_Costly]> {
  let summary = "The scores of a token's experts as probabilities: their sum is 1";
  let description = [{
    softmax(logits), or score / (sum of the scores + 1e-20), as DeepSeek-V3 defines its balance loss.

    1. score is softmax, sigmoid or sqrtsoftplus (router_probabilities_c1)
  }];
  let arguments = (ins Mg_Float:$logits, StrAttr:$score);
  let results = (outs Mg_F32:$result);
  let rule = "* e! -> * e";
  let hasVerifier = 1;
}
def Mg_RouterProbabilitiesGradOp : Mg_ComputeOp<"router_probabilities_grad", [MgRow, Mg_Costly]> {
  let summary = "Gradient of mg.router_probabilities";
  let description = [{
    With p the probabilities, d their cotangent and D the sum that scores are divided by:
    p[e] (d[e] - sum(d p)) for softmax, (d[e] - sum(d p)) / D * dscore[e]/dlogits[e] for others.

    1. score is softmax, sigmoid or sqrtsoftplus (router_probabilities_c1)
  }];
  let arguments = (ins Mg_Float:$logits, Mg_F32:$dresult, StrAttr:$score);
  let results = (outs Mg_Float:$dlogits);
  let rule = "* e!, * e -> * e";
  let hasVerifier = 1;
}
def Mg_RouterZOp : Mg_ComputeOp<"router_z", [MgGradient, MgRow, Mg_Costly]> {
  let summary = "log(sum exp(logits))^2 of each token: the z-loss of ST-MoE (arXiv 2202.08906, equation 5)";
  let arguments = (ins Mg_Float:$logits);
  let results = (outs Mg_F32:$result);
  let rule = "* e! -> *";
}
def Mg_RouterZGradOp : Mg_ComputeOp<"router_z_grad", [MgRow, Mg_Costly]> {
  let summary = "2 log(sum exp(logits)) softmax(logits) dz: the gradient of mg.router_z";
  let arguments = (ins Mg_Float:$logits, Mg_F32:$dresult);
  let results = (outs Mg_Float:$dlogits);
  let rule = "* e!, * -> * e";
}
