#!/usr/bin/python3
"""Flags of Megatron-LM given to mgc compile and to mgrun: each is taken, or answered with what corresponds here.

    foreign_flags.py BIN SOURCE [--sample N]     one of N of the flags; default: all

megatron-flags.txt has the names of all options of Megatron-LM's argument parser, of August 2026.
"""
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import samples  # noqa: E402

SOURCE = pathlib.Path(sys.argv.pop(2)).resolve()
BIN = pathlib.Path(sys.argv.pop(1)).resolve()
STEP = int(sys.argv[sys.argv.index("--sample") + 1]) if "--sample" in sys.argv else 1
NAMES = samples.sample((pathlib.Path(__file__).resolve().parent / "megatron-flags.txt").read_text().split(), STEP)
LLAMA = SOURCE / "test/golden/llama/config.json"


def run(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)


def compile_llama(*flags):
    return run(BIN / "mgc", "compile", LLAMA, *flags, "--compile-to", "import")


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
        self.assertEqual(self.unanswered(BIN / "mgc", "compile", "nothing.json", "-o", "nowhere"), [])

    def test_each_is_answered_by_mgrun(self):
        self.assertEqual(self.unanswered(BIN / "mgrun", "nowhere", "--mock-data"), [])

    def test_a_line_of_megatron(self):
        done = compile_llama("--tensor-model-parallel-size", 2, "--num-layers", 4, "--hidden-size", 32, "--num-attention-heads", 4,
                             "--group-query-attention", "--num-query-groups", 2, "--swiglu", "--use-flash-attn",
                             "--attention-backend", "flash", "--no-rope-fusion", "--optimizer", "adam", "--bf16",
                             "--use-distributed-optimizer", "--micro-batch-size=2", "--norm-epsilon", "1e-6")
        self.assertEqual(done.returncode, 0, done.stderr)
        for note in ("--use-flash-attn: always on", "--attention-backend: always on", "--no-rope-fusion: fusion is decided"):
            self.assertIn(note, done.stderr)

    def test_facts_of_another_model(self):
        done = compile_llama("--num-layers", 5, "--hidden-size=32", "--untie-embeddings-and-output-weights", "--add-qkv-bias")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--num-layers 5: the model has 4 (num_hidden_layers)", done.stderr)
        self.assertIn("--add-qkv-bias true: the model has false (attention_bias)", done.stderr)
        self.assertNotIn("--hidden-size", done.stderr)

    def test_all_at_once_in_their_order(self):
        done = compile_llama("--lr", "1e-4", "--fp8-format", "hybrid", "--optimizer", "sgd", "--tpp", 2, "--data-path", "a", "b")
        self.assertEqual(done.returncode, 2)
        places = [done.stderr.index(text) for text in (
            "--lr: belongs to mgrun", "--fp8-format: not supported yet", "--optimizer: AdamW is the only",
            "--tpp: there is no such flag; near: --tp", "--data-path: mgrun PLAN has --data-path")]
        self.assertEqual(places, sorted(places))

    def test_nearest(self):
        for given, near in (("--hiden-size", "--hidden-size"), ("--context-paralel-size", "--context-parallel-size"),
                            ("--schedul", "--schedule"), ("--moe-grouped-gem", None)):
            done = compile_llama(given, "3")
            self.assertEqual(done.returncode, 2)
            if near:
                self.assertIn(f"{given}: there is no such flag; near: {near}\n", done.stderr)
        self.assertIn("near: --tensor-model-parallel-size, ", compile_llama("--tensor-paralel-size", 2).stderr)
        done = compile_llama("--complete-nonsense-of-somebody")
        self.assertIn("there is no such flag; --help lists all", done.stderr)

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
            done = run(BIN / "mgc", "compile", *line, "--seq", 32, "--compile-to", "import")
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_values_that_are_missing(self):
        for line, flag in ((["--cp-comm-type", "-o", "p"], "--cp-comm-type"), (["--cp=", "--seq", 16], "--cp"), (["-o"], "-o")):
            done = compile_llama(*line)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"{flag}: its value is missing\n", done.stderr)

    def test_commands(self):
        done = run(BIN / "mgc", "compil", LLAMA)
        self.assertEqual(done.returncode, 2)
        self.assertIn("compil: there is no such command; expected one of compile, explain, options", done.stderr)
        done = run(BIN / "mgc", "explain", LLAMA.parent)
        self.assertIn("expected the folder that mgc compile -o wrote; a model is compiled first", done.stderr)

    def test_values_of_facts(self):
        for line, message in ((["--swiglu=false"], "--swiglu=false: takes no value"),
                              (["--moe-pad-expert-input-to-capacity=banana"], "--moe-pad-expert-input-to-capacity=banana: takes no value"),
                              (["--moe-z-loss-coeff", "-inf"], "--moe-z-loss-coeff: found '-inf', expected a finite number"),
                              (["--num-layers"], "--num-layers: its value is missing"),
                              (["--num-layers", "--bf16"], "--num-layers: its value is missing")):
            done = compile_llama(*line)
            self.assertEqual(done.returncode, 2)
            self.assertIn(message, done.stderr)
        self.assertEqual(compile_llama("--group-query-attention").returncode, 0)

    def test_words_that_nobody_expects_keep_their_order(self):
        done = compile_llama("one", "two", "three")
        self.assertEqual(done.returncode, 2)
        self.assertIn("not expected: one two three", done.stderr)
        for flags in (("--num-layers", 4, "stray"), ("--use-flash-attn", "stray")):
            done = compile_llama(*flags)
            self.assertEqual(done.returncode, 2)
            self.assertIn("not expected: stray\n", done.stderr)

    def test_the_layout_belongs_to_mgc(self):
        done = run(BIN / "mgrun", "nowhere", "--mock-data", "--tp", 2, "--no-sp", "--hidden-size", 3)
        self.assertEqual(done.returncode, 2)
        for text in ("--tp: belongs to mgc compile", "--no-sp: belongs to mgc compile", "--hidden-size: comes from config.json"):
            self.assertIn(text, done.stderr)

    def test_names_of_one_option_that_contradict_each_other(self):
        done = compile_llama("--bf16", "--accumulate-allreduce-grads-in-fp32", "--grad-reduce-in-bf16")
        self.assertEqual(done.returncode, 2)
        self.assertIn("excludes", done.stderr)

    def test_other_commands_take_no_flag_of_a_model(self):
        done = run(BIN / "mgc", "options", "--hidden-size", 32)
        self.assertEqual(done.returncode, 2)
        self.assertIn("not expected: --hidden-size 32", done.stderr)
        done = run(BIN / "mgc", "explain", "nowhere", "--tp", 2)
        self.assertEqual(done.returncode, 2)
        self.assertIn("not expected: --tp 2\n  --tp belongs to mgc compile\n", done.stderr)

    def test_what_mgc_takes_has_no_answer(self):
        rows = json.loads((SOURCE / "tools/flags/megatron-flags.json").read_text())
        answered = {flag.split()[0] for row in rows for flag in row.get("flags", [])}
        self.assertGreater(len(answered), 300)
        taken = set(re.findall(r"--[a-z0-9][-a-z0-9_]*", run(BIN / "mgc", "compile", "--help").stdout))
        self.assertGreater(len(taken), 20)
        self.assertEqual(answered & taken, set())

    def test_what_belongs_to_mgrun_is_there(self):
        answer = run(BIN / "mgc", "options").stdout.split("- belongs to mgrun: ")[1].split("\n- ")[0]
        flags = [word.strip("`,") for word in answer.split() if word.startswith("`--")]
        self.assertGreater(len(flags), 15)
        known = run(BIN / "mgrun", "--help").stdout
        self.assertEqual([flag for flag in flags if flag not in known], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
