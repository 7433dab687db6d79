// Rotary positions and attention. Positions are data, by query and by key: packing, zigzag and windows are then data.
include "dialects/mg/ops/OpBase.td"

def Mg_CosSinOp : Mg_ComputeOp<"cos_sin", [MgHalvedRow]> {
  let summary = "Cosines, then sines, of position * frequency: the rotation that mg.rope applies to all heads of a token";
  let description = [{
    y[i] = f cos(position * frequencies[i]); y[i + n/2] = f sin(position * frequencies[i]), i < n/2, where f is
    scale (1 + growth ln(1 + floor(position / period))), without a period scale.

    1. as many frequencies as half the last dimension (cos_sin_c1)
    2. growth is not 0 exactly when period is 1 or more (cos_sin_c2)
  }];
  let arguments = (ins Mg_I32:$positions, DenseF32ArrayAttr:$frequencies,
                       DefaultValuedAttr<F64Attr, "1.0">:$scale,
                       DefaultValuedAttr<F64Attr, "0.0">:$growth, DefaultValuedAttr<I64Attr, "0">:$period);
  let results = (outs Mg_F32:$y);
  let rule = "* -> * n!";
  let hasVerifier = 1;
}

def Mg_RopeOp : Mg_ComputeOp<"rope", [MgGradient, MgHalvedRow]> {
  let summary = "Rotates pairs of the last dimension by the angles of mg.cos_sin";
  let description = [{
    With m angles, 2 m the last dimension of cosSin, pair i < m of x becomes

        y[a] = x[a] cosSin[i] - x[b] cosSin[i + m];  y[b] = x[b] cosSin[i] + x[a] cosSin[i + m]

    a = i and b = i + m (Hugging Face's rotate_half), or, `interleaved`, neighbours: a = 2 i and b = 2 i + 1. Elements
    from 2 m on stay as they are: a part of each head rotates. `inverse` rotates back: the gradient.

    1. the last dimension of cosSin is even, and its other names are names of x (rope_c1)
    2. all elements rotate, or as many as are not interleaved and divide twice the last dimension of x (rope_c2)
  }];
  let arguments = (ins Mg_Float:$x, Mg_F32:$cosSin, UnitAttr:$interleaved, UnitAttr:$inverse);
  let results = (outs Mg_Float:$y);
  let rule = "~* n!, .. m! -> * n";
  let hasVerifier = 1;
}

// An attribute with the name of a field of plan::Attention is that field.
defvar MgAttentionAttributes = (ins F64Attr:$scale, DefaultValuedAttr<I64Attr, "0">:$window,
                                DefaultValuedAttr<BoolAttr, "true">:$causal,
                                DefaultValuedAttr<F64Attr, "0.0">:$softcap,
                                DefaultValuedAttr<DenseF64ArrayAttr, "{}">:$slopes,
                                DefaultValuedAttr<I64Attr, "0">:$biasMaxDistance,
                                DefaultValuedAttr<F64Attr, "0.0">:$dropout,
                                DefaultValuedAttr<StrAttr, "\"\"">:$site, I64Attr:$queriesPerGroup,
                                DefaultValuedAttr<ConfinedAttr<I64Attr, [IntMinValue<1>]>, "1">:$zigzag,
                                OptionalAttr<DictionaryAttr>:$coordinates, OptionalAttr<ArrayAttr>:$ring);
defvar MgAttention = [
  DeclareOpInterfaceMethods<Mg_LibraryOpInterface, ["getPitchedOperandDims", "getPitchedResultDims"]>, MgInstruction,
  MgWorkspace, AttrSizedOperandSegments];

def Mg_AttentionOp : Mg_IndexedOp<"attention", [MgGradient, MgStochastic] # MgAttention> {
  let summary = "Softmax attention of queries s over keys t, by groups g of r query heads";
  let description = [{
    Key t is visible to query s when key_position <= position, if attention is `causal`, and, with a window > 0,
    |position - key_position| < window. `starts` has the position where the query's document begins: start <=
    key_position too. `ends` has the position behind the last of the query's document: key_position < end too. Both are
    packed documents; ends alone are padding behind each sample. Keys may be of another sequence, which queries then see
    up to its end (cross-attention). A query that sees no key has o = 0, lse = -inf and no
    gradient.
    o = softmax(scores) v; lse is kept for the gradient. A score is scale q k; with a softcap > 0 (Gemma 2) it is
    softcap tanh(scale q k / softcap). With slopes, one for each query head of the model (ALiBi), |position -
    key_position| times that of the head is subtracted. A bias (T5) is a learned table: that of the head and of the
    bucket of the distance key_position - position is added. Its rows are the buckets up to `biasMaxDistance`, those of
    keys behind the query apart where attention is not causal (plan/RelativeBuckets.h). Heads of v and o may have a size
    of their own (latent attention). A sink is one more score of its head, whose value is 0: it takes its share of the
    probabilities, o and lse count it, and it is not dropped. With dropout p > 0 the probabilities are dropped by Philox
    keyed by seed, site, instance, sample, head and positions. `zigzag` is the order of the positions of a sequence
    (plan/SequenceOrder.h): 1 or more; it changes no result, and says how much work a rank has.

    Keys that are split over the axes of the queries travel around the ranks of these axes; `ring` names them from
    mg-local on, and mg-ring makes the steps of the ring. A step sees the keys of one rank: o is then of f32, to be
    merged with those of other steps (mg.merge_attention). Sinks are an operand of one step.

    1. samples are given exactly when dropout > 0 (attention_c1)
    2. q, k, v, sinks and bias have one element type; o has it too, or f32 where it is to be merged (attention_c2)
    3. keys are whole, or split as the queries are (attention_c3)
    4. ring has one or more axes of the module's mg.mesh, each once (attention_c4)
    5. softcap is 0 or more, and finite (attention_c5)
    6. slopes are none, or one for each of the query heads of all ranks, and finite (attention_c6)
    7. bias is given exactly when biasMaxDistance > 0; it has 2 buckets or more for each direction, and the distance is
       beyond those of one distance (attention_c7)
  }];
  let arguments = !con((ins Mg_Float:$q, Mg_Float:$k, Mg_Float:$v, Mg_I32:$positions, Mg_I32:$keyPositions,
                            Optional<Mg_I32>:$starts, Optional<Mg_I32>:$ends, Optional<Mg_I32>:$samples,
                            Optional<Mg_Float>:$sinks, Optional<Mg_Float>:$bias), MgAttentionAttributes);
  let results = (outs Mg_Float:$o, Mg_F32:$lse);
  let rule = "s b g r d!, t@ b g d!, t@ b g w!, s b, t@ b, s b, s b, b, g r, n! g r -> s b g r w, s b g r";
  let assemblyFormat = "$q `,` $k `,` $v `,` $positions `,` $keyPositions (`starts` $starts^)? (`ends` $ends^)? "
                       "(`samples` $samples^)? (`sinks` $sinks^)? (`bias` $bias^)? attr-dict "
                       "`:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = "double getFlops();";
}
def Mg_AttentionGradOp : Mg_IndexedOp<"attention_grad", MgAttention> {
  let summary = "dq, dk, dv of attention, and dbias; dk and dv are summed over s and r";
  let description = [{
    o, lse and do_ are those of all keys, and of the sinks, which it need not know: the probability of key t is
    exp(score - lse). In a step of a ring the results are f32 summands. dbias is the sum over all pairs of a query and a
    key, of f32 whatever the bias is.

    1. the operands but lse and integers have one element type; dq, dk and dv have it too, or are f32
       (attention_grad_c1)
    2. keys are whole, or split as the queries are (attention_grad_c2)
    3. ring has one or more axes of the module's mg.mesh, each once (attention_grad_c3)
    4. softcap is 0 or more, and finite (attention_grad_c4)
    5. slopes are none, or one for each of the query heads of all ranks, and finite (attention_grad_c5)
    6. bias is given exactly when biasMaxDistance > 0, as in attention_c7, and dbias where bias is (attention_grad_c6)
  }];
  let arguments = !con((ins Mg_Float:$q, Mg_Float:$k, Mg_Float:$v, Mg_Float:$o, Mg_F32:$lse, Mg_Float:$do_,
                            Mg_I32:$positions, Mg_I32:$keyPositions, Optional<Mg_I32>:$starts, Optional<Mg_I32>:$ends,
                            Optional<Mg_I32>:$samples, Optional<Mg_Float>:$bias), MgAttentionAttributes);
  let results = (outs Mg_Float:$dq, Mg_Float:$dk, Mg_Float:$dv, Optional<Mg_F32>:$dbias);
  let rule = "s b g r d!, t@ b g d!, t@ b g w!, s b g r w!, s b g r, s b g r w!, s b, t@ b, s b, s b, b, n! g r "
             "-> s b g r d, t b g d, t b g w, n g r";
  let assemblyFormat = "$q `,` $k `,` $v `,` $o `,` $lse `,` $do_ `,` $positions `,` $keyPositions "
                       "(`starts` $starts^)? (`ends` $ends^)? (`samples` $samples^)? (`bias` $bias^)? attr-dict "
                       "`:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = "double getFlops();";
}

def Mg_SinkGradOp : Mg_ComputeOp<"sink_grad", [MgRow]> {
  let summary = "-exp(sink - lse) sum(o do): the part of one query in the gradient of its head's sink";
  let description = "o, lse and do_ are those of mg.attention with sinks. 1. o and do_ have one element type (sink_grad_c1)";
  let arguments = (ins Mg_Float:$o, Mg_F32:$lse, Mg_Float:$do_, Mg_Float:$sinks);
  let results = (outs Mg_F32:$result);
  let rule = "s b g r w!, s b g r, s b g r w!, g r -> s b g r";
  let hasVerifier = 1;
}

def Mg_MergeAttentionOp : Mg_ComputeOp<"merge_attention", [MgRowSpace]> {
  let summary = "Attention to two sets of keys, from attention to each: merges a step of a ring";
  let description = [{
    lse = log(exp(lse1) + exp(lse2)); o = exp(lse1 - lse) o1 + exp(lse2 - lse) o2. Where both are -inf, for a query that
    sees none of the keys, lse is -inf and o 0. It is a kernel of its own: the memory of o1 and o2 is free after it.
  }];
  let arguments = (ins Mg_Float:$o1, Mg_F32:$lse1, Mg_Float:$o2, Mg_F32:$lse2);
  let results = (outs Mg_Float:$o, Mg_F32:$lse);
  let rule = "* n!, *, * n!, * -> * n, *";
}
