#include "tools/flags/Flags.h"

#include "tools/flags/FlagChecks.h"
#include "tools/process/Process.h"

using namespace mgc;
using namespace mgc::tools;

namespace {

void addTuning(CLI::App &app, CompileFlags &flags) {
  CLI::Option *tune =
      app.add_flag("--tune-products{0}", flags.tuneThreads,
                   "Measure on this machine how to compute each matrix product; =THREADS: with so "
                   "many of a rank (0, the default: the cores here over the ranks)");
  tune->check(wholeNumber(0, 1024))->excludes(app.get_option("--compile-to"));
  app.add_option(
         "--tune-cache", flags.tuneCache,
         "File that remembers what was measured (default: mgc/products.json in $XDG_CACHE_HOME or ~/.cache)")
      ->check(notEmpty())
      ->needs(tune);
}

void addPrecision(CLI::Option_group &group, frontend::LayoutOptions &layout) {
  CLI::Option *dtype =
      group.add_option("--dtype", layout.dtype, "Of parameters and activations: f32 or bf16 (f32 masters)");
  dtype->check(notEmpty());
  group.add_flag_callback(
           "--bf16", [&] { layout.dtype = "bf16"; }, "Megatron-LM's name of --dtype bf16")
      ->disable_flag_override()
      ->excludes(dtype);
  CLI::Option *gradients = group.add_option("--grad-dtype", layout.gradientType,
                                            "Of parameters' gradients: f32, or bf16 with --dtype bf16");
  gradients->check(notEmpty());
  group
      .add_flag_callback(
          "--accumulate-allreduce-grads-in-fp32", [&] { layout.gradientType = "f32"; },
          "Megatron-LM's name of --grad-dtype f32")
      ->disable_flag_override()
      ->excludes(gradients);
}

// Flags of `mgc compile`. Megatron-LM's long names are aliases of ours.
void addCompile(CLI::App &app, CompileFlags &flags) {
  frontend::LayoutOptions &layout = flags.layout;
  app.add_option("model", flags.model,
                 "Hugging Face config.json, model.json (or a folder with one), or .mlir")
      ->required()
      ->check(notEmpty());
  app.add_option("-o,--output", flags.output, "Folder of the plan")->check(notEmpty());
  auto *group = app.add_option_group("Layout");
  group->add_option("--tp,--tensor-model-parallel-size", layout.tp, "Tensor parallel ranks")
      ->check(wholeNumber());
  group->add_option("--pp,--pipeline-model-parallel-size", layout.pp, "Pipeline stages")
      ->check(wholeNumber());
  group->add_option("--dp,--data-parallel-size", layout.dp, "Data parallel ranks")->check(wholeNumber());
  group
      ->add_option("--cp,--context-parallel-size", layout.cp,
                   "Context parallel ranks: each has a part of the sequence")
      ->check(wholeNumber());
  group
      ->add_option("--cp-comm-type", layout.contextTypes,
                   "How attention sees the whole sequence: all_gather, a2a or a2a+p2p; one for all layers or "
                   "one per layer")
      ->delimiter(',')
      ->check(notEmpty());
  group->add_option("--cp-order", layout.contextOrder, "Order of the positions over cp: zigzag or contiguous")
      ->check(notEmpty());
  group
      ->add_option("--hierarchical-context-parallel-sizes", layout.contextHierarchy,
                   "A B with A * B = cp: a2a+p2p exchanges heads in A ranks and gathers keys over B of them")
      ->delimiter(',')
      ->check(wholeNumber());
  group->add_option("--world,--world-size", layout.world, "All ranks; dp follows")->check(wholeNumber());
  group
      ->add_option("--vpp,--virtual-pipeline-model-parallel-size", layout.vpp,
                   "Chunks per stage (interleaved schedule)")
      ->check(wholeNumber());
  CLI::Option *sp = group->add_flag_callback(
      "--sp,--sequence-parallel", [&] { layout.sp = true; }, "Sequence parallelism (on when tp > 1)");
  sp->disable_flag_override();
  group->add_flag_callback(
           "--no-sp", [&] { layout.sp = false; }, "No sequence parallelism")
      ->disable_flag_override()
      ->excludes(sp);
  group->add_option("--seq,--seq-length", layout.seq, "Tokens per sequence")->check(wholeNumber());
  group
      ->add_flag_callback(
          "--reset-position-ids", [&] { layout.resetPositionIds = true; },
          "Of packed documents: positions count from the beginning of each")
      ->disable_flag_override();
  group
      ->add_flag_callback(
          "--reset-attention-mask", [&] { layout.resetAttentionMask = true; },
          "Of packed documents: attention sees nothing of the others")
      ->disable_flag_override();
  group->add_option("--mbs,--micro-batch-size", layout.mbs, "Sequences per microbatch and data rank")
      ->check(wholeNumber());
  group
      ->add_option("--gbs,--global-batch-size", layout.gbs,
                   "Sequences per training step: mbs * accumulation * dp")
      ->check(wholeNumber());
  group->add_option("--schedule,--pipeline-schedule", layout.schedule, "gpipe, 1f1b, interleaved or zb-h1")
      ->check(notEmpty());
  CLI::Option *zero =
      group->add_option("--zero", layout.zero, "0: replicated optimizer; 1: distributed optimizer (ZeRO-1)");
  zero->check(wholeNumber());
  group
      ->add_flag_callback(
          "--use-distributed-optimizer", [&] { layout.zero = 1; }, "Megatron-LM's name of --zero 1")
      ->disable_flag_override()
      ->excludes(zero);
  group
      ->add_option("--loss-tile", layout.lossTile,
                   "Tokens whose logits exist at once; 0: all of a microbatch")
      ->check(wholeNumber(0));
  CLI::Option *overlap = group->add_flag_callback(
      "--overlap-grad-reduce", [&] { layout.overlapGradReduce = true; },
      "Reduce gradients over data ranks while the backward goes on (default: on GPUs)");
  overlap->disable_flag_override();
  group
      ->add_flag_callback(
          "--no-overlap-grad-reduce", [&] { layout.overlapGradReduce = false; },
          "Reduce all of them at the end")
      ->disable_flag_override()
      ->excludes(overlap);
  group
      ->add_option("--ddp-bucket-size", layout.bucketSize,
                   "With --overlap-grad-reduce: elements of gradients that are reduced together, at least")
      ->check(wholeNumber());
  addPrecision(*group, layout);
  group->add_option("--target", layout.target, "cpu, cuda:sm_80, cuda:sm_90 or cuda:sm_100")
      ->check(notEmpty());
  app.add_option(
         "--target-cpu", flags.cpu,
         "Kernels for this CPU alone: native, x86-64-v3, x86-64-v4, znver4, ... (default: for AVX2 and "
         "AVX-512, chosen at load)")
      ->check(notEmpty());
  app.add_option("--rules", flags.rules,
                 "A JSON placement table that replaces Megatron-LM's: {\"f\": [\"tp\"], ...}")
      ->check(notEmpty());
  app.add_flag("--force", flags.force, "Replace files in the way of -o that mgc did not write")
      ->disable_flag_override();
  app.add_flag_callback(
         "--no-fusion", [&] { flags.fusion = false; },
         "Every operation between the products is a kernel of its own")
      ->disable_flag_override();
  auto *phases = app.add_option_group("Phases");
  phases->add_option("--compile-from", flags.from, "Phase the .mlir is in (default: what it says)")
      ->check(notEmpty());
  phases
      ->add_option("--compile-to", flags.to,
                   "Stop after this phase and write its IR to -o FILE or standard output")
      ->check(notEmpty());
  phases->add_option("--dump-phases", flags.dump, "Folder for the IR after every phase")->check(notEmpty());
  addTuning(app, flags);
}

} // namespace

Parsed mgc::tools::parseFlags(int argc, char **argv, const std::string &version) {
  Parsed parsed;
  CLI::App app("mgc: compiles a transformer and a layout into checked plans for every rank", "mgc");
  app.require_subcommand(1);
  app.set_version_flag("--version", version);
  auto *compile = app.add_subcommand("compile", "Compile a model into a plan");
  addCompile(*compile, parsed.flags.compile);
  auto *explain = app.add_subcommand("explain", "Say what a plan does: layout, memory, traffic, schedule");
  explain->add_option("plan", parsed.flags.explain.plan, "Folder of the plan")->required()->check(notEmpty());
  explain->add_flag("--json", parsed.flags.explain.json, "Machine-readable");
  explain
      ->add_option("--width", parsed.flags.explain.width,
                   "Columns of the schedule's picture (default: the terminal's, else 120)")
      ->check(wholeNumber(20));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    parsed.exitCode = leaveWith(app, error);
    return parsed;
  }
  parsed.flags.command = explain->parsed() ? Flags::Command::explain : Flags::Command::compile;
  if (compile->parsed() && parsed.flags.compile.output.empty() && parsed.flags.compile.to.empty()) {
    say(stderr, "mgc compile: -o PLAN/ is missing: the folder to write the plan to\n");
    parsed.exitCode = 2;
  }
  return parsed;
}
