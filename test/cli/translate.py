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
GROUPS = {"same", "otherwise", "nothing", "unsupported"}
# A small model: values in the place of those that a line has.
SMALL = {"--num-layers": 4, "--hidden-size": 32, "--num-attention-heads": 4, "--num-query-groups": 2, "--num-key-value-heads": 2,
         "--ffn-hidden-size": 64, "--kv-channels": 8, "--num-experts": 8, "--moe-ffn-hidden-size": 16, "--moe-router-topk": 2,
         "--moe-router-num-groups": 4, "--moe-router-group-topk": 2, "--q-lora-rank": 24, "--kv-lora-rank": 16, "--qk-nope-head-dim": 12,
         "--qk-rope-head-dim": 4, "--v-head-dim": 8, "--seq-length": 32, "--decoder-seq-length": 32, "--max-position-embeddings": 64,
         "--micro-batch-size": 1, "--global-batch-size": 16, "--tensor-model-parallel-size": 2, "--pipeline-model-parallel-size": 2,
         "--expert-model-parallel-size": 2, "--window-size": "15,0", "--sliding-window": 16, "--padded-vocab-size": 128,
         "--rampup-batch-size": "8 8 16", "--train-iters": 4, "--lr-decay-iters": 4, "--lr-warmup-iters": 1, "--train-samples": 64,
         "--lr-decay-samples": 64, "--lr-warmup-samples": 16, "--eval-iters": 0, "--save-interval": 100}
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
    start = f"--load {folder}" if given & {"--load", "--pretrained-checkpoint"} else ""
    return f"{words} {ALWAYS} --save {folder} {start} {more}".split()


def train(path, more=""):
    """The log's steps of the line's commands, of a small model."""
    shutil.rmtree(f"{path.name[:2]}-weights", ignore_errors=True)
    done = run("mgc", "translate", path, "-o", path.name[:2], "--run", "--", *small(path, more), code=None)
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
                done = translate(path, code=0 if path.name.startswith("24") else 3)
                self.assertEqual([row["flag"] for row in done["flags"]], flags_in(path))
                self.assertLessEqual({row["group"] for row in done["flags"]}, GROUPS)
                self.assertTrue(all(row["text"] for row in done["flags"]))
                self.assertEqual(done["problem"], "")  # the layout compiles

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
                "26": {"--noheader": "unsupported", "--DDP-impl": "nothing", "--loss-scale": "nothing", "--exit-duration-in-mins": "same"}}.items():
            done = translate(line_of(name), code=None)
            self.assertEqual({flag: group_of(done, flag)[0] for flag in expected}, expected, name)

    def test_they_compile(self):
        for path in samples.sample(LINES, STEP):
            with self.subTest(line=path.name):
                words = translate(path, "-o", f"{path.name[:2]}-whole", code=None)["commands"][0]
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
        self.assertIn(" --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 ", compile_words)
        self.assertNotIn("--recompute-activations", compile_words)
        self.assertNotIn("core_attn", compile_words)
        _, run_words = commands("--train-iters 5 --train-samples 1_000 --lr-decay-iters 3 --train-tokens 64_000 --seq-length 8")
        self.assertIn(" --train-samples 8000", run_words)
        self.assertNotIn("iters", run_words)
        self.assertIn(" --timeout 90", commands("--distributed-timeout-minutes 1.5")[1])


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

    def test_a_config_of_others_stays(self):
        write("kept/config.json", "{}")
        line = ["-o", "kept", "--", *LLAMA, "--vocab-size", 99]
        expect(1, "kept/config.json", "mgc", "translate", *line)
        self.assertEqual(tool_runs.read("kept/config.json"), b"{}")
        run("mgc", "translate", "--force", *line)
        run("mgc", "translate", *line)
        self.assertIn(b'"model_type": "mgc"', tool_runs.read("kept/config.json"))

    def test_run_ends_with_the_code_of_the_command_that_failed(self):
        done = run("mgc", "translate", "-o", "failed", "--run", "--", *LLAMA, "--vocab-size", 99, "--seq-length", 16, code=None)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--data FILE, --data-path PREFIX or --mock-data is required", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
