#!/usr/bin/python3
"""Flags of other frameworks given to mgc compile and to mgrun: each is taken, or answered with what corresponds here.

    foreign_flags.py BIN SOURCE [--sample N]     one of N of the flags; default: all

megatron-flags.txt has the names of all options of Megatron-LM's argument parser, of August 2026.
"""
import concurrent.futures
import json
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import samples  # noqa: E402
import tool_runs  # noqa: E402
from tool_runs import GOLDEN, ROOT  # noqa: E402

STEP = int(sys.argv[sys.argv.index("--sample") + 1]) if "--sample" in sys.argv else 1
NAMES = samples.sample((pathlib.Path(__file__).resolve().parent / "megatron-flags.txt").read_text().split(), STEP)
FRAMEWORKS = json.loads((ROOT / "tools/flags/foreign-flags.json").read_text())
# Words that users of other frameworks type first, and a part of each answer.
WORDS = {
    "Hugging Face": {
        "max_steps": "mgrun PLAN --train-iters", "num_train_epochs": "--train-samples", "epochs": "--train-samples",
        "learning_rate": "mgrun PLAN --lr", "output_dir": "mgrun PLAN --save", "per_device_train_batch_size": "mgc compile --mbs",
        "gradient_accumulation_steps": "mgc compile --gbs", "gradient_checkpointing": "mgc compile --recompute-granularity full",
        "fsdp": "mgc compile --dp N --zero 3", "deepspeed": "mgc compile --dp N --zero 1", "precision": "mgc compile --dtype",
        "report_to": "--tensorboard-dir", "resume_from_checkpoint": "mgrun PLAN --load", "optim": "mgc compile --optimizer",
        "warmup_steps": "--lr-warmup-iters", "warmup_ratio": "--lr-warmup-fraction", "lr_scheduler_type": "--lr-decay-style",
        "max_grad_norm": "--clip-grad", "logging_steps": "--log-interval", "save_steps": "--save-interval",
        "save_total_limit": "--save-retain", "eval_steps": "--eval-interval", "adam_epsilon": "--adam-eps", "lora_r": "--freeze",
        "lora_alpha": "--freeze", "use_peft": "--freeze", "fp8": "--dtype bf16", "load_in_4bit": "--dtype bf16",
        "max_seq_length": "mgc compile --seq", "model_name_or_path": "mgc compile CONFIG.JSON", "dataset_name": "mgrun PLAN --data",
        "load_best_model_at_end": "--save-best", "early_stopping_patience": "--early-stop", "packing": "--reset-attention-mask"},
    "DeepSpeed": {
        "zero_optimization": "mgc compile --zero 0, 1, 2 or 3", "zero_stage": "mgc compile --zero 0, 1, 2 or 3", "zero_optimization.stage": "--zero",
        "offload_optimizer": "mgc compile --optimizer-cpu-offload", "offload_param": "offloading", "activation_checkpointing": "mgc compile --recompute-granularity full",
        "train_micro_batch_size_per_gpu": "mgc compile --mbs", "gradient_clipping": "--clip-grad", "num_gpus": "torchrun",
        "deepspeed_config": "mgc compile --zero 1"},
    "torchtitan": {
        "steps": "mgrun PLAN --train-iters", "training.steps": "mgrun PLAN --train-iters", "seq_len": "mgc compile --seq",
        "local_batch_size": "mgc compile --mbs", "training.local_batch_size": "mgc compile --mbs",
        "parallelism.tensor_parallel_degree": "mgc compile --tp", "pipeline_parallel_degree": "mgc compile --pp",
        "context_parallel_degree": "mgc compile --cp", "data_parallel_shard_degree": "mgc compile --dp N --zero 3",
        "data_parallel_replicate_degree": "mgc compile --dp", "compile": "always on", "activation_checkpoint.mode": "mgc compile --recompute-granularity full",
        "checkpoint.interval": "--save-interval", "max_norm": "--clip-grad"},
    "PyTorch Lightning": {"accumulate_grad_batches": "mgc compile --gbs", "max_time": "--exit-duration", "patience": "--early-stop"},
    "Axolotl": {"train_on_inputs": "--sft-learn", "sample_packing": "--reset-attention-mask", "val_set_size": "--valid-data"},
}
TOOLS = {"mgc": ("mgc", "compile", "nothing.json", "-o", "nowhere"), "mgrun": ("mgrun", "nowhere", "--mock-data")}
LLAMA = GOLDEN / "llama/config.json"


def run(*command, code=None):
    return tool_runs.run(*command, code=code, timeout=60)


def compile_llama(*flags, code=None):
    return run("mgc", "compile", LLAMA, *flags, "--compile-to", "import", code=code)


class ForeignFlags(unittest.TestCase):
    def unanswered(self, *command):
        """Names that the tool does not know, or whose answer says nothing."""
        def ask(name):
            done = run(*command, name)
            text = done.stderr + done.stdout
            unknown = "there is no such flag" in text or "not expected" in text or not text.strip()
            return name if unknown or done.returncode < 0 else None

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            return [name for name in pool.map(ask, NAMES) if name]

    def test_each_is_answered_by_mgc(self):
        self.assertGreater(len(NAMES), 800 // STEP)
        self.assertEqual(self.unanswered("mgc", "compile", "nothing.json", "-o", "nowhere"), [])

    def test_each_is_answered_by_mgrun(self):
        self.assertEqual(self.unanswered("mgrun", "nowhere", "--mock-data"), [])

    def test_a_line_of_megatron(self):
        done = compile_llama("--tensor-model-parallel-size", 2, "--num-layers", 4, "--hidden-size", 32, "--num-attention-heads", 4,
                             "--group-query-attention", "--num-query-groups", 2, "--swiglu", "--use-flash-attn",
                             "--attention-backend", "flash", "--no-rope-fusion", "--optimizer", "adam", "--bf16",
                             "--use-distributed-optimizer", "--micro-batch-size=2", "--norm-epsilon", "1e-6", code=0)
        for note in ("--use-flash-attn: always on", "--attention-backend: always on", "--no-rope-fusion: fusion is decided"):
            self.assertIn(note, done.stderr)

    def test_facts_of_another_model(self):
        done = compile_llama("--num-layers", 5, "--hidden-size=32", "--untie-embeddings-and-output-weights", "--add-qkv-bias", code=1)
        self.assertIn("--num-layers 5: the model has 4 (num_hidden_layers)", done.stderr)
        self.assertIn("--add-qkv-bias true: the model has false (attention_bias)", done.stderr)
        self.assertNotIn("--hidden-size", done.stderr)

    def test_all_at_once_in_their_order(self):
        done = compile_llama("--lr", "1e-4", "--fp8-format", "hybrid", "--tpp", 2, "--data-path", "a", "b", code=2)
        places = [done.stderr.index(text) for text in (
            "--lr: belongs to mgrun", "--fp8-format: not supported yet", "--tpp: there is no such flag; near: --tp",
            "--data-path: mgrun PLAN has --data-path")]
        self.assertEqual(places, sorted(places))

    def test_nearest(self):
        for given, near in (("--hiden-size", "--hidden-size"), ("--context-paralel-size", "--context-parallel-size"),
                            ("--schedul", "--schedule"), ("--moe-grouped-gem", None)):
            done = compile_llama(given, "3", code=2)
            if near:
                self.assertIn(f"{given}: there is no such flag; near: {near}\n", done.stderr)
        self.assertIn("near: --tensor-parallel-size\n  --tensor-parallel-size: is DeepSpeed's; here it is mgc compile --tp N",
                      compile_llama("--tensor_paralel_size", 2).stderr)
        self.assertIn("there is no such flag; --help lists all", compile_llama("--complete-nonsense-of-somebody").stderr)

    def test_nearest_of_short_names(self):
        self.assertIn("--xp: there is no such flag; near: --tp, --cp, --ep, --pp, --dp, --sp\n", compile_llama("--xp", 2).stderr)
        self.assertIn("--qqq: there is no such flag; --help lists all\n", compile_llama("--qqq", 2).stderr)

    def test_a_list_ends_at_a_flag_that_is_left_out(self):
        for line in (("--cp", 2, "--cp-comm-type", "a2a", "--use-flash-attn", LLAMA),
                     (LLAMA, "--cp", 2, "--cp-comm-type", "a2a", "all_gather", "a2a", "a2a"),
                     ("--cp", 4, "--cp-comm-type", "a2a+p2p", "--hierarchical-context-parallel-sizes", "2,2", LLAMA),
                     ("--cp", 4, "--cp-comm-type", "a2a+p2p", "--hierarchical-context-parallel-sizes=2,2", LLAMA),
                     ("--cp", 4, "--cp-comm-type", "a2a+p2p", "--hierarchical-context-parallel-sizes", 2, 2, LLAMA),
                     ("--cp", 2, "--cp-comm-type", "a2a", LLAMA), ("--cp", 2, "--cp-comm-type", "a2a,a2a,a2a,a2a", LLAMA, "--bf16"),
                     (LLAMA, "--cp", 4, "--cp-comm-type", "a2a+p2p", "--hierarchical-context-parallel-sizes", 2, 2)):
            done = run("mgc", "compile", *line, "--seq", 32, "--compile-to", "import", code=0)

    def test_values_that_are_missing(self):
        for line, flag in ((["--cp-comm-type", "-o", "p"], "--cp-comm-type"), (["--cp=", "--seq", 16], "--cp"), (["-o"], "-o")):
            self.assertIn(f"{flag}: its value is missing\n", compile_llama(*line, code=2).stderr)

    def test_commands(self):
        self.assertIn("compil: there is no such command; expected one of compile, explain, compare, options", run("mgc", "compil", LLAMA, code=2).stderr)
        done = run("mgc", "explain", LLAMA.parent)
        self.assertIn("expected the folder that mgc compile -o wrote; a model is compiled first", done.stderr)

    def test_values_of_facts(self):
        for line, message in ((["--swiglu=false"], "--swiglu=false: takes no value"),
                              (["--moe-pad-expert-input-to-capacity=banana"], "--moe-pad-expert-input-to-capacity=banana: takes no value"),
                              (["--moe-z-loss-coeff", "-inf"], "--moe-z-loss-coeff: found '-inf', expected a finite number"),
                              (["--num-layers"], "--num-layers: its value is missing"),
                              (["--num-layers", "--bf16"], "--num-layers: its value is missing")):
            self.assertIn(message, compile_llama(*line, code=2).stderr)
        self.assertEqual(compile_llama("--group-query-attention").returncode, 0)

    def test_words_that_nobody_expects_keep_their_order(self):
        done = compile_llama("one", "two", "three", code=2)
        self.assertIn("not expected: one two three", done.stderr)
        for flags in (("--num-layers", 4, "stray"), ("--use-flash-attn", "stray")):
            self.assertIn("not expected: stray\n", compile_llama(*flags, code=2).stderr)

    def test_the_layout_belongs_to_mgc(self):
        done = run("mgrun", "nowhere", "--mock-data", "--tp", 2, "--no-sp", "--hidden-size", 3, code=2)
        for text in ("--tp: belongs to mgc compile", "--no-sp: belongs to mgc compile", "--hidden-size: comes from config.json"):
            self.assertIn(text, done.stderr)

    def test_names_of_one_option_that_contradict_each_other(self):
        self.assertIn("excludes", compile_llama("--bf16", "--accumulate-allreduce-grads-in-fp32", "--grad-reduce-in-bf16", code=2).stderr)

    def test_other_commands_take_no_flag_of_a_model(self):
        self.assertIn("--hidden-size: there is no such flag", run("mgc", "options", "--hidden-size", 32, code=2).stderr)
        done = run("mgc", "explain", "nowhere", "--tp", 2, code=2)
        self.assertIn("mgc explain: --tp: belongs to mgc compile\n", done.stderr)

    def test_the_gather_of_the_distributed_optimizer(self):
        ahead = ["--dp", 2, "--overlap-param-gather"]
        done = compile_llama(*ahead, "--use-distributed-optimizer", "--overlap-grad-reduce", code=0)
        self.assertNotIn("does nothing", done.stderr)
        self.assertIn("--overlap-param-gather does nothing here: without --zero every rank has whole values",
                      compile_llama(*ahead, "--overlap-grad-reduce", code=0).stderr)
        self.assertIn("--overlap-param-gather with --zero 1 without --overlap-grad-reduce: values are gathered in the parts",
                      compile_llama(*ahead, "--use-distributed-optimizer", code=1).stderr)

    def test_flags_that_change_no_result_stop_no_line(self):
        done = compile_llama(
            "--tp-comm-overlap", "--tp-comm-overlap-cfg", "file.yaml", "--disable-tp-comm-split-ag", "--cuda-graph-scope", "full",
            "--use-sharp", "--ckpt-format", "torch_dist", "--wandb-project", "p", "--log-params-norm", "--tensorboard-queue-size", 5,
            "--data-impl", "mmap", "--DDP-impl", "local", "--extra-vocab-size", 7, "--no-scaled-init", "--loss-scale", "1.0",
            "--exp-avg-dtype", "fp32", "--moe-router-dtype", "fp32", "--apply-query-key-layer-scaling", "--pp-partition-method",
            "type:transformer", "--use-te", "--train-mode", "pretrain", code=0)
        for flag in ("--tp-comm-overlap", "--moe-router-dtype", "--DDP-impl"):
            self.assertIn(f"mgc: {flag}: ", done.stderr)
        for flag, value in (("--moe-router-dtype", "fp64"), ("--data-impl", "lazy"), ("--exp-avg-dtype", "bf16"), ("--loss-scale", 8)):
            with self.subTest(flag=flag):
                self.assertIn(f"{flag}: ", compile_llama(flag, value, code=2).stderr)

    def test_facts_that_a_model_has_otherwise_or_not(self):
        done = compile_llama("--max-position-embeddings", 4096, "--rope-type", "rope", "--softmax-type", "vanilla", "--mscale", "1.0",
                             "--moe-layer-freq", 1, "--normalization", "rmsnorm", "--num-key-value-heads", 2, "--hidden-size", "3_2", code=0)
        self.assertEqual([line for line in done.stderr.splitlines() if line.startswith("mgc: ")], [])
        done = compile_llama("--window-size", "127,0", "--softmax-type", "learnable", "--rope-type", "yarn", code=1)
        for text in ("--window-size 127,0: the model has -1,-1", "--softmax-type learnable: the model has vanilla",
                     "--rope-type yarn: the model has rope"):
            self.assertIn(text, done.stderr)
        latent = run("mgc", "compile", GOLDEN / "deepseek_v3/config.json", "--multi-latent-attention", "--qk-layernorm", "--kv-channels", 128,
                     "--moe-layer-freq", "[0]*1+[1]*3", "--compile-to", "import", code=0)
        self.assertEqual([line for line in latent.stderr.splitlines() if line.startswith("mgc: ")], [])

    def test_numbers_with_underscores(self):
        self.assertIn("--gbs      1000 ", compile_llama("--seq-length", "3_2", "--global-batch-size", "1_000", code=0).stderr)
        self.assertIn("found '1__0'", compile_llama("--seq-length", "1__0", code=2).stderr)
        self.assertIn("nowhere: has no plan.json", run("mgrun", "nowhere", "--mock-data", "--train-iters", "1_000", "--lr", "1_0.5").stderr)
        self.assertIn("found '_1'", run("mgrun", "nowhere", "--mock-data", "--train-iters", "_1", code=2).stderr)

    def test_projects_that_began_with_megatron(self):
        for flag, answer in (("--zero-stage", "mgc compile --zero"), ("--train-tokens", "mgrun PLAN --train-samples"),
                             ("--deepspeed", "mgc compile --dp"), ("--patch-tokenizer-type", "HuggingFaceTokenizer"),
                             ("--train-weighted-split-paths-path", "--train-data-path"), ("--ext-iterations", "mgrun PLAN --load"),
                             ("--activations-checkpoint-method", "--recompute-granularity full --recompute-method")):
            with self.subTest(flag=flag):
                self.assertIn(f"{flag}: ", compile_llama(flag, "1", code=2).stderr)
                self.assertIn(answer, compile_llama(flag, "1").stderr)

    def test_what_mgc_takes_has_no_answer(self):
        answered = {flag.split()[0] for rows in FRAMEWORKS.values() for row in rows for flag in row.get("flags", [])}
        self.assertGreater(len(answered), 300)
        taken = set(re.findall(r"--[a-z0-9][-a-z0-9_]*", run("mgc", "compile", "--help").stdout))
        self.assertGreater(len(taken), 20)
        self.assertEqual(answered & taken, set())

    def test_words_of_other_frameworks(self):
        for framework, words in WORDS.items():
            for word, answer in words.items():
                for spelling in {word, word.replace("_", "-")}:
                    for tool, command in TOOLS.items():
                        with self.subTest(word=spelling, tool=tool):
                            done = run(*command, f"--{spelling}", "1", code=2)
                            self.assertRegex(done.stderr, f"--{spelling}: is {framework}'s; .*{re.escape(answer)}")

    def test_words_that_another_framework_shares(self):
        self.assertIn("--fp16: not supported yet: fp16", compile_llama("--fp16").stderr)
        self.assertIn("--bf16: belongs to mgc compile", run(*TOOLS["mgrun"], "--bf16").stderr)
        self.assertEqual(compile_llama("--bf16", "--optim", "adamw_torch", "--dataloader_num_workers", 4).returncode, 0)
        self.assertIn("--optim: is Hugging Face's; here it is mgc compile --optimizer NAME", compile_llama("--optim", "sgd").stderr)

    def test_underscores_are_spelled_otherwise_here(self):
        self.assertIn("--weight_decay: is spelled --weight-decay here", run(*TOOLS["mgrun"], "--weight_decay", 1).stderr)
        self.assertIn("--optimizer.lr: is spelled --lr here", run(*TOOLS["mgrun"], "--optimizer.lr", 1).stderr)
        self.assertIn("--weight_decay: belongs to mgrun: mgrun PLAN --weight-decay", compile_llama("--weight_decay", 1).stderr)
        self.assertIn("--micro_batch_size: belongs to mgc compile", run(*TOOLS["mgrun"], "--micro_batch_size", 1).stderr)
        self.assertIn("--hidden_size: is spelled --hidden-size here", compile_llama("--hidden_size", 1).stderr)

    def test_answers_name_flags_that_there_are(self):
        known = "".join(run(tool, *command, "--help").stdout for tool, command in
                        (("mgc", ["compile"]), ("mgrun", []), ("mgc-data", ["preprocess"])))
        known = set(re.findall(r"--[a-z0-9][-a-z0-9_]*", known))
        for framework, rows in FRAMEWORKS.items():
            for row in rows:
                with self.subTest(framework=framework, answer=row["answer"]):
                    self.assertEqual(set(re.findall(r"--[a-z0-9][-a-z0-9_]*", row["answer"])) - known, set())

    def test_wrong_usage_names_the_command_and_what_is_near(self):
        for line, message in [
                ("mgc", "mgc: expected a command: compile, explain, compare, options, translate, completion"),
                ("mgc compil x", "mgc: compil: there is no such command; expected one of compile, explain, compare, options, translate, completion; near: compile"),
                ("mgc --versio", "mgc: --versio: there is no such flag; near: --version"),
                ("mgc compile x --tpp 2", "mgc compile: --tpp: there is no such flag; near: --tp, --pp, --vpp"),
                ("mgc compile x --tp two", "mgc compile: --tp: found 'two', expected a whole number"),
                ("mgc compile x --tp", "mgc compile: --tp: its value is missing"),
                ("mgc explain --jsn", "mgc explain: --jsn: there is no such flag; near: --json"),
                ("mgc explain x --width", "mgc explain: --width: 1 required INT missing"),
                ("mgc compare --htm x y", "mgc compare: --htm: there is no such flag; near: --html"),
                ("mgc options --shema", "mgc options: --shema: there is no such flag; near: --schema"),
                ("mgrun", "mgrun: plan is required"), ("mgrun x --mock-date", "mgrun: --mock-date: there is no such flag; near: --mock-data"),
                ("mgrun x --mock-data --lr y", "mgrun: --lr: found 'y', expected a finite number"),
                ("mgrun x --mock-data --save-dtype y", "mgrun: --save-dtype: y not in {f32,bf16}"),
                ("mgc-data", "mgc-data: expected a command: preprocess, merge, show, info, completion"),
                ("mgc-data mrge", "mgc-data: mrge: there is no such command; expected one of preprocess, merge, show, info, completion; near: merge"),
                ("mgc-data merge --inptu x", "mgc-data merge: --inptu: there is no such flag; near: --input"),
                ("mgc-data preprocess --workers x", "mgc-data preprocess: --workers: found 'x', expected a whole number")]:
            with self.subTest(line=line):
                tool_runs.expect(2, message, *line.split())
        tool_runs.expect(1, ["mg-opt: Unknown command line argument '--mg-grd'", "mg-opt: Did you mean '--mg-grad'?"], "mg-opt", "--mg-grd")

    def test_what_belongs_to_mgrun(self):
        flags = set(re.findall(r"^  (--[-a-z0-9_]+)", run("mgrun", "--help").stdout, re.M))
        self.assertGreater(len(flags), 90)
        taken = run("mgc", "compile", "--help").stdout
        for flag in sorted(flags - set(re.findall(r"--[a-z0-9][-a-z0-9_]*", taken)) - {"--version", "--list-options", "--completion"}):
            with self.subTest(flag=flag):
                self.assertRegex(run(*TOOLS["mgc"], flag).stderr, f"{flag}: (.*mgrun|not needed)")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
