// The mg dialect: transformer training programs over named dimensions.
#ifndef MGC_DIALECTS_MG_DIALECT_TD
#define MGC_DIALECTS_MG_DIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/TensorEncoding.td"

def Mg_Dialect : Dialect {
  let name = "mg";
  let cppNamespace = "::mgc";
  let summary = "Transformer training programs over named dimensions";
  let description = [{
    A value is a ranked tensor whose encoding names its dimensions. A sharded value also says, per dimension, which
    mesh axes split it, and over which axes a reduction is still pending:

        tensor<4096x2x8192xf32, #mg.layout<s, b, h>>                        logical
        tensor<4096x2x8192xf32, #mg.layout<s [cp, tp], b [dp], h>>          sequence parallel
        tensor<4096x2x8192xf32, #mg.layout<s [cp], b [dp], h, sum [tp]>>    after a row-parallel product

    Programs are written and differentiated on logical values; collectives follow from changes of type.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let extraClassDeclaration = "void registerAttributes();";
}

class Mg_Attr<string name, string attrMnemonic, list<Trait> traits = []> : AttrDef<Mg_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Mg_TextAttr : Mg_Attr<"Text", "text"> {
  let summary = "A text, printed behind the program";
  let description = [{
    A text of any length by its name, under which the section of resources at the end of a file has it:

        module attributes {mg.model = {config = #mg.text<config>}} { ... }
        {-# dialect_resources: { mg: { config: "..." } } #-}
  }];
  let parameters = (ins ResourceHandleParameter<"::mgc::TextHandle">:$handle);
  let assemblyFormat = "`<` $handle `>`";
  let extraClassDeclaration = [{
    ::llvm::StringRef getText() const { return getHandle().getResource()->text; }
  }];
}

def Mg_LayoutAttr : Mg_Attr<"Layout", "layout", [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "Names, splits and the pending reduction of a value";
  let description = [{
    One entry per dimension: its name and the mesh axes that split it, first listed = major. Then, optionally,
    `sum [axes]` or `max [axes]`: the global value is the reduction of the ranks' blocks over these axes.

    1. names are distinct; `sum` and `max` are not names (layout_c1)
    2. an axis occurs at most once in the whole layout (layout_c2)
    3. as many entries as the tensor has dimensions (layout_c3)
    4. every size of the tensor is known (layout_c4)
    5. a tie has two stages or more, in ascending order, and is there once (layout_c5)
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$names, ArrayRefParameter<"::mlir::ArrayAttr">:$axes,
                        "::mlir::ArrayAttr":$pending, "::mgc::Reduction":$reduction);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The logical layout of these names.
    static LayoutAttr get(::mlir::MLIRContext *context, ::llvm::ArrayRef<::mlir::StringAttr> names);
    static LayoutAttr get(::mlir::MLIRContext *context, ::llvm::ArrayRef<::llvm::StringRef> names);
    /// Axes that split the dimension called `name`; empty when there is none.
    ::mlir::ArrayAttr axesOf(::mlir::StringAttr name) const;
    /// Position of the dimension called `name`, or -1.
    int64_t indexOf(::mlir::StringAttr name) const;
    bool isComplete() const { return getPending().empty(); }
    /// Neither split nor pending.
    bool isLogical() const;
    LayoutAttr withPending(::mlir::ArrayAttr pending, Reduction reduction = Reduction::sum) const;
  }];
}

def Mg_MeshParameter : AttrParameter<"::mgc::plan::Mesh", "axes with sizes and roles, named lists of them"> {
  let cppAccessorType = "const ::mgc::plan::Mesh &";
}

def Mg_MeshAttr : Mg_Attr<"Mesh", "mesh"> {
  let summary = "The device mesh: primitive axes, major first, and named lists of them";
  let description = [{
    `#mg.mesh<pp = 2 : stage, dp = 4 : data, tpg = 2, tpr = 2, tp = [tpg, tpr]>`. A rank's number is its coordinates
    read major first. An axis has a role: `tensor` (not written), `sequence`, `data` or `stage` (plan/mesh/Mesh.h);
    passes ask for roles, never for names. A named axis is an ordered list of primitive axes; a primitive axis names
    itself; a named axis of extent 1 is the empty list. Axes of extent 1 are not primitive axes (docs/sharding.md, T4).

    1. names of axes and of lists are distinct (mesh_c1)
    2. each axis has extent 2 or more, all together at most 2^31 (mesh_c2)
    3. a list names axes of the mesh, each once (mesh_c3)

    Facts that layouts and collectives state of a mesh, proved where the two meet (mg-shard, mg-local, collectives):

    4. the axes of a layout or a collective are axes of the mesh, each once (mesh_c4)
    5. each size of a sharded type is a multiple of the extent of the axes that split it (mesh_c5)
  }];
  let parameters = (ins Mg_MeshParameter:$mesh);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Names of the primitive axes, major first.
    ::llvm::SmallVector<::mlir::StringAttr> getNames() const;
    /// Names of the primitive axes of one role.
    ::mlir::ArrayAttr axesOf(plan::AxisRole role) const;
    /// The role of a primitive axis of the mesh.
    plan::AxisRole roleOf(::mlir::StringAttr axis) const;
    /// Product of the extents of primitive axes; those that the mesh lacks count as 1.
    int64_t sizeOf(::mlir::ArrayAttr axes) const;
    /// The primitive axes of a named one: itself, its list, or nothing.
    ::mlir::ArrayAttr resolve(::llvm::StringRef name) const;
    /// Whether a list names axes of the mesh, each once (mesh_c4).
    ::llvm::LogicalResult verifyAxes(::llvm::function_ref<::mlir::InFlightDiagnostic()> emitError,
                                     ::mlir::ArrayAttr axes) const;
    /// Whether a value of the type can lie on the mesh (mesh_c4, mesh_c5).
    ::llvm::LogicalResult verifyType(::llvm::function_ref<::mlir::InFlightDiagnostic()> emitError,
                                     ::mlir::Type type) const;
  }];
}

def Mg_TrainingParameter : AttrParameter<"::mgc::TrainingSettings", "fields that are not at their defaults"> {
  let cppAccessorType = "const ::mgc::TrainingSettings &";
}

def Mg_TrainingAttr : Mg_Attr<"Training", "training"> {
  let summary = "How a program is trained, as far as its ops and its mesh do not say it";
  let description = [{
    `#mg.training<sequence_length = 64, micro_batch_size = 2, schedule = "1f1b", dtype = bf16>`. A field that is missing
    has its default, and a field at its default is not printed. Other names are refused. A field is a whole number of 0
    or more unless its default here is of another type.

    - sizes, 0 where unknown: `sequence_length`, `micro_batch_size` (of a data rank), `global_batch_size`,
      `vocabulary` without padding; `encoder_seq_length`: 0 without an encoder. `microbatches`: 1
    - the pipeline: `schedule`: "", `virtual_stages`: 1, `chunks_in_v`: false, `split_backward`: false; `stages`: "",
      the layers of each chunk ("3,4x14,2") where they are not cut by work; `schedule_text`
      of a schedule that a file gave, `schedule_memory` (a number) of one that is planned, where `memory` does
      not choose it, and `machine`, the name or the description of the machine whose times it is planned by
      (docs/adding-a-schedule.md)
    - memory and ranks: `zero`: 0, `shards_outer`: false, `reshards_after_forward`: true,
      `overlaps_grad_reduce`: false (of units), `overlaps_param_gather`: false, `bucket_elements`: 0, `loss_tile`: 0,
      `chooses_loss_tile`: false, `sequence_parallel`: false
    - what backward recomputes (dialects/mg/training/RecomputeWords.h): `recompute_granularity`: "standard", "none",
      "selective" with `recompute_modules`, or "full" with `recompute_method`, "uniform" or "block", and
      `recompute_num_layers`: 0; or `memory`: "", the bytes of a rank by which each layer's policy is chosen,
      with `chooses_loss_tile` also how many tokens have logits at once
    - the update: `optimizer`: "adamw" (plan/Optimizers.h); `optimizer_offload_fraction`: 0.0, the part of the bytes of
      masters and optimizer states that is on the host
    - activations on the host (dialects/mg/training/OffloadWords.h): `offload_modules`, whose inputs are;
      `activation_offload_fraction`: 0.0, the part of the layers; `host_memory`: "", any, the most that a rank takes of
      the host for these and the optimizer
    - types: `dtype` of parameters and activations, `gradient_dtype` of parameters' gradients: f32 or bf16, f32 by
      default; `fp32_residual_connection`: false
    - context parallelism: `context_types`, a list of the `mg.tag` of attention in each layer; `zigzag`: 1, the order of
      positions (plan/SequenceOrder.h)
    - data: `objective`: "causal", or "masked" where labels are those of the token itself; `token_types`: 0;
      `longest_document`, the size of a table of learned positions that only documents must fit; `start_token` and
      `padding_token` of an encoder-decoder; `images`, whole numbers `{channels, patch_size, rows, columns,
      class_tokens, token, first_feature}` of a model whose encoder reads images
    - experts: `moe_rows_factor`: 0.0, how many times the mean rows a rank has room for; 0: for all that may come
    - the model's blocks, from options: `moe_router_load_balancing_type`: "none", `moe_aux_loss_coeff`,
      `moe_z_loss_coeff`, `moe_expert_capacity_factor` and `mtp_loss_scaling_factor`: 0.0, `moe_token_drop_policy`:
      "probs", `moe_per_layer_logging`: false, `mtp_num_layers`: 0, `freeze`: ""
    - `settings`: those of the plan, `["--flag", "value", "refused" or "noted"]` each

    1. gradient_dtype is dtype or f32 (training_c1)
    2. moe_rows_factor is 0, or 1 or more (training_c2)
  }];
  let parameters = (ins Mg_TrainingParameter:$settings);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

#endif
