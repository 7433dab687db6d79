// See RunFlags.h.
#include "tools/RunFlags.h"

#include "plan/cost/Machine.h"
#include "plan/cost/ModelFlops.h"
#include "plan/json/PlanJson.h"
#include "runtime/base/File.h"
#include "runtime/base/Json.h"
#include "tools/page/Page.h"

namespace mgc::tools {

namespace {

void addDataFlags(CLI::App &app, RunFlags &run) {
  TrainingOptions &training = run.training;
  app.add_option("plan", training.plan, "Folder that mgc compile wrote")->required()->check(notEmpty());
  CLI::Option *data =
      app.add_option(
             "--data", training.data,
             ".npy: integers, one stream of token ids or one per row; .bin: one stream of raw "
             "little-endian ids, of the type in the .idx beside it or --bin-type; .safetensors: "
             "input_ids and labels (shifted, -100 ignored), integers [steps, global batch, sequence], and "
             "position_ids of packed documents, attention_mask of padding, token_type_ids; "
             "else UTF-8 text for a model of bytes, a token per byte. docs/data.md says more")
          ->check(CLI::ExistingFile);
  app.add_flag("--text-bytes", training.textBytes,
               "Read a text as bytes for a model that has a tokenizer too")
      ->needs(data);
  app.add_option("--eod-token-id", training.documents.endToken,
                 "Token that ends a document, for plans of packed documents and --eod-mask-loss")
      ->check(wholeNumber(0));
  app.add_flag("--eod-mask-loss", training.documents.masksEnds,
               "At the end of a document, no loss for predicting the first token of the next");
  app.add_flag("--mock-data", run.mockData, "Made-up tokens a model can learn")->excludes(data);
  app.add_option("--bin-type", training.binType,
                 "Elements of a .bin file without .idx: u8 u16 i32 u32 i64; needed where several would do")
      ->needs(data);
}

void addLoadFlags(CLI::App &app, TrainingOptions &training) {
  CLI::Option *load =
      app.add_option(
             "--load", training.load,
             "A checkpoint, or a folder of --save: the training goes on from its latest; weights of Hugging "
             "Face, a .safetensors file or a folder: a new one begins with them. Else weights are random. "
             "docs/checkpoints.md says more")
          ->check(notEmpty());
  app.add_flag("--finetune", training.finetune,
               "A new training begins with the weights of the checkpoint: at step 0, with moments of zero")
      ->needs(load);
  app.add_flag("--override-opt-param-scheduler,--override-opt_param-scheduler", training.overridesOptimizer,
               "Go on from a checkpoint with other settings of the optimizer and of the learning rate, "
               "instead of an "
               "error");
  app.add_flag("--ignore-extra-weights", training.ignoreExtraWeights,
               "Leave out tensors of --load that the model does not have, instead of an error");
  app.add_flag("--ignore-config", training.ignoreConfig,
               "Take --load whose config.json is of another model than the plan, instead of an error");
}

void addRestartFlags(CLI::App &app, RunFlags &run) {
  CLI::Option *restart =
      app.add_flag(
             "--restart-from-latest", run.training.restartsFromLatest,
             "Go on from the latest checkpoint in the folder of --save; begin, with --load if it is given, "
             "where there is none: one command for all starts of a training")
          ->needs(app.get_option("--save"));
  app.add_option(
         "--max-restarts", run.maxRestarts,
         "Start again after an error or a crash, at most so often. Under a launcher it is the launcher "
         "that starts again. docs/checkpoints.md says more")
      ->check(wholeNumber(0))
      ->needs(restart);
}

void addSaveFlags(CLI::App &app, TrainingOptions &training) {
  CLI::Option *save =
      app.add_option("--save", training.save,
                     "Folder for the weights and a checkpoint of all training state at the end; weights "
                     "in it are replaced")
          ->check(notEmpty());
  app.add_option_function<std::string>(
         "--save-dtype",
         [&training](const std::string &name) {
           training.saveType = name == "f32" ? plan::DType::f32 : plan::DType::bf16;
         },
         "Type of the weights in it, f32 or bf16; else that of the plan. f32 of a plan of bf16: the master "
         "weights")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->needs(save);
  app.add_option("--save-interval,--persistent-save-interval", training.saveInterval,
                 "Save after every so many steps too; 0: at the end only")
      ->check(wholeNumber(0))
      ->needs(save);
  app.add_option("--save-retain", training.saveRetain, "How many checkpoints stay in it, the newest; 0: all")
      ->check(wholeNumber(0))
      ->needs(save);
  app.add_flag("--async-save", training.asyncSave,
               "Copy the checkpoints of --save-interval in memory, and write them while training goes on")
      ->needs(save);
  app.add_flag_callback(
         "--no-save-optim", [&training] { training.savesState = false; },
         "Save the weights alone: no training can go on from there")
      ->needs(save);
  app.add_flag(
      "--force", training.force,
      "Let --save replace what is of another model or training, and other outputs files of another kind");
  app.add_flag(
      "--moe-per-layer-logging", training.logsLoads,
      "In the log: the least, mean and largest number of tokens of an expert, of each router with a bias; of "
      "others in plans that mgc compile --moe-per-layer-logging has made");
  app.add_flag("--log-norms-by-layer", training.logsNormsByLayer,
               "In --log and --tensorboard-dir: the norm of the gradients of each layer, before they are "
               "clipped; the whole gradient's is the root of the sum of their squares");
  app.add_option("--save-gradients", training.saveGradients,
                 "File (.safetensors) for the gradients of the first step")
      ->check(notEmpty());
  app.add_option("--log", training.log, "File (.jsonl) with one line per step; a log is gone on with")
      ->check(notEmpty());
  CLI::Option *events =
      app.add_option("--tensorboard-dir", training.tensorboard,
                     "Folder for TensorBoard: a new event file of loss, gradient norm, learning "
                     "rate, time and tokens of each step")
          ->check(notEmpty());
  app.add_option("--tensorboard-log-interval", training.tensorboardInterval,
                 "Steps from one event to the next")
      ->check(wholeNumber(1))
      ->needs(events);
}

void addTokenizerFlags(CLI::App &app, TrainingOptions &training) {
  CLI::Option *data = app.get_option("--data");
  std::vector<std::string> types;
  for (const TokenizerType &type : tokenizerTypes())
    types.emplace_back(type.name);
  app.add_option("--tokenizer-type", training.tokenizer.type,
                 "What reads the texts of a .jsonl; else by the name of --tokenizer-model")
      ->check(CLI::IsMember(types))
      ->needs(data);
  app.add_option("--tokenizer-model", training.tokenizer.model,
                 "tokenizer.json, its folder, or a .model of sentencepiece: then --data may be a .jsonl of "
                 "texts (\"text\" of "
                 "each line), or of conversations with --sft")
      ->check(CLI::ExistingPath)
      ->needs(data);
  CLI::Option *sft =
      app.add_flag("--sft", training.sft,
                   "Lines of the .jsonl are conversations (\"messages\", or \"prompt\" and \"completion\"), "
                   "and answers alone are learned")
          ->needs(data);
  app.add_option("--chat-template", training.chatTemplate,
                 "File (.json): what is put around the messages of each role; else ChatML (docs/data.md)")
      ->check(CLI::ExistingFile)
      ->needs(sft);
}

// Names and meanings are Megatron-LM's.
void addCorpusFlags(CLI::App &app, CorpusFlags &corpus) {
  CorpusOptions &options = corpus.options;
  CLI::Option *path =
      app.add_option(
             "--data-path", corpus.path,
             "Files of indexed token sequences, as mgc-data and Megatron-LM's preprocess_data.py write them: "
             "PREFIX of PREFIX.bin and PREFIX.idx, several, or a blend: WEIGHT PREFIX ..")
          ->excludes("--data", "--mock-data");
  app.add_option("--split", corpus.split, "Parts of them that are for training, validation and test")
      ->needs(path);
  CLI::Option *train = nullptr;
  for (const Split split : kSplits) {
    CLI::Option *own =
        app.add_option(fmt::format("--{}-data-path", toString(split)),
                       corpus.perSplit[static_cast<size_t>(split)],
                       fmt::format("Instead of --data-path and --split: those of {} alone", toString(split)))
            ->excludes(path)
            ->excludes("--data", "--mock-data");
    if (train)
      own->needs(train);
    train = split == Split::train ? own : train;
  }
  app.add_option("--data-cache-path", options.cache,
                 "Folder that keeps the order of samples of --data-path, so that later runs, and the other "
                 "processes, "
                 "need not compute it")
      ->check(notEmpty());
  app.add_option("--pad-token-id", options.padToken,
                 "Token of --data-path that has no loss and is read as token 0, as Megatron-LM treats a "
                 "tokenizer's pad")
      ->check(wholeNumber(0));
  app.add_flag("--dataloader-inter-document-masking", options.separatesSequences,
               "For plans of packed documents: they are the sequences of --data-path, instead of ending at "
               "--eod-token-id");
  app.add_option_function<std::string>(
         "--dataloader-type",
         [&options](const std::string &name) {
           options.schedule = name == "cyclic" ? SampleOrderKind::cyclic : SampleOrderKind::single;
         },
         "Order of the samples of --data-path: single: that of the index, the same in every layout; cyclic: "
         "drawn anew "
         "for each epoch, from its number, --mbs and the data-parallel ranks")
      ->check(CLI::IsMember({"single", "cyclic"}));
  app.add_flag("--no-data-sharding", options.noSharding,
               "With --dataloader-type cyclic: data-parallel ranks share one order instead of a part each");
}

void addMaskingFlags(CLI::App &app, MaskingOptions &masking) {
  app.add_option("--mlm-probability,--mask-prob", masking.probability,
                 "For plans of masked language models: the part of the tokens that is predicted; else 0.15. "
                 "Data with labels say it themselves")
      ->check(finiteNumber(0, 1));
  app.add_option("--mask-token-id", masking.maskToken, "Token that the model sees in place of a masked one")
      ->check(wholeNumber(0));
  app.add_option("--cls-token-id", masking.clsToken,
                 "Token in front of each sample that is cut from a stream; never masked")
      ->check(wholeNumber(0));
  app.add_option("--sep-token-id", masking.sepToken, "Token at its end; never masked")->check(wholeNumber(0));
  addList<int64_t>(
      app, "--special-token-ids",
      [&masking](std::vector<int64_t> tokens) { masking.specialTokens = std::move(tokens); },
      "Other tokens that are never masked, separated by commas", wholeNumber(0));
}

void addLaunchFlags(CLI::App &app, RunFlags &run) {
  LaunchFlags &flags = run.launchFlags;
  app.add_option(
         "--launch", run.launch,
         "Where it is said that this is one of several processes, with a rank each: auto: in the variables "
         "of "
         "torchrun, mpirun or srun, if there are any; env: in them, which must be there; none: in none")
      ->check(CLI::IsMember({"auto", "none", "env"}));
  app.add_option("--rank", flags.rank, "Of this process, instead of RANK")->check(wholeNumber(0));
  app.add_option("--world-size", flags.size, "Processes, instead of WORLD_SIZE; 1: all ranks are in this one")
      ->check(wholeNumber(1));
  app.add_option("--local-rank", flags.localRank,
                 "Among the processes of this machine, instead of LOCAL_RANK")
      ->check(wholeNumber(0));
  app.add_option("--master-addr", flags.masterHost, "Machine of rank 0, instead of MASTER_ADDR")
      ->check(notEmpty());
  app.add_option("--master-port", flags.masterPort, "Port on which rank 0 listens, instead of MASTER_PORT")
      ->check(wholeNumber(1, 65535));
}

void addProfileFlags(CLI::App &app, RunFlags &run) {
  TrainingOptions &training = run.training;
  CLI::Option *trace =
      app.add_option("--trace", training.trace,
                     "File (.json) for a trace of every instruction of every rank, as Perfetto reads it")
          ->check(notEmpty());
  app.add_option_function<std::string>(
         "--html", [&training](const std::string &path) { training.page = {pageKind(), path}; },
         "File (.html) for a page to look at in a browser: what mgc explain --html shows of the plan, with "
         "what was measured beside it, and the curves of the run")
      ->check(notEmpty());
  app.add_option("--trace-steps", training.traceSteps,
                 "Steps to trace, after the first; of a run of one step, that one")
      ->check(wholeNumber(1, 10'000))
      ->needs(trace);
  app.add_flag("--profile", training.profile,
               "Print where the time went, kernel by kernel, and how far it is from what the machine can do");
  app.add_option("--profile-json", training.profileJson, "File (.json) for the profile")->check(notEmpty());
}

// CPUs have no known peak. The description of a GPU is that of its target, whose cards have one peak.
StepWork stepWorkOf(const plan::Plan &plan) {
  StepWork work{cost::modelFlops(plan)};
  const cost::Machine machine = cost::machineOf(plan);
  if (plan.target != plan::Target::cpu && machine.target.starts_with(nameOf(plan.target)))
    work.peakFlops = plan.dtype == plan::DType::bf16 ? machine.flops.bf16 : machine.flops.f32;
  return work;
}

void addStepFlags(CLI::App &app, RunFlags &run) {
  TrainingOptions &training = run.training;
  app.add_option("--train-iters", training.trainIters, "Steps; they count from 0")->check(wholeNumber(0));
  app.add_option("--exit-interval", training.exitInterval,
                 "End, and save, after a number of steps that is a multiple of this; 0: at none")
      ->check(wholeNumber(0));
  app.add_option("--exit-duration-in-mins", training.exitMinutes,
                 "End, and save, after the step in which so many minutes have passed since the run began")
      ->check(finiteNumber(0, 1e9));
  auto *interval =
      app.add_option("--eval-interval", training.evalInterval,
                     "Steps from one evaluation to the next: the loss on other data, of a plan compiled with "
                     "--evaluation; one more is at the end. 0: none")
          ->check(wholeNumber(0));
  app.add_option("--eval-iters", training.evalIters, "Batches of an evaluation")
      ->check(wholeNumber(1))
      ->needs(interval);
  app.add_option("--valid-data", training.validData,
                 "What is evaluated on, where --data names what is trained on")
      ->check(CLI::ExistingFile)
      ->needs(interval, app.get_option("--data"));
  app.add_option("--seed", training.seed, "Of initial weights, data order and dropout")
      ->check(wholeNumber(0));
  app.add_option("--threads", training.threads, "Per rank; 0: the cores over the ranks")
      ->check(wholeNumber(0, 1024));
  app.add_option_function<std::string>(
         "--bf16-products",
         [&training](const std::string &name) { training.bf16Product = bf16ProductNamed(name); },
         "How a plan of bf16 multiplies on a CPU with AVX512-BF16 or AMX: native: its own products, panels: "
         "of f32 (other bits), auto: the faster, measured at the first load and kept in "
         "bf16-products.json in $XDG_CACHE_HOME/mgc or ~/.cache/mgc")
      ->check(CLI::IsMember({"auto", "native", "panels"}));
  app.add_option("--timeout", run.timeoutSeconds, "Seconds one rank waits for another")
      ->check(finiteNumber(0.001, 1e6));
  app.add_flag_callback(
      "--log-throughput", [&training] { training.findStepWork = stepWorkOf; },
      "On the screen, in --log and --tensorboard-dir: of each device tokens/s, TFLOP/s of what the model "
      "needs and, on a GPU, their part of its peak (docs/cost.md, Utilisation)");
  app.add_option("--log-interval", run.logInterval, "Steps from one line on the screen to the next")
      ->check(wholeNumber(1));
  CLI::Option *timers =
      app.add_option(
             "--timing-log-level", training.timersLevel,
             "With each --log-interval: 1: how long a step computes forward and backward, sums gradients "
             "and updates, on the fastest and the slowest rank; 2: also parts of the first. Else 0")
          ->check(CLI::Range(0, 2));
  app.add_option("--timing-log-option", run.timersOf, "On the screen, of the ranks: max, minmax or all")
      ->check(CLI::IsMember({"max", "minmax", "all"}))
      ->needs(timers);
  app.add_flag("--log-timers-to-tensorboard", training.timersInTensorboard,
               "The slowest rank's to --tensorboard-dir")
      ->needs(timers, app.get_option("--tensorboard-dir"));
  app.add_flag("--poison", training.poison,
               "Fill the memory with NaN first, to find what is read before it is written");
  app.add_option("--inject-delays", training.delays,
                 "Seed of random pauses before instructions, to find results that depend on timing")
      ->check(wholeNumber(0));
}

void addCheckFlags(CLI::App &app, CheckOptions &checks) {
  app.add_flag("--check-for-nan-in-loss-and-grad,!--no-check-for-nan-in-loss-and-grad", checks.finite,
               "A loss or gradient norm that is not finite is bad; --no-check-for-nan-in-loss-and-grad goes "
               "on with it, though such weights are never saved");
  app.add_flag("--check-for-spiky-loss", checks.spikyLoss,
               "A loss of at least 10 times the largest of the run's first 100 steps is bad");
  app.add_flag("--check-for-large-grads", checks.largeGradients, "The same of the gradient norm");
  app.add_option(
         "--skip-bad-steps", checks.skips,
         "Leave out the update of up to so many bad steps in a row, and go on with the next data; one "
         "more ends the run, saved. 0: a bad step ends it, and nothing is saved")
      ->check(wholeNumber(0));
}

void addDeviceFlags(CLI::App &app, RunFlags &run) {
  TrainingOptions &training = run.training;
  app.add_option("--device", training.device,
                 "Number of the device that runs a plan for GPUs; all its ranks share it")
      ->check(wholeNumber(0, 1024));
  app.add_option("--device-plugin", training.devicePlugin,
                 "File (.so) that knows the device; else the one beside mgrun or in ../lib")
      ->check(CLI::ExistingFile);
  app.add_flag("--non-deterministic", training.nonDeterministic,
               "Let libraries of the device take paths whose bits differ from run to run");
  CLI::Option *tune =
      app.add_flag("--tune-products", training.tuneProducts,
                   "Measure at load which algorithm of the device's library is the fastest for each matrix "
                   "product; else the library's own choice. mgc compile does so for plans for CPUs");
  app.add_option("--tune-cache", training.tuneCache,
                 "File that keeps what was measured, so that later runs choose alike; else "
                 "device-products.json in $XDG_CACHE_HOME/mgc or ~/.cache/mgc")
      ->check(notEmpty())
      ->needs(tune);
  app.add_flag("--no-graphs", training.noGraphs,
               "Enqueue every step anew on the device instead of replaying one");
}

void addOptimizerFlags(CLI::App &app, RunFlags &run) {
  OptimizerOptions &optimizer = run.training.optimizer;
  app.add_option("--lr", optimizer.lr, "Learning rate")->check(finiteNumber());
  app.add_option("--min-lr", optimizer.minLr, "Where the decay ends")->check(finiteNumber());
  app.add_option("--lr-decay-style", optimizer.lrDecayStyle, "constant, linear, cosine or WSD")
      ->check(notEmpty());
  app.add_option("--lr-decay-iters", optimizer.lrDecay, "Steps to --min-lr; 0: --train-iters")
      ->check(wholeNumber());
  app.add_option("--lr-warmup-iters", optimizer.lrWarmup, "Steps from --lr-warmup-init to --lr")
      ->check(wholeNumber());
  app.add_option("--lr-warmup-fraction", run.warmupFraction,
                 "Instead of --lr-warmup-iters: what part of the steps to --min-lr, rounded to a whole "
                 "number of them")
      ->check(finiteNumber(0, 1))
      ->excludes("--lr-warmup-iters");
  app.add_option("--lr-warmup-init", optimizer.lrWarmupInit, "Rate of the first step of the warmup")
      ->check(finiteNumber());
  app.add_option("--lr-wsd-decay-style", optimizer.lrWsdDecayStyle,
                 "linear, cosine, exponential or minus_sqrt")
      ->check(notEmpty());
  app.add_option("--lr-wsd-decay-iters", optimizer.lrWsdDecay, "Last steps, in which WSD decays")
      ->check(wholeNumber());
  app.add_option("--lr-list", run.lrList, "File with a JSON array of one rate per step, instead of all above")
      ->check(CLI::ExistingFile);
  app.add_option("--weight-decay", optimizer.weightDecay, "Decoupled, as in AdamW")->check(finiteNumber());
  app.add_option("--adam-beta1", optimizer.beta1, "")->check(finiteNumber());
  app.add_option("--adam-beta2", optimizer.beta2, "")->check(finiteNumber());
  app.add_option("--adam-eps", optimizer.eps, "")->check(finiteNumber());
  app.add_option("--clip-grad", optimizer.clipGrad, "Greatest norm of the gradient; 0: no clipping")
      ->check(finiteNumber());
  app.add_option("--moe-router-bias-update-rate", optimizer.routerBiasRate,
                 "By which a step moves the biases of routers towards even load; 0: they stay")
      ->check(finiteNumber());
}

void addSampleFlags(CLI::App &app, SampleFlags &samples) {
  CLI::Option *train =
      app.add_option("--train-samples", samples.train,
                     "Instead of --train-iters: samples, of which each step takes a global "
                     "batch; what is left of them is not trained on")
          ->check(wholeNumber(1))
          ->excludes("--train-iters", "--lr-decay-iters", "--lr-warmup-iters", "--lr-wsd-decay-iters");
  const auto add = [&](const char *flag, std::optional<int64_t> &value, const char *steps) {
    return app.add_option(flag, value, fmt::format("Instead of {}, in samples", steps))
        ->check(wholeNumber(0))
        ->needs(train);
  };
  add("--lr-decay-samples", samples.decay, "--lr-decay-iters");
  add("--lr-warmup-samples", samples.warmup, "--lr-warmup-iters")->excludes("--lr-warmup-fraction");
  add("--lr-wsd-decay-samples", samples.wsdDecay, "--lr-wsd-decay-iters");
  app.add_option(
         "--rampup-batch-size", samples.rampup,
         "The batch grows from START to the plan's global batch by INCREMENT, over the first SAMPLES, by "
         "the plans of mgc compile --rampup-batch-size. The state goes from one plan to the next by a "
         "checkpoint in --save")
      ->type_name("START INCREMENT SAMPLES")
      ->expected(3)
      ->check(wholeNumber(1))
      ->needs(train, app.get_option("--save"))
      ->excludes("--no-save-optim");
}

// The schedule counts in samples.
void readSampleFlags(const SampleFlags &samples, TrainingOptions &training) {
  if (!samples.train)
    return;
  if (!samples.rampup.empty())
    training.rampup = {samples.rampup[0], samples.rampup[1], samples.rampup[2]};
  training.trainSamples = samples.train;
  training.trainIters = *samples.train;
  OptimizerOptions &optimizer = training.optimizer;
  optimizer.bySamples = true;
  optimizer.lrDecay = samples.decay.value_or(0);
  optimizer.lrWarmup = samples.warmup.value_or(0);
  optimizer.lrWsdDecay = samples.wsdDecay.value_or(0);
}

Result<std::vector<double>> readRates(const std::string &path) {
  MGC_ASSIGN(text, readFile(path, 64 << 20));
  Result<nlohmann::json> json = parseJson(text);
  if (!json.isOk())
    return Status(json.status()).at(path);
  if (!json->is_array() || json->empty())
    return errorf("{}: expected a JSON array of one learning rate per step", path);
  std::vector<double> rates;
  for (const nlohmann::json &rate : *json) {
    if (!rate.is_number() || rate.get<double>() < 0)
      return errorf("{}: element {} is {}, expected a number that is not negative", path, rates.size(),
                    rate.dump());
    rates.push_back(rate.get<double>());
  }
  return rates;
}

int64_t warmupOf(const TrainingOptions &training, double fraction) {
  const int64_t decay = training.optimizer.lrDecay;
  return std::llround(fraction * static_cast<double>(decay > 0 ? decay : training.scheduleLength()));
}

} // namespace

void addRunFlags(CLI::App &app, RunFlags &flags) {
  addDataFlags(app, flags);
  addTokenizerFlags(app, flags.training);
  addCorpusFlags(app, flags.corpus);
  addLoadFlags(app, flags.training);
  addSaveFlags(app, flags.training);
  addRestartFlags(app, flags);
  addMaskingFlags(app, flags.training.masking);
  addStepFlags(app, flags);
  addCheckFlags(app, flags.training.checks);
  addLaunchFlags(app, flags);
  addProfileFlags(app, flags);
  addDeviceFlags(app, flags);
  addOptimizerFlags(app, flags);
  addSampleFlags(app, flags.samples);
}

Status readCorpusFlags(const CLI::App &app, RunFlags &flags) {
  CorpusFlags &corpus = flags.corpus;
  const bool isPerSplit = app.count("--train-data-path") > 0;
  if (!isPerSplit && app.count("--data-path") == 0)
    return Status::ok();
  const auto parse = [](std::string_view flag, const std::vector<std::string> &words) {
    Result<BlendWords> blend = parseBlend(flag, words);
    if (blend.isOk())
      for (std::string &prefix : blend->prefixes)
        prefix = prefixOf(prefix);
    return blend;
  };
  CorpusFiles &files = corpus.options.files;
  for (const Split split : kSplits) {
    const std::vector<std::string> &words = corpus.perSplit[static_cast<size_t>(split)];
    MGC_ASSIGN(blend, parse(fmt::format("--{}-data-path", toString(split)), words));
    files.perSplit[static_cast<size_t>(split)] = std::move(blend);
  }
  MGC_ASSIGN(blend, parse("--data-path", corpus.path));
  MGC_ASSIGN(split, parseSplit(corpus.split));
  files.blend = std::move(blend), files.split = split;
  flags.training.corpus = corpus.options;
  return Status::ok();
}

Status readRunFlags(RunFlags &flags) {
  TrainingOptions &training = flags.training;
  training.timeout = std::chrono::milliseconds(static_cast<int64_t>(flags.timeoutSeconds * 1000));
  training.timersInterval = flags.logInterval;
  if (!flags.lrList.empty()) {
    MGC_ASSIGN(rates, readRates(flags.lrList));
    training.optimizer.lrList = std::move(rates);
    training.inputs.push_back({"--lr-list", flags.lrList});
  }
  readSampleFlags(flags.samples, training);
  if (flags.warmupFraction)
    training.optimizer.lrWarmup = warmupOf(training, *flags.warmupFraction);
  using Mode = LaunchFlags::Mode;
  flags.launchFlags.mode = flags.launch == "none"  ? Mode::none
                           : flags.launch == "env" ? Mode::env
                                                   : Mode::automatic;
  MGC_ASSIGN(launch, launchOf(flags.launchFlags));
  training.launch = launch;
  return Status::ok();
}
} // namespace mgc::tools
