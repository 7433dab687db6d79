// The table of the options of a run: see RunOptions.h.
#include "runtime/train/RunOptions.h"

#include "plan/Optimizers.h"
#include "runtime/exec/Bf16Choice.h"
#include "runtime/random/Philox.h"

#include <algorithm>
#include <fmt/ranges.h>

namespace mgc {

namespace {

using Kind = OptionRange::Kind;
using T = TrainingOptions;
using Typed = TypedOptions;
using O = OptimizerOptions;
using M = MaskingOptions;
using C = CorpusOptions;
using Checks = CheckOptions;
using Row = RunOption;
using Rows = std::vector<Row>;
using enum Agrees;
using enum PlanKind;

// The accessor of a member, found by the path from TrainingOptions: at<&T::checks, &Checks::finite>.
template <auto... Path> constexpr auto at = +[](TrainingOptions &options) -> auto & { return (options.*....*Path); };
template <auto Member> constexpr auto atTyped = at<&T::typed, Member>;
template <auto Member> constexpr auto atLaunch = at<&T::typed, &Typed::launch, Member>;
template <auto Member> constexpr auto atOptimizer = at<&T::optimizer, Member>;

const OptionRange kAny = {}, kNotEmpty = {Kind::notEmpty}, kFile = {Kind::file}, kPath = {Kind::path};
OptionRange whole(int64_t least = kAny.least, int64_t most = kAny.most) {
  return {.kind = Kind::whole, .least = least, .most = most};
}
OptionRange number(double lowest = kAny.lowest, double highest = kAny.highest) {
  return {.kind = Kind::number, .lowest = lowest, .highest = highest};
}
OptionRange proposing(std::vector<std::string> words) { return {.kind = Kind::notEmpty, .words = std::move(words)}; }
OptionRange oneOf(std::vector<std::string> words) { return {.kind = Kind::words, .words = std::move(words)}; }

bool hasRates(const T &options) { return !options.optimizer.lrList.empty(); }
bool isConstant(const T &options) { return options.optimizer.lrDecayStyle == "constant"; }
bool countsSamples(const T &options) { return options.optimizer.bySamples; }
bool hasNoIterations(const T &options) { return hasRates(options) || countsSamples(options); }
bool hasNoSampleSchedule(const T &options) { return hasRates(options) || !countsSamples(options); }
bool isNotEvaluated(const T &options) { return options.evalInterval == 0; }
bool isPerSplit(const T &options) { return options.corpus.files.isPerSplit(); }

const IdleWhen kRates{hasRates, "--lr-list has the rate of each step"},
    kConstant{isConstant, "--lr-decay-style constant stays at --lr"},
    kNotWsd{[](const T &options) { return options.optimizer.lrDecayStyle != "WSD"; }, "it is of --lr-decay-style WSD"},
    kNoWarmup{[](const T &options) { return options.optimizer.lrWarmup == 0; },
              "there is no warmup: --lr-warmup-iters is 0"},
    kNoLoad{[](const T &options) { return !options.load; }, "there is no --load"},
    kNoStart{[](const T &options) { return !options.load && !options.restartsFromLatest; },
             "there is no --load and no --restart-from-latest"},
    kNotEvaluated{isNotEvaluated, "there is no --eval-interval"},
    kNoChecks{[](const T &options) {
                return !options.checks.finite && !options.checks.spikyLoss && !options.checks.largeGradients;
              },
              "nothing says which steps are bad: --check-for-spiky-loss would"},
    kNoCorpus{[](const T &options) { return !options.hasCorpus(); },
              "there is no --data-path and no --train-data-path"},
    kNothingCached{[](const T &options) { return !options.hasCorpus() && !options.chats.areRead; },
                   "there is no --data-path, no --train-data-path and no --sft"},
    kNotCyclic{
        [](const T &options) { return options.hasCorpus() && options.corpus.schedule != SampleOrderKind::cyclic; },
        "it is of --dataloader-type cyclic"},
    kSavesAtTheEnd{[](const T &options) { return options.saveInterval == 0 && !options.saveBest; },
                   "it is of the checkpoints of --save-interval"},
    kSavesWeightsAlone{[](const T &options) { return options.savesWeightsAlone; },
                       "--no-save-optim saves no checkpoints"},
    kWritesNoFile{[](const T &options) {
                    return !options.save && !options.saveGradients && !options.trace && !options.profileJson &&
                           !options.page;
                  },
                  "there is no --save, --save-gradients, --trace, --profile-json or --html"},
    kNotLaunched{[](const T &options) { return options.launch.by == Launch().by; },
                 "all ranks are in this one process: --world-size, or the variables of a launcher, would say "
                 "otherwise"},
    kLaunched{[](const T &options) { return options.launch.by != Launch().by; },
              "processes that a launcher started cannot start each other: torchrun has --max-restarts, a "
              "script starts mpirun or srun again"};

std::string nameOfFile(const std::string &path) { return std::filesystem::path(path).filename().string(); }

// Names alone: data may be moved.
std::string textOfBlend(const BlendWords &blend) {
  std::string words;
  for (size_t i = 0; i < blend.prefixes.size(); ++i)
    words +=
        fmt::format("{}{}{}", words.empty() ? "" : " ",
                    blend.weights.empty() ? "" : fmt::format("{} ", blend.weights[i]), nameOfFile(blend.prefixes[i]));
  return words;
}
// --train-data-path and its like.
template <Split split> Row rowOfSplit(Agrees agrees, std::vector<std::string> needs, std::vector<IdleWhen> idle) {
  return Row(
      fmt::format("--{}-data-path", toString(split)),
      +[](T &options) -> auto & { return options.typed.dataPaths[size_t(split)]; }, kAny, agrees,
      fmt::format("Instead of --data-path and --split: those of {} alone", toString(split)),
      {.needs = std::move(needs),
       .excludes = {"--data-path", "--data", "--mock-data"},
       .idle = std::move(idle),
       .text = [](const T &options) { return textOfBlend(options.corpus.files.perSplit[size_t(split)]); },
       .absent = [](const T &options) { return options.corpus.files.perSplit[size_t(split)].prefixes.empty(); }});
}

// Lists may be long: their length and a hash.
template <typename Value> std::string textOfList(std::string_view what, std::span<const Value> values) {
  const std::string_view bytes(reinterpret_cast<const char *>(values.data()), values.size_bytes());
  return values.empty() ? "none" : fmt::format("{} {} with the hash {:016x}", values.size(), what, hashName(bytes));
}
std::string textOfTokens(const T &options) { return textOfList<int64_t>("tokens", options.masking.specialTokens); }
std::string textOfDecay(const T &options) {
  const int64_t decay = options.optimizer.lrDecay;
  return std::to_string(decay > 0 ? decay : options.scheduleLength()); // it ends at the last step
}
std::vector<std::string> namesOfTokenizers() {
  std::vector<std::string> names;
  for (const TokenizerType &type : tokenizerTypes())
    names.emplace_back(type.name);
  return names;
}

Rows dataOptions() {
  return {
      Row("plan", at<&T::plan>, kNotEmpty, elsewhere, "Folder that mgc compile wrote"),
      Row("--config", atTyped<&Typed::config>, kNotEmpty, no,
          "File (.toml) with these options as keys, which hold where the command line does not have them "
          "(docs/configuration.md)",
          {.isOfCommand = true}),
      Row("--data", at<&T::data>, kFile, elsewhere,
          ".npy: integers, one stream of token ids or one per row; .bin: one stream of raw little-endian ids, of the "
          "type in the .idx beside it or --bin-type; .safetensors: input_ids and labels (shifted, -100 ignored), "
          "integers [steps, global batch, sequence], and position_ids of packed documents, attention_mask of padding, "
          "token_type_ids; else UTF-8 text for a model of bytes, a token per byte. docs/data.md says more"),
      Row("--text-bytes", at<&T::textBytes>, kAny, elsewhere,
          "Read a text as bytes for a model that has a tokenizer too", {.needs = {"--data"}}),
      Row("--eod-token-id", at<&T::documents, &DocumentOptions::endToken>, whole(0), data,
          "Token that ends a document, for plans of packed documents and --eod-mask-loss", {.none = "-1"}),
      Row("--eod-mask-loss", at<&T::documents, &DocumentOptions::masksEnds>, kAny, data,
          "At the end of a document, no loss for predicting the first token of the next"),
      Row("--mock-data", atTyped<&Typed::mockData>, kAny, elsewhere, "Made-up tokens a model can learn",
          {.excludes = {"--data"}}),
      Row("--bin-type", at<&T::binType>, kAny, elsewhere,
          "Elements of a .bin file without .idx: u8 u16 i32 u32 i64; needed where several would do",
          {.needs = {"--data"}}),
      Row("--tokenizer-type", at<&T::tokenizer, &TokenizerFiles::type>, oneOf(namesOfTokenizers()), data,
          "What reads the texts of a .jsonl; else by the name of --tokenizer-model", {.needs = {"--data"}}),
      Row("--tokenizer-model", at<&T::tokenizer, &TokenizerFiles::model>, kPath, contents,
          "tokenizer.json, its folder, or a .model of sentencepiece: then --data may be a .jsonl of texts "
          "(\"text\" of each line), or of conversations with --sft",
          {.needs = {"--data"}, .text = [](const T &options) { return nameOfFile(options.tokenizer.model); }}),
      Row("--sft", at<&T::chats, &ChatOptions::areRead>, kAny, data,
          "Lines of the .jsonl are conversations (\"messages\", \"conversations\", \"instruction\" and \"output\", or "
          "\"prompt\" and \"completion\"), and answers alone are learned (docs/data.md)",
          {.needs = {"--data"}}),
      Row("--chat-template", at<&T::chats, &ChatOptions::templateFile>, kFile, contents,
          "File of a template in Jinja, or in JSON (docs/data.md); else that of the tokenizer's folder, else ChatML",
          {.needs = {"--sft"}, .none = ""}),
      Row("--chat-template-kwargs", at<&T::chats, &ChatOptions::variables>, kNotEmpty, data,
          "Variables of the template, as a JSON object: {\"enable_thinking\": false}; \"chat_template_kwargs\" of a "
          "line "
          "say so of one conversation",
          {.needs = {"--sft"}, .none = ""}),
      Row("--sft-learn",
          [](T &options, const std::string &word) {
            options.chats.form.learn = SftLearn(std::ranges::find(kSftLearnNames, word) - kSftLearnNames.begin());
          },
          oneOf({kSftLearnNames.begin(), kSftLearnNames.end()}), data,
          "Tokens that are learned: the assistant's turns, the whole text, or the last of these turns alone",
          {.needs = {"--sft"},
           .text = [](const T &options) { return std::string(kSftLearnNames[size_t(options.chats.form.learn)]); }}),
      Row("--sft-ignore-fields", at<&T::chats, &ChatOptions::form, &ChatForm::ignored>, kNotEmpty, data,
          "Fields of the lines that are passed over; others that are not understood are refused", {.needs = {"--sft"}}),
      Row("--data-path", atTyped<&Typed::dataPath>, kAny, corpus,
          "Files of indexed token sequences, as mgc-data and Megatron-LM's preprocess_data.py write them: "
          "PREFIX of PREFIX.bin and PREFIX.idx, several, or a blend: WEIGHT PREFIX ..",
          {.excludes = {"--data", "--mock-data"},
           .text = [](const T &options) { return textOfBlend(options.corpus.files.blend); },
           .absent = isPerSplit}),
      Row("--split", atTyped<&Typed::split>, kAny, corpus, "Parts of them that are for training, validation and test",
          {.needs = {"--data-path"},
           .text =
               [](const T &options) {
                 const auto &part = options.corpus.files.split.parts[size_t(Split::train)];
                 return fmt::format("{} to {} of training", part->begin, part->end);
               },
           .absent =
               [](const T &options) {
                 return isPerSplit(options) || !options.corpus.files.split.parts[size_t(Split::train)];
               }}),
      rowOfSplit<Split::train>(corpus, {}, {}),
      rowOfSplit<Split::valid>(evaluation, {"--train-data-path"}, {kNotEvaluated}),
      rowOfSplit<Split::test>(noted, {"--train-data-path"}, {kNotEvaluated}),
      Row("--data-cache-path", at<&T::corpus, &C::cache>, kNotEmpty, no,
          "Folder that keeps the order of samples of --data-path, and the texts of --sft, so that later runs, and the "
          "other "
          "processes, need not compute them",
          {.idle = {kNothingCached}}),
      Row("--pad-token-id", at<&T::corpus, &C::padToken>, whole(0), corpus,
          "Token of --data-path that has no loss and is read as token 0, as Megatron-LM treats a tokenizer's pad",
          {.idle = {kNoCorpus}, .none = "-1"}),
      Row("--dataloader-inter-document-masking", at<&T::corpus, &C::separatesSequences>, kAny, corpus,
          "For plans of packed documents: they are the sequences of --data-path, instead of ending at --eod-token-id",
          {.idle = {kNoCorpus}}),
      Row("--dataloader-type",
          [](T &options, const std::string &word) {
            options.corpus.schedule = word == "cyclic" ? SampleOrderKind::cyclic : SampleOrderKind::single;
          },
          oneOf({"single", "cyclic"}), corpus,
          "Order of the samples of --data-path: single: that of the index, the same in every layout; cyclic: "
          "drawn anew for each epoch, from its number, --mbs and the data-parallel ranks",
          {.idle = {kNoCorpus},
           .text = [](const T &options) -> std::string {
             return options.corpus.schedule == SampleOrderKind::single ? "single" : "cyclic";
           }}),
      Row("--no-data-sharding", at<&T::corpus, &C::noSharding>, kAny, corpus,
          "With --dataloader-type cyclic: data-parallel ranks share one order instead of a part each",
          {.idle = {kNoCorpus, kNotCyclic}}),
  };
}

Rows loadOptions() {
  return {
      Row("--load", at<&T::load>, kNotEmpty, elsewhere,
          "A checkpoint, or a folder of --save: the training goes on from its latest; weights of Hugging "
          "Face, a .safetensors file or a folder: a new one begins with them. Else weights are random. "
          "docs/checkpoints.md says more"),
      Row("--finetune", at<&T::finetune>, kAny, run,
          "A new training begins with the weights of the checkpoint: at step 0, with moments of zero",
          {.needs = {"--load"}}),
      Row("--override-opt-param-scheduler,--override-opt_param-scheduler", at<&T::overridesOptimizer>, kAny, no,
          "Go on from a checkpoint with other settings of the optimizer and of the learning rate, instead of an error",
          {.idle = {kNoStart}}),
      Row("--ignore-extra-weights", at<&T::ignoreExtraWeights>, kAny, no,
          "Leave out tensors of --load that the model does not have, instead of an error", {.idle = {kNoLoad}}),
      Row("--ignore-config", at<&T::ignoreConfig>, kAny, no,
          "Take --load whose config.json is of another model than the plan, or whose plan had other settings, instead "
          "of an "
          "error",
          {.idle = {kNoStart}}),
  };
}

Rows saveOptions() {
  return {
      Row("--save", at<&T::save>, kNotEmpty, run,
          "Folder for the weights and a checkpoint of all training state at the end; weights in it are replaced"),
      Row("--save-dtype",
          [](T &options, const std::string &word) {
            options.saveType = word == "f32" ? plan::DType::f32 : plan::DType::bf16;
          },
          oneOf({"f32", "bf16"}), run,
          "Type of the weights in it, f32 or bf16; else that of the plan. f32 of a plan of bf16: the master weights",
          {.needs = {"--save"},
           .text = [](const T &options) -> std::string {
             return std::string(options.saveType ? nameOf(*options.saveType) : "that of the plan");
           }}),
      Row("--save-interval,--persistent-save-interval", at<&T::saveInterval>, whole(0), run,
          "Save after every so many steps too; 0: at the end only", {.needs = {"--save"}}),
      Row("--save-retain", at<&T::saveRetain>, whole(0), no, "How many checkpoints stay in it, the newest; 0: all",
          {.needs = {"--save"}, .idle = {kSavesWeightsAlone}}),
      Row("--save-best", at<&T::saveBest>, kAny, run,
          "A checkpoint after each evaluation whose validation loss is the least so far; the last of them stays beside "
          "the newest, as DIR/best",
          {.needs = {"--save", "--eval-interval"}, .idle = {kNotEvaluated, kSavesWeightsAlone}}),
      Row("--async-save", at<&T::asyncSave>, kAny, run,
          "Copy the checkpoints of --save-interval in memory, and write them while training goes on",
          {.needs = {"--save"}, .idle = {kSavesAtTheEnd, kSavesWeightsAlone}}),
      Row("--no-save-optim", at<&T::savesWeightsAlone>, kAny, run,
          "Save the weights alone: no training can go on from there", {.needs = {"--save"}}),
      Row("--save-tokenizer-assets,!--no-save-tokenizer-assets", at<&T::savesTokenizer>, kAny, no,
          "Put the files of the tokenizer of --tokenizer-model, else of --load, beside the weights, with its chat "
          "template "
          "and generation_config.json",
          {.needs = {"--save"}}),
      Row("--force", at<&T::force>, kAny, no,
          "Let --save replace what is of another model or training, or what --load begins with, and other outputs "
          "files of "
          "another kind",
          {.idle = {kWritesNoFile}}),
      Row("--moe-per-layer-logging", at<&T::logsLoads>, kAny, run,
          "In the log: the least, mean and largest number of tokens of an expert, of each router with a "
          "bias; of others in plans that mgc compile --moe-per-layer-logging has made"),
      Row("--log-norms-by-layer", at<&T::logsNormsByLayer>, kAny, run,
          "In --log and --tensorboard-dir: the norm of the gradients of each layer, before they are clipped; "
          "the whole gradient's is the root of the sum of their squares"),
      Row("--save-gradients", at<&T::saveGradients>, kNotEmpty, run,
          "File (.safetensors) for the gradients of the first step", {.some = "a file"}),
      Row("--log", at<&T::log>, kNotEmpty, no, "File (.jsonl) with one line per step; a log is gone on with"),
      Row("--tensorboard-dir", at<&T::tensorboard>, kNotEmpty, no,
          "Folder for TensorBoard: a new event file of loss, gradient norm, learning rate, time and tokens "
          "of each step"),
      Row("--tensorboard-log-interval", at<&T::tensorboardInterval>, whole(1), no, "Steps from one event to the next",
          {.needs = {"--tensorboard-dir"}}),
      Row("--restart-from-latest", at<&T::restartsFromLatest>, kAny, elsewhere,
          "Go on from the latest checkpoint in the folder of --save; begin, with --load if it is given, "
          "where there is none: one command for all starts of a training",
          {.needs = {"--save"}, .idle = {kSavesWeightsAlone}}),
      Row("--max-restarts", atTyped<&Typed::maxRestarts>, whole(0), no,
          "Start again after an error or a crash, at most so often. Under a launcher it is the launcher that "
          "starts again. docs/checkpoints.md says more",
          {.needs = {"--restart-from-latest"}, .idle = {kLaunched}}),
  };
}

Rows maskingOptions() {
  return {
      Row("--mlm-probability,--mask-prob", at<&T::masking, &M::probability>, number(0, 1), data,
          "For plans of masked language models: the part of the tokens that is predicted; else 0.15. Data "
          "with labels say it themselves",
          {.none = fmt::format("{}", kMaskProbability)}),
      Row("--mask-token-id", at<&T::masking, &M::maskToken>, whole(0), data,
          "Token that the model sees in place of a masked one", {.none = "-1"}),
      Row("--cls-token-id", at<&T::masking, &M::clsToken>, whole(0), data,
          "Token in front of each sample that is cut from a stream; never masked", {.none = "-1"}),
      Row("--sep-token-id", at<&T::masking, &M::sepToken>, whole(0), data, "Token at its end; never masked",
          {.none = "-1"}),
      Row("--special-token-ids", at<&T::masking, &M::specialTokens>, whole(0), data,
          "Other tokens that are never masked, separated by commas", {.text = textOfTokens}),
  };
}

Rows stepOptions() {
  return {
      Row("--train-iters", at<&T::trainIters>, whole(0), corpus, "Steps; they count from 0",
          {.absent = [](const T &options) { return options.trainSamples.has_value(); }}),
      Row("--check", at<&T::endsBeforeSteps>, kAny, run,
          "Train nothing and write no weights or logs: load all, read the first batch, and say what the run would "
          "refuse, take of "
          "memory and read",
          {.isOfCommand = true}),
      Row("--exit-interval", at<&T::exitInterval>, whole(0), run,
          "End, and save, after a number of steps that is a multiple of this; 0: at none"),
      Row("--exit-duration-in-mins", at<&T::exitMinutes>, number(0, 1e9), run,
          "End, and save, after the step in which so many minutes have passed since the run began", {.none = "0"}),
      Row("--eval-interval", at<&T::evalInterval>, whole(0), noted,
          "Steps from one evaluation to the next: the loss on other data, of a plan compiled with "
          "--evaluation; one more is at the end. 0: none"),
      Row("--eval-iters", at<&T::evalIters>, whole(1), evaluation, "Batches of an evaluation",
          {.needs = {"--eval-interval"}, .idle = {kNotEvaluated}, .absent = isNotEvaluated}),
      Row("--early-stop", at<&T::earlyStop>, whole(0), noted,
          "End, saved, after so many evaluations in a row without a lower validation loss; 0: never",
          {.needs = {"--eval-interval"}, .idle = {kNotEvaluated}}),
      Row("--valid-data", at<&T::validData>, kFile, evaluation,
          "What is evaluated on, where --data names what is trained on",
          {.needs = {"--eval-interval", "--data"},
           .idle = {kNotEvaluated},
           .text = [](const T &options) { return options.validData ? nameOfFile(*options.validData) : "none"; }}),
      Row("--seed", at<&T::seed>, whole(0), data, "Of initial weights, data order and dropout"),
      Row("--threads", at<&T::threads>, whole(0, 1024), no, "Per rank; 0: the cores over the ranks", {.plans = cpu}),
      Row("--bf16-products", [](T &options, const std::string &word) { options.bf16Product = bf16ProductNamed(word); },
          oneOf({"auto", "native", "panels"}), noted,
          "How a plan of bf16 multiplies on a CPU with AVX512-BF16 or AMX: native: its own products, panels: "
          "of f32 (other bits), auto: the faster, measured at the first load and kept in bf16-products.json "
          "in $XDG_CACHE_HOME/mgc or ~/.cache/mgc",
          {.plans = bf16Cpu,
           .text =
               [](const T &options) {
                 return std::string(options.bf16Product ? nameOf(*options.bf16Product) : "auto");
               }}),
      Row("--timeout", atTyped<&Typed::timeoutSeconds>, number(0.001, 1e6), no, "Seconds one rank waits for another"),
      Row("--log-throughput", atTyped<&Typed::logsThroughput>, kAny, no,
          "On the screen, in --log and --tensorboard-dir: of each device tokens/s, TFLOP/s of what the model "
          "needs and, on a GPU, their part of its peak (docs/cost.md, Utilisation)"),
      Row("--log-interval", at<&T::logInterval>, whole(1), run,
          "Steps from one line on the screen to the next; after 30 s without a line there is one all the same",
          {.absent = [](const T &options) { return options.timersLevel == 0; }}),
      Row("--timing-log-level", at<&T::timersLevel>, whole(0, 2), run,
          "With each --log-interval: 1: how long a step computes forward and backward, sums gradients and "
          "updates, on the fastest and the slowest rank; 2: also parts of the first. Else 0"),
      Row("--timing-log-option", atTyped<&Typed::timersOf>, oneOf({"max", "minmax", "all"}), no,
          "On the screen, of the ranks: max, minmax or all", {.needs = {"--timing-log-level"}}),
      Row("--log-timers-to-tensorboard", at<&T::timersInTensorboard>, kAny, no,
          "The slowest rank's to --tensorboard-dir", {.needs = {"--timing-log-level", "--tensorboard-dir"}}),
      Row("--poison", at<&T::poison>, kAny, no,
          "Fill the memory with NaN first, to find what is read before it is written"),
      Row("--inject-delays", at<&T::delays>, whole(0), run,
          "Seed of random pauses before instructions, to find results that depend on timing", {.some = "a seed"}),
      Row("--check-for-nan-in-loss-and-grad,!--no-check-for-nan-in-loss-and-grad", at<&T::checks, &Checks::finite>,
          kAny, noted,
          "A loss or gradient norm that is not finite is bad; --no-check-for-nan-in-loss-and-grad goes on "
          "with it, though such weights are never saved"),
      Row("--check-for-spiky-loss", at<&T::checks, &Checks::spikyLoss>, kAny, noted,
          "A loss of at least 10 times the largest of the run's first 100 steps is bad"),
      Row("--check-for-large-grads", at<&T::checks, &Checks::largeGradients>, kAny, noted,
          "The same of the gradient norm"),
      Row("--skip-bad-steps", at<&T::checks, &Checks::skips>, whole(0), noted,
          "Leave out the update of up to so many bad steps in a row, and go on with the next data; one more "
          "ends the run, saved. 0: a bad step ends it, and nothing is saved",
          {.idle = {kNoChecks}}),
  };
}

Rows launchOptions() {
  return {
      Row("--launch", atTyped<&Typed::launchBy>, oneOf({"auto", "none", "env"}), no,
          "Where it is said that this is one of several processes, with a rank each: auto: in the variables "
          "of torchrun, mpirun or srun, if there are any; env: in them, which must be there; none: in none",
          {.isOfCommand = true}),
      Row("--rank", atLaunch<&LaunchFlags::rank>, whole(0), no, "Of this process, instead of RANK",
          {.isOfCommand = true}),
      Row("--world-size", atLaunch<&LaunchFlags::size>, whole(1), elsewhere,
          "Processes, instead of WORLD_SIZE; 1: all ranks are in this one", {.isOfCommand = true}),
      Row("--local-rank", atLaunch<&LaunchFlags::localRank>, whole(0), no,
          "Among the processes of this machine, instead of LOCAL_RANK", {.idle = {kNotLaunched}, .isOfCommand = true}),
      Row("--master-addr", atLaunch<&LaunchFlags::masterHost>, kNotEmpty, no,
          "Machine of rank 0, instead of MASTER_ADDR", {.idle = {kNotLaunched}, .isOfCommand = true}),
      Row("--master-port", atLaunch<&LaunchFlags::masterPort>, whole(1, 65535), no,
          "Port on which rank 0 listens, instead of MASTER_PORT", {.idle = {kNotLaunched}, .isOfCommand = true}),
  };
}

Rows profileOptions() {
  return {
      Row("--trace", at<&T::trace>, kNotEmpty, elsewhere,
          "File (.json) for a trace of every instruction of every rank, as Perfetto reads it"),
      Row("--html", atTyped<&Typed::html>, kNotEmpty, run,
          "File (.html) for a page to look at in a browser: what mgc explain --html shows of the plan, with "
          "what was measured beside it, and the curves of the run"),
      // It says which steps are captured as graphs: NCCL wants the same of all ranks.
      RunOption("--trace-steps", at<&T::traceSteps>, whole(1, 10'000), run,
                "Steps to trace, after the first; of a run of one step, that one",
                {.needs = {"--trace"},
                 .text = [](const T &options) { return std::to_string(options.isTraced() ? options.traceSteps : 0); }}),
      Row("--profile", at<&T::profile>, kAny, run,
          "Print where the time went, kernel by kernel, and how far it is from what the machine can do",
          {.text = [](const T &options) { return fmt::format("{}", options.isProfiled()); }}),
      Row("--profile-json", at<&T::profileJson>, kNotEmpty, elsewhere, "File (.json) for the profile"),
  };
}

Rows deviceOptions() {
  return {
      Row("--device", at<&T::device>, whole(0, 1024), no,
          "Number of the device that runs a plan for GPUs; all its ranks share it", {.plans = device}),
      Row("--device-plugin", at<&T::devicePlugin>, kFile, no,
          "File (.so) that knows the device; else the one beside mgrun, in ../lib or in ../lib/mgc", {.plans = device}),
      Row("--non-deterministic", at<&T::nonDeterministic>, kAny, noted,
          "Let libraries of the device take paths whose bits differ from run to run", {.plans = device}),
      Row("--tune-products", at<&T::tuneProducts>, kAny, run,
          "Measure at load which algorithm of the device's library is the fastest for each matrix product; "
          "else the library's own choice. mgc compile does so for plans for CPUs",
          {.plans = device}),
      Row("--tune-cache", at<&T::tuneCache>, kNotEmpty, no,
          "File that keeps what was measured, so that later runs choose alike; else device-products.json in "
          "$XDG_CACHE_HOME/mgc or ~/.cache/mgc",
          {.needs = {"--tune-products"}}),
      Row("--no-graphs", at<&T::noGraphs>, kAny, run, "Enqueue every step anew on the device instead of replaying one",
          {.plans = device}),
  };
}

// Options of plan::kOptimizerNumbers.
template <size_t... I> Rows optimizerNumbers(std::index_sequence<I...>) {
  return {Row(std::string(plan::kOptimizerNumbers[I].flag),
              +[](T &options) -> double & { return options.optimizer.numbers[I]; }, number(), optimizer,
              fmt::format("Of {}", nameOf(plan::kOptimizerNumbers[I].of)),
              {.optimizer = plan::kOptimizerNumbers[I].of,
               .absent = [](const T &options) { return options.optimizer.rule != plan::kOptimizerNumbers[I].of; }})...};
}

Rows optimizerOptions() {
  return {
      Row("--lr", atOptimizer<&O::lr>, number(), optimizer, "Learning rate", {.idle = {kRates}, .absent = hasRates}),
      Row("--min-lr", atOptimizer<&O::minLr>, number(), optimizer, "Where the decay ends",
          {.idle = {kRates, kConstant}, .absent = hasRates}),
      Row("--lr-decay-style", atOptimizer<&O::lrDecayStyle>, proposing(kDecayStyles), optimizer,
          "constant, linear, cosine or WSD", {.idle = {kRates}, .absent = hasRates}),
      Row("--lr-decay-iters", atOptimizer<&O::lrDecay>, whole(), optimizer, "Steps to --min-lr; 0: --train-iters",
          {.idle = {kRates, kConstant},
           .text = textOfDecay,
           .absent = [](const T &options) { return hasNoIterations(options) || isConstant(options); }}),
      Row("--lr-warmup-iters", atOptimizer<&O::lrWarmup>, whole(), optimizer, "Steps from --lr-warmup-init to --lr",
          {.idle = {kRates}, .absent = hasNoIterations}),
      Row("--lr-warmup-fraction", atTyped<&Typed::warmupFraction>, number(0, 1), elsewhere,
          "Instead of --lr-warmup-iters: what part of the steps to --min-lr, rounded to a whole number of them",
          {.excludes = {"--lr-warmup-iters"}, .idle = {kRates}}),
      Row("--lr-warmup-init", atOptimizer<&O::lrWarmupInit>, number(), optimizer,
          "Rate of the first step of the warmup", {.idle = {kRates, kNoWarmup}, .absent = hasRates}),
      Row("--lr-wsd-decay-style", atOptimizer<&O::lrWsdDecayStyle>, proposing(kWsdDecayStyles), optimizer,
          "linear, cosine, exponential or minus_sqrt", {.idle = {kRates, kNotWsd}, .absent = hasRates}),
      Row("--lr-wsd-decay-iters", atOptimizer<&O::lrWsdDecay>, whole(), optimizer, "Last steps, in which WSD decays",
          {.idle = {kRates, kNotWsd}, .absent = hasNoIterations}),
      Row("--lr-list", atTyped<&Typed::lrList>, kFile, optimizer,
          "File with a JSON array of one rate per step, instead of all above",
          {.text = [](const T &options) { return textOfRates(options, options.trainIters); },
           .absent = [](const T &options) { return !hasRates(options); }}),
      Row("--weight-decay", atOptimizer<&O::weightDecay>, number(), optimizer,
          "Of matrices: how it is applied is the optimizer's (docs/optimizers.md)"),
      Row("--clip-grad", atOptimizer<&O::clipGrad>, number(), optimizer,
          "Greatest norm of the gradient; 0: no clipping"),
      Row("--moe-router-bias-update-rate", atOptimizer<&O::routerBiasRate>, number(), optimizer,
          "By which a step moves the biases of routers towards even load; 0: they stay"),
      RunOption("--train-samples", at<&T::trainSamples>, whole(1), corpus,
                "Instead of --train-iters: samples, of which each step takes a global batch; what is left of them "
                "is not trained on",
                {.excludes = {"--train-iters", "--lr-decay-iters", "--lr-warmup-iters", "--lr-wsd-decay-iters"},
                 .absent = [](const T &options) { return !options.trainSamples; }}),
      RunOption("--lr-decay-samples", atTyped<&Typed::lrDecaySamples>, whole(0), optimizer,
                "Instead of --lr-decay-iters, in samples",
                {.needs = {"--train-samples"},
                 .idle = {kRates, kConstant},
                 .text = textOfDecay,
                 .absent = [](const T &options) { return hasNoSampleSchedule(options) || isConstant(options); }}),
      Row("--lr-warmup-samples", atTyped<&Typed::lrWarmupSamples>, whole(0), optimizer,
          "Instead of --lr-warmup-iters, in samples",
          {.needs = {"--train-samples"},
           .excludes = {"--lr-warmup-fraction"},
           .idle = {kRates},
           .text = [](const T &options) { return std::to_string(options.optimizer.lrWarmup); },
           .absent = hasNoSampleSchedule}),
      Row("--lr-wsd-decay-samples", atTyped<&Typed::lrWsdDecaySamples>, whole(0), optimizer,
          "Instead of --lr-wsd-decay-iters, in samples",
          {.needs = {"--train-samples"},
           .idle = {kRates, kNotWsd},
           .text = [](const T &options) { return std::to_string(options.optimizer.lrWsdDecay); },
           .absent = hasNoSampleSchedule}),
      Row("--rampup-batch-size", atTyped<&Typed::rampup>, whole(1), data,
          "The batch grows from START to the plan's global batch by INCREMENT, over the first SAMPLES, by the plans of "
          "mgc compile --rampup-batch-size. The state goes from one plan to the next by a checkpoint in --save",
          {.needs = {"--train-samples", "--save"},
           .excludes = {"--no-save-optim"},
           .values = "START INCREMENT SAMPLES",
           .text =
               [](const T &options) {
                 const plan::BatchRampup &rampup = *options.rampup;
                 return fmt::format("{} {} {}", rampup.start, rampup.increment, rampup.samples);
               },
           .absent = [](const T &options) { return !options.rampup; }}),
  };
}

} // namespace

std::string textOfRates(const TrainingOptions &options, int64_t count) {
  const std::span<const double> rates = options.optimizer.lrList;
  return textOfList("rates", rates.first(std::min(size_t(count), rates.size())));
}

const std::vector<RunOption> &runOptions() {
  static const std::vector<RunOption> options = [] {
    Rows all;
    for (auto [group, rows] :
         {std::pair("Data", dataOptions()), std::pair("Weights to begin with", loadOptions()),
          std::pair("Files that are written", saveOptions()), std::pair("Masked language models", maskingOptions()),
          std::pair("Steps", stepOptions()), std::pair("Processes", launchOptions()),
          std::pair("Traces and profiles", profileOptions()), std::pair("Devices", deviceOptions()),
          std::pair("Optimizer", optimizerOptions()),
          std::pair("Optimizer", optimizerNumbers(std::make_index_sequence<plan::kOptimizerNumbers.size()>()))})
      for (Row &row : rows) {
        row.group = group;
        all.push_back(std::move(row));
      }
    return all;
  }();
  return options;
}

} // namespace mgc
