#!/usr/bin/python3
"""Command lines of Megatron-LM that mgc translate turns into a model and commands: megatron-lines/ has real ones.

    translate.py BIN SOURCE [--sample N]     trains one of N of the lines; default: all
"""
import json
import pathlib
import re
import shutil
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
import samples  # noqa: E402
import tool_runs  # noqa: E402
from tool_runs import GOLDEN, expect, run, timeless, write  # noqa: E402

setUpModule = tool_runs.enter_folder
LINES = sorted((HERE / "megatron-lines").glob("*.txt"))
STEP = int(sys.argv[sys.argv.index("--sample") + 1]) if "--sample" in sys.argv else 1
GROUPS = {"same", "otherwise", "nothing", "unsupported", "needs_value"}
# A small model: values in the place of those that a line has.
SMALL = {"--num-layers": 4, "--hidden-size": 32, "--num-attention-heads": 4, "--num-query-groups": 2, "--num-key-value-heads": 2,
         "--ffn-hidden-size": 64, "--kv-channels": 8, "--num-experts": 8, "--moe-ffn-hidden-size": 16, "--moe-router-topk": 2,
         "--moe-router-num-groups": 4, "--moe-router-group-topk": 2, "--q-lora-rank": 24, "--kv-lora-rank": 16, "--qk-nope-head-dim": 12,
         "--qk-rope-head-dim": 4, "--v-head-dim": 8, "--seq-length": 32, "--decoder-seq-length": 32, "--max-position-embeddings": 64,
         "--micro-batch-size": 1, "--global-batch-size": 16, "--tensor-model-parallel-size": 2, "--pipeline-model-parallel-size": 2,
         "--expert-model-parallel-size": 2, "--window-size": "15,0", "--sliding-window": 16, "--padded-vocab-size": 128,
         "--rampup-batch-size": "8 8 16", "--train-iters": 4, "--lr-decay-iters": 4, "--lr-warmup-iters": 1, "--train-samples": 64,
         "--lr-decay-samples": 64, "--lr-warmup-samples": 16, "--eval-iters": 0, "--save-interval": 100,
         "--num-layers-per-virtual-pipeline-stage": 2, "--decoder-first-pipeline-num-layers": 2, "--optimizer-offload-fraction": 1,
         "--moe-shared-expert-intermediate-size": 16, "--pad-vocab-size-to": 128, "--exit-duration-in-mins": 100, "--eval-interval": 100, "--split": "99,1,0"}
ALWAYS = "--vocab-size 128 --mock-data --log log.jsonl --log-interval 1"


# Published sizes: Mixtral 8x7B (its vocabulary is smaller), Qwen3-30B-A3B, GPT-3.
PARAMETERS = {"04": "46.85 G parameters (13.03 G active)", "06": "30.53 G parameters (3.35 G active)", "22": "174.60 G parameters"}


def line_of(name):
    return next(path for path in LINES if path.name.startswith(name))


def flags_in(path):
    return [line.split()[0] for line in path.read_text().splitlines()]


def small(path, more=""):
    """Words behind a line that make its model small and its data made-up."""
    given = set(flags_in(path))
    words = " ".join(f"{flag} {value}" for flag, value in SMALL.items() if flag in given)
    folder = f"{path.name[:2]}-weights"
    if "--moe-layer-freq" in path.read_text().splitlines():  # its value is not in the file
        more += " --moe-layer-freq 1"
    if "--eod-mask-loss" in given and "--reset-position-ids" not in given:
        more += " --eod-token-id 0"
    start = f"--load {folder}" if given & {"--load", "--pretrained-checkpoint"} else ""
    return f"{words} {ALWAYS} --save {folder} {start} {more}".split()


def train(path, more=""):
    """The log's steps of the line's commands, of a small model."""
    shutil.rmtree(f"{path.name[:2]}-weights", ignore_errors=True)
    # One line has names of an array's parts, which nothing follows.
    write(f"{path.name[:2]}-small.txt", "\n".join(row for row in path.read_text().splitlines() if row not in {"--data", "--tokenizer"}))
    done = run("mgc", "translate", f"{path.name[:2]}-small.txt", "-o", path.name[:2], "--run", "--", *small(path, more), code=None)
    assert done.returncode == 0, f"{path.name}: ends with {done.returncode}: {done.stderr}"
    return steps("log.jsonl")


LOG = []  # the records of the last run


def steps(log):
    LOG[:] = timeless(log)
    found = [(row["step"], row["loss"], row["grad_norm"], row["lr"]) for row in LOG if "grad_norm" in row]
    pathlib.Path(log).unlink()
    return found


def translate(*words, code=0):
    return json.loads(run("mgc", "translate", "--json", *words, code=code).stdout)


def group_of(translation, flag):
    """Group and text of the last flag of that name."""
    return next((row["group"], row["text"]) for row in reversed(translation["flags"]) if row["flag"] == flag)


class RealLines(unittest.TestCase):
    def test_each_flag_has_one_group(self):
        self.assertEqual(len(LINES), 14)
        for path in LINES:
            with self.subTest(line=path.name):
                twice = {"--data-path", "--train-data-path"} <= set(flags_in(path))  # other branches of a script
                done = translate(path, code=1 if twice else 0 if path.name.startswith("24") else 3)
                self.assertEqual([row["flag"] for row in done["flags"]], flags_in(path))
                self.assertLessEqual({row["group"] for row in done["flags"]}, GROUPS)
                self.assertTrue(all(row["text"] for row in done["flags"]))
                # The layout compiles.
                self.assertRegex(done["problem"], "--train-data-path and --data-path exclude each other, expected one" if twice else "^$")

    def test_groups(self):
        for name, expected in {
                "00": {"--fp16": "unsupported", "--num-layers": "otherwise", "--lr": "same", "--attention-backend": "nothing"},
                "02": {"--window-size": "otherwise", "--softmax-type": "otherwise", "--rope-type": "nothing", "--eval-iters": "nothing",
                       "--fp8-format": "unsupported", "--use-distributed-optimizer": "same", "--overlap-param-gather": "same"},
                "04": {"--no-position-embedding": "nothing", "--moe-aux-loss-coeff": "unsupported", "--num-experts": "otherwise", "--load": "otherwise"},
                "06": {"--grpo-kl-beta": "unsupported", "--moe-layer-freq": "otherwise", "--pretrained-checkpoint": "otherwise"},
                "08": {"--freeze-LM": "unsupported", "--distributed-timeout-minutes": "otherwise", "--apply-layernorm-1p": "otherwise"},
                "12": {"--tp-comm-overlap": "nothing", "--mscale": "otherwise", "--qk-layernorm": "otherwise", "--kv-channels": "nothing",
                       "--apply-query-key-layer-scaling": "nothing", "--mtp-num-layers": "same", "--use-rope-scaling": "nothing",
                       "--moe-router-dtype": "unsupported", "--extra-vocab-size": "otherwise"},
                "18": {"--zero-stage": "otherwise", "--deepspeed": "nothing", "--embed-layernorm": "otherwise", "--position-embedding-type": "otherwise",
                       "--train-samples": "same", "--checkpoint-activations": "otherwise", "--tokenizer-type": "otherwise"},
                "22": {"--activations-checkpoint-method": "otherwise", "--rampup-batch-size": "same"},
                "24": {"--normalization": "otherwise", "--num-key-value-heads": "otherwise", "--data-impl": "nothing"},
                "26": {"--noheader": "unsupported", "--DDP-impl": "nothing", "--loss-scale": "nothing", "--exit-duration-in-mins": "needs_value"}}.items():
            done = translate(line_of(name), code=None)
            self.assertEqual({flag: group_of(done, flag)[0] for flag in expected}, expected, name)

    def test_they_compile(self):
        for path in samples.sample(LINES, STEP):
            with self.subTest(line=path.name):
                words = translate(path, "-o", f"{path.name[:2]}-whole", "--", "--mock-data", code=None)["commands"][0]
                if "--rampup-batch-size" in words:  # a plan for each size of the batch
                    at = words.index("--rampup-batch-size")
                    words = words[:at] + words[at + 4:]
                said = run(*words).stderr
                self.assertIn(PARAMETERS.get(path.name[:2], "parameters"), said)

    def test_small_ones_train(self):
        for path in samples.sample(LINES, STEP):
            with self.subTest(line=path.name):
                self.assertGreaterEqual(len(train(path)), 4)

    def test_evaluation(self):
        line = line_of("24")
        train(line, "--eval-interval 2 --eval-iters 1")
        self.assertEqual([row["step"] for row in LOG if "validation_loss" in row], [1, 3])
        compile_words, run_words = translate(line)["commands"]
        self.assertIn("--evaluation", compile_words)
        self.assertIn("--eval-interval", run_words)
        for words in ("--eval-iters 0", "--split 100,0,0", "--eval-iters -1"):
            compile_words, run_words = translate(line, "--", *words.split())["commands"]
            self.assertNotIn("--evaluation", compile_words)
            self.assertNotIn("--eval-interval", run_words)


# The small models of three lines, written by hand: a config.json as Hugging Face has it, and the flags of mgc.
SIZES = {"vocab_size": 128, "num_hidden_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64,
         "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "mgc": {"model": {"scaled_residual_init": True}}}
BY_HAND = {
    "06": (SIZES | {"model_type": "qwen3_moe", "num_key_value_heads": 2, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
                    "head_dim": 8, "norm_topk_prob": True, "rope_theta": 1000000.0, "rms_norm_eps": 1e-6},
           "--tp 2 --pp 2 --ep 2 --dp 2 --moe-token-dispatcher-type alltoall",
           "--lr 1e-6 --min-lr 1e-7 --weight-decay 0.01 --clip-grad 1"),
    "10": (SIZES | {"model_type": "qwen3_moe", "num_key_value_heads": 2, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
                    "head_dim": 8, "norm_topk_prob": True, "rope_theta": 1000000.0, "rms_norm_eps": 1e-6, "initializer_range": 0.008},
           "--tp 2 --pp 2 --ep 2 --etp 1 --dp 1 --moe-token-dispatcher-type alltoall --reset-position-ids --recompute-granularity selective",
           "--lr 1e-4 --min-lr 1e-5 --lr-decay-style cosine --weight-decay 0.01 --clip-grad 1 --adam-beta2 0.95 --eod-mask-loss"),
    "24": (SIZES | {"model_type": "llama", "num_key_value_heads": 2, "rope_theta": 10000.0},
           "--tp 2 --pp 2 --dp 1 --recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
           "--lr 3e-4 --min-lr 3e-5 --lr-decay-style cosine --weight-decay 0.1 --clip-grad 1 --adam-beta2 0.95"),
}


class ByHand(unittest.TestCase):
    def test_losses_are_those_of_the_same_settings(self):
        length = "--train-iters 4 --lr-decay-iters 4 --lr-warmup-iters 1"
        for name, (config, layout, training) in BY_HAND.items():
            with self.subTest(line=name):
                write(f"{name}-hand/config.json", json.dumps(config))
                tool_runs.compile_plan(f"{name}-plan", f"{name}-hand", layout, "--bf16 --seq 32 --mbs 1 --gbs 16")
                run("mgrun", f"{name}-plan", "--mock-data", *training.split(), *length.split(), "--log", "hand.jsonl")
                by_hand, by_line = steps("hand.jsonl"), train(line_of(name), length)
                self.assertEqual(len(by_hand), 4)
                self.assertEqual(by_hand, by_line)


LLAMA = "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --swiglu --disable-bias-linear --normalization RMSNorm".split()


class Meaning(unittest.TestCase):
    def model(self, words, code=0):
        return translate("--", *words.split(), code=code)["config"]["mgc"]["model"]

    def test_defaults_are_megatrons(self):
        model = self.model("--num-layers 2 --hidden-size 48 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 24 --vocab-size 99")
        attention, mlp = model["layer"]["attention"], model["layer"]["mlp"]
        self.assertEqual((model["vocabulary"], model["positions"], model["initializer_range"]), (99, 24, 0.02))
        self.assertTrue(model["embedding"]["learned_positions"] and model["head"]["tied"])
        self.assertEqual(model["final_norm"], {"kind": "layer", "epsilon": 1e-5, "bias": True})
        self.assertEqual((attention["groups"], attention["head_dim"], attention["qkv_bias"], attention["dropout"]), (4, 12, True, 0.1))
        self.assertEqual((mlp["ffn"], mlp["gated"], mlp["bias"], mlp["activation"]), (192, False, True, "gelu_pytorch_tanh"))

    def test_activations(self):
        sizes = "--num-layers 2 --hidden-size 48 --num-attention-heads 4 --vocab-size 99 "
        for words, name in (("--no-bias-gelu-fusion", "gelu"), ("--disable-bias-linear", "gelu"), ("--squared-relu", "relu2"),
                            ("--disable-bias-linear --openai-gelu", "gelu_pytorch_tanh"), ("--swiglu", "silu"), ("--quick-geglu", "quick_gelu")):
            self.assertEqual(self.model(sizes + words)["layer"]["mlp"]["activation"], name)
        self.assertEqual(self.model("--num-layers 2 --hidden-size 768 --num-attention-heads 4 --vocab-size 99 --swiglu")["layer"]["mlp"]["ffn"], 2048)

    def test_flags_of_parts_that_the_model_lacks(self):
        done = translate("--", *LLAMA, "--vocab-size", 99, "--num-query-groups", 2, "--moe-router-topk", 2, "--q-lora-rank", 16,
                         "--rotary-base", 500, "--moe-aux-loss-coeff", 0.1)
        self.assertIn("is read with --group-query-attention", group_of(done, "--num-query-groups")[1])
        self.assertEqual(done["config"]["mgc"]["model"]["layer"]["attention"]["groups"], 4)
        for flag in ("--moe-router-topk", "--q-lora-rank", "--rotary-base", "--moe-aux-loss-coeff"):
            self.assertEqual(group_of(done, flag)[0], "nothing", flag)

    def test_layers_of_two_kinds(self):
        words = "--num-layers 6 --hidden-size 48 --num-attention-heads 4 --vocab-size 99 --swiglu --disable-bias-linear --num-experts 4 --window-size 7,0 "
        for flags, layers in (("--moe-layer-freq [0]*1+[1]*5", [(1, 5, 1)]), ("--moe-layer-freq 2", [(0, 4, 2)]), ("--moe-layer-freq [1,0,0,1,1,0]", [(0, 0), (3, 4)])):
            entries = [entry for entry in self.model(words + flags)["layers"] if "experts" in entry]
            self.assertEqual([tuple(entry[key] for key in ("from", "to", "every") if key in entry) for entry in entries], layers)
        window = self.model(words + "--window-attn-skip-freq 3")["layers"]
        self.assertEqual([(entry["from"], entry["to"], entry["attention"]) for entry in window], [(0, 1, {"window": 8}), (3, 4, {"window": 8})])

    def test_a_model_is_compared(self):
        done = translate(GOLDEN / "llama", "--", *LLAMA, "--hidden-size", 33, "--tp", 2, code=3)
        self.assertEqual(group_of(done, "--num-layers"), ("same", "config.json has the same"))
        self.assertEqual(group_of(done, "--hidden-size"), ("unsupported", "the model has 32"))
        self.assertIsNone(done["config"])
        self.assertEqual(done["commands"][0][:3], ["mgc", "compile", str(GOLDEN / "llama")])
        self.assertEqual(translate(GOLDEN / "llama/config.json", "--", *LLAMA, code=0)["problem"], "")

    def test_a_launcher_says_how_many_ranks_there_are(self):
        words = ["torchrun", "--nproc-per-node", 4, "--nnodes=2", "pretrain_gpt.py", *LLAMA, "--vocab-size", 99, "--tp", 2]
        compile_words = translate("--", *words)["commands"][0]
        self.assertEqual([compile_words[compile_words.index(flag) + 1] for flag in ("--world", "--gbs")], ["8", "4"])
        write("line.sh", "CUDA_DEVICE_MAX_CONNECTIONS=1 \\\n  torchrun --nproc_per_node 2 pretrain_gpt.py \\\n # sizes\n" + " \\\n ".join(LLAMA) + " --vocab-size '99'\n")
        self.assertIn("--world", translate("line.sh")["commands"][0])
        expect(1, "pretrain_bert.py trains another model than a decoder", "mgc", "translate", "--", "python", "pretrain_bert.py", *LLAMA)

    def test_contradictions(self):
        def commands(words):
            return [" ".join(command) for command in translate("--", *LLAMA, "--vocab-size", 99, "--mock-data", *words.split(), code=None)["commands"]]
        compile_words, _ = commands("--tp 2 --tensor-model-parallel-size 4 --fp16 --bf16 --zero-stage 1 --use-distributed-optimizer")
        self.assertIn(" --tensor-model-parallel-size 4 --bf16 --use-distributed-optimizer ", compile_words)
        self.assertNotIn("--tp 2", compile_words)
        compile_words, _ = commands("--recompute-activations --recompute-granularity full --recompute-modules core_attn")
        self.assertIn(" --recompute-activations --recompute-modules core_attn ", compile_words)
        self.assertNotIn("full", compile_words)
        compile_words, _ = commands("--recompute-granularity full --recompute-modules core_attn")
        self.assertIn(" --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 ", compile_words)
        self.assertNotIn("core_attn", compile_words)
        for words in ("--bf16 --grad-reduce-in-bf16 --accumulate-allreduce-grads-in-fp32", "--bf16 --accumulate-allreduce-grads-in-fp32 --grad-reduce-in-bf16"):
            compile_words, _ = commands(words)
            self.assertIn("--grad-reduce-in-bf16", compile_words)
            self.assertNotIn("fp32", compile_words)
        for words in ("--mock-data --data-path corpus", "--data-path corpus --mock-data"):
            _, run_words = commands(words)
            self.assertIn("--mock-data", run_words)
            self.assertNotIn("corpus", run_words)
        _, run_words = commands("--train-samples 1_000 --train-tokens 64_000 --lr-warmup-iters 0 --seq-length 8")
        self.assertIn(" --train-samples 8000", run_words)
        self.assertNotIn("iters", run_words)
        for words, pair in (("--train-samples 1000000 --lr-warmup-iters 2000", ("--train-samples", "--lr-warmup-iters")),
                            ("--train-iters 5 --train-samples 10", ("--train-samples", "--train-iters")),
                            ("--lr-warmup-fraction 0.1 --lr-warmup-iters 2", ("--lr-warmup-fraction", "--lr-warmup-iters"))):
            problem = translate("--", *LLAMA, "--vocab-size", 99, *words.split(), code=1)["problem"]
            self.assertIn(" exclude each other, expected one", problem)
            self.assertTrue(all(flag in problem for flag in pair), problem)
        self.assertIn(" --timeout 90", commands("--distributed-timeout-minutes 1.5")[1])


class Differences(unittest.TestCase):
    LINE = ["--", *LLAMA, "--vocab-size", 99]

    def group(self, flag, words, code=3):
        return group_of(translate(*self.LINE, *words.split(), code=code), flag)[0]

    def test_the_optimizers_state(self):
        self.assertEqual(self.group("--no-load-optim", "--no-load-optim", 0), "nothing")
        self.assertEqual(self.group("--no-load-optim", "--no-load-optim --load a --save a"), "unsupported")
        self.assertEqual(self.group("--no-load-optim", "--no-load-optim --load a"), "unsupported")
        self.assertEqual(self.group("--no-load-optim", "--no-load-optim --load a --finetune", None), "nothing")

    def test_numbers_as_texts(self):
        done = translate("--", *LLAMA, "--tokenizer-type", "NullTokenizer", "--vocab-size", 1000, "--eod-mask-loss", "--data-path", "x")
        self.assertEqual(done["config"]["mgc"]["model"]["vocabulary"], 1001)
        self.assertIn("--eod-token-id 1000", " ".join(done["commands"][1]))
        self.assertIn("--tokenizer-type NullTokenizer --vocab-size 1001 --append-eod", " ".join(done["preprocess"][0]))
        write("numbers.jsonl", json.dumps({"text": "3 999"}) + "\n")
        words = [word.replace("TEXTS", "numbers") for word in done["preprocess"][0]]
        run(*words)
        padded = translate("--", *LLAMA, "--tokenizer-type", "NullTokenizer", "--vocab-size", 1000, "--padded-vocab-size", 1024, code=None)
        self.assertEqual(padded["config"]["mgc"]["model"]["vocabulary"], 1024)

    def test_the_mean_of_microbatches(self):
        def assumed(words):
            return "mean of each microbatch" in " ".join(translate(*self.LINE, *words.split(), code=None)["assumed"])
        self.assertTrue(assumed("--eod-mask-loss --eod-token-id 3"))
        self.assertTrue(assumed("--mask-prob 0.2"))
        self.assertTrue(assumed("--sft --tokenizer-model x --data y.jsonl"))
        self.assertFalse(assumed("--eod-mask-loss --eod-token-id 3 --calculate-per-token-loss"))
        self.assertFalse(assumed("--lr 1"))

    def test_positions(self):
        rope = "--position-embedding-type rope --rotary-seq-len-interpolation-factor 2"
        self.assertEqual(self.group("--rotary-seq-len-interpolation-factor", rope, 0), "otherwise")
        self.assertEqual(self.group("--rotary-seq-len-interpolation-factor", rope + " --use-rope-scaling"), "unsupported")
        latent = "--multi-latent-attention --kv-lora-rank 16 --qk-head-dim 8 --qk-pos-emb-head-dim 4 --v-head-dim 8"
        self.assertEqual(self.group("--multi-latent-attention", latent), "unsupported")
        self.assertEqual(self.group("--multi-latent-attention", latent + " --qk-layernorm", 0), "otherwise")
        self.assertEqual(self.group("--rotary-percent", latent + " --qk-layernorm --rotary-percent 0.5"), "unsupported")
        self.assertEqual(self.group("--rotary-percent", latent + " --qk-layernorm --rotary-percent 1", None), "nothing")

    def test_what_mgrun_refuses(self):
        for words, text in (("--lr-decay-style inverse-square-root", "--lr-decay-style = inverse-square-root: constant, linear, cosine or WSD"),
                            ("--lr 1e-4 --min-lr 1e-3", "--min-lr = 0.001"), ("--train-iters 5 --lr-warmup-iters 7", "--lr-warmup-iters = 7")):
            self.assertIn(text, translate(*self.LINE, *words.split(), code=1)["problem"])

    def test_experts_of_megatron_deepspeed(self):
        def layer(words):
            return translate(*self.LINE, *words.split(), code=0)["config"]["mgc"]["model"]["layer"]
        one = layer("--topk 1 --num-experts 4")["experts"]
        self.assertEqual(one, {"count": 4, "chosen": 1, "score": "softmax"})
        self.assertEqual(layer("--topk 2 --num-experts 4")["experts"]["normalised"], 0)
        self.assertEqual(layer("--moe-router-topk 1 --num-experts 4")["experts"]["normalised"], 0)
        self.assertNotIn("experts", layer("--topk 1 --num-experts 1"))
        self.assertEqual(self.group("--num-experts", "--num-experts 1", 0), "nothing")
        self.assertEqual(self.group("--topk", "--num-experts 1 --topk 1", 0), "nothing")


class Page(unittest.TestCase):
    def test_its_example_is_what_is_printed(self):
        page = (tool_runs.ROOT / "docs/megatron-lm.md").read_text()
        blocks = re.findall(r"((?:^(?: {4}.*)?\n)+)", page, re.M)
        line, output = ["\n".join(row[4:] for row in block.strip("\n").splitlines()) for block in blocks if block.strip()][:2]
        write("train.sh", line)
        self.assertIn("\n" + output + "\n", run("mgc", "translate", "train.sh", code=3).stdout)


class Broken(unittest.TestCase):
    def test_files(self):
        write("empty.txt", "# nothing\n\n")
        write("binary.bin", bytes(range(256)))
        write("open.txt", "--num-layers '4")
        write("words.txt", "hello world")
        write("model.json", "{")
        for words, message in ((["nowhere.txt"], "nowhere.txt"), (["empty.txt"], "empty.txt: is empty, expected flags of Megatron-LM"),
                               (["binary.bin"], "binary.bin: is no text"), (["open.txt"], "open.txt: line 1: '4 has no end"),
                               (["words.txt"], "found 'hello', expected a flag"), ([], "there is no line to translate"),
                               (["--", "x"], "found 'x', expected a flag"), (["model.json", "--", "--tp", 2], "model.json"),
                               ([GOLDEN / "llama", GOLDEN / "mixtral", "--", "--tp", 2], "are two models, expected one")):
            with self.subTest(words=words):
                expect(1, ["mgc translate: ", message], "mgc", "translate", *words)
        expect(2, "--run requires --output", "mgc", "translate", "--run", "--", "--tp", 2)

    def test_values(self):
        line = [*LLAMA, "--vocab-size", 99]
        done = translate("--", *line, "--tp", 10**30, "--pp", "-1", "--lr", "X", "--bf16=yes", "--seq-length", "", "--nonsense", 3, "--save", b"\xff", code=3)
        for flag, text in (("--tp", f"found '{10**30}', expected a whole number"), ("--pp", "found '-1', expected"), ("--lr", "found 'X', expected"),
                           ("--bf16", "takes no value, found 'yes'"), ("--seq-length", "found '', expected"), ("--nonsense", "is no flag of Megatron-LM")):
            self.assertIn(text, group_of(done, flag)[1])
        self.assertEqual(done["commands"][0], "mgc compile config.json --dp 1 --gbs 1 -o plan".split())
        for words, text in (("--num-layers 4 --hidden-size 32", "the line describes no model: --num-attention-heads is missing"),
                            ("--num-layers X --hidden-size 32 --num-attention-heads 4", "--num-layers has no value that can be used"),
                            ("--num-layers 4 --hidden-size 33 --num-attention-heads 4", "--num-attention-heads 4 does not divide --hidden-size 33"),
                            ("--num-layers 4 --hidden-size 32 --num-attention-heads 4 --position-embedding-type mrope", "--position-embedding-type mrope"),
                            ("--num-layers 99999 --hidden-size 32 --num-attention-heads 4", "layer_count"),
                            ("--num-layers 4 --hidden-size 32 --num-attention-heads 4 --tp 3", "does not divide over tp = 3")):
            with self.subTest(words=words):
                expect(1, text, "mgc", "translate", "--", *words.split())

    def test_all_checkpoints_stay(self):
        line = [*LLAMA, "--vocab-size", 99, "--mock-data", "--save", "s"]
        for more, retained in (([], None), (["--save-interval", 5], "0"), (["--save-interval", 5, "--save-retain-interval", 9], "0")):
            words = translate("--", *line, *more, code=None)["commands"][-1]
            self.assertEqual(words[words.index("--save-retain") + 1] if "--save-retain" in words else None, retained)

    def test_a_config_of_others_stays(self):
        write("kept/config.json", "{}")
        line = ["-o", "kept", "--", *LLAMA, "--vocab-size", 99]
        expect(1, "kept/config.json", "mgc", "translate", *line)
        self.assertEqual(tool_runs.read("kept/config.json"), b"{}")
        run("mgc", "translate", "--force", *line)
        run("mgc", "translate", *line)  # the same bytes
        self.assertIn(b'"model_type": "mgc"', tool_runs.read("kept/config.json"))

    def test_a_config_beside_weights_stays(self):
        line = ["--", *LLAMA, "--vocab-size", 99]
        run("mgc", "translate", "-o", "trained", *line)
        for name in ("model.safetensors", "latest_checkpointed_iteration.txt"):
            write(f"trained/{name}", "")
            run("mgc", "translate", "-o", "trained", *line)  # the same bytes
            expect(1, ["-o trained", name], "mgc", "translate", "-o", "trained", *line, "--swiglu", "--num-layers", 8)
            write(f"{name}-alone/{name}", "")
            expect(1, [f"-o {name}-alone", "--force"], "mgc", "translate", "-o", f"{name}-alone", *line)
            self.assertFalse((pathlib.Path(f"{name}-alone") / "config.json").exists())
            pathlib.Path(f"trained/{name}").unlink()
        expect(1, "trained/config.json: holds something else", "mgc", "translate", "-o", "trained", *line, "--num-layers", 8)
        run("mgc", "translate", "-o", "trained", "--force", *line, "--num-layers", 8)

    def test_flags_that_need_a_value(self):
        line = ["--", *LLAMA, "--vocab-size", 99]
        for words in ("--train-iters $N", "--lr $LR", "--num-experts $E", "--tensor-model-parallel-size ${TP}", "--save $DIR", "--eod-mask-loss",
                      "--swiglu yes", "--normalization $X", "--distributed-timeout-minutes X", "--micro-batch-size", "--moe-layer-freq X --num-experts 2"):
            with self.subTest(words=words):
                flag = words.split()[0]
                self.assertEqual(group_of(translate(*line, *words.split(), code=3), flag)[0], "needs_value")
                done = run("mgc", "translate", "-o", "unread", "--run", *line, *words.split(), code=3)
                self.assertIn(f"--run: nothing runs, for these flags need a value: {flag} (", done.stderr)
                self.assertFalse(pathlib.Path("unread").exists())
        done = translate(GOLDEN / "llama", *line[:-2], "--swiglu", "yes", "--rotary-interleaved", 3, code=3)
        for flag, value in (("--swiglu", "yes"), ("--rotary-interleaved", "3")):
            self.assertEqual(group_of(done, flag), ("needs_value", f"takes no value, found '{value}'"))
        done = translate(*line, "--lr", "$LR", "--tp", "X", "--lr", 1, "--tensor-model-parallel-size", 2, code=0)
        self.assertEqual(group_of({"flags": done["flags"][:-2]}, "--tp"), ("nothing", "the last counts, as in Megatron-LM: --tensor-model-parallel-size 2"))

    def test_words_of_a_shell(self):
        line = f"torchrun pretrain_gpt.py {' '.join(LLAMA)} --vocab-size 99 "
        for words in ("--lr 1e-4 2>&1 | tee log", "--lr 1e-4 && echo 3", "--lr 1e-4; exit", "> log 2>>err --lr 1e-4&", "--lr 1e-4 &> log\n", "--lr 1e-4>log|cat",
                      "--lr '1e-4' < in"):
            with self.subTest(words=words):
                write("shell.sh", f"set -e; cd x && {line}{words}")
                self.assertEqual(translate("shell.sh")["flags"][-1], {"flag": "--lr", "values": ["1e-4"], "group": "same", "text": "mgrun", "left_out": False})
        write("shell.sh", line + "--save 'a|b;c&d>e'")
        self.assertIn("a|b;c&d>e", translate("shell.sh")["commands"][1])
        for words, place in (("--swiglu $MOE_ARGS --bf16", "$MOE_ARGS' behind --swiglu"), ('--lr 1 "${ARGS[@]}"', "${ARGS[@]}' behind --lr"),
                             ("--bf16 $(cat x)", "$(cat' behind --bf16"), ("--use-flash-attn $X", "$X' behind --use-flash-attn"),
                             ("--save ${A[@]}", "${A[@]}' behind --save"), ("--data-impl mmap $X", "$X' behind --data-impl")):
            with self.subTest(words=words):
                write("shell.sh", line + words)
                expect(1, [f"found '{place}, expected a flag", "echo"], "mgc", "translate", "shell.sh")
        write("shell.sh", "torchrun pretrain_gpt.py ${MODEL_ARGS[@]} --bf16")
        expect(1, "found '${MODEL_ARGS[@]}' behind pretrain_gpt.py, expected a flag: let the shell", "mgc", "translate", "shell.sh")

    def test_run_ends_with_the_code_of_the_command_that_failed(self):
        done = run("mgc", "translate", "-o", "failed", "--run", "--", *LLAMA, "--vocab-size", 99, "--seq-length", 16, code=None)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--data FILE, --data-path PREFIX or --mock-data is required", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
