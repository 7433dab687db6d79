#!/usr/bin/python3
"""Memory that does not suffice, and stages that are cut by hand: python3 fits.py BIN REPOSITORY [Class.test]

    fits.py build/release/bin . --cases 40      so many models and layouts of a seed; default: 4, of the commit
"""
import itertools
import json
import pathlib
import random
import re
import sys
import unittest

import samples
from tool_runs import GOLDEN, ROOT, compile_plan, enter_folder, expect, run, timeless

CASES = int(sys.argv.pop(sys.argv.index("--cases") + 1)) if "--cases" in sys.argv else 4
if "--cases" in sys.argv:
    sys.argv.remove("--cases")
MODELS = {
    "gpt2": {"model_type": "gpt2", "n_embd": 32, "n_head": 4, "n_layer": 4, "n_positions": 64, "vocab_size": 128},
    "llama": {"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 8, "num_hidden_layers": 8,
              "num_key_value_heads": 4, "vocab_size": 256, "max_position_embeddings": 64},
    "mixtral": {"model_type": "mixtral", "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_hidden_layers": 4,
                "num_key_value_heads": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "vocab_size": 128}}
CHANGE = re.compile(r"^  (--.*): (?:[\d.]+ [KMG]?i?B) a rank, .* a step")


def setUpModule():
    enter_folder()


def machine(name, device, host=10**12):
    """A machine file like the h100's, with so many bytes."""
    h100 = json.loads((ROOT / "plan/cost/machines/h100.json").read_text(encoding="utf-8"))
    h100["memory"]["bytes"], h100["host"]["bytes"], h100["name"] = device, host, name
    pathlib.Path(f"{name}.json").write_text(json.dumps(h100), encoding="utf-8")
    return f"{name}.json"


def facts(plan):
    return json.loads(run("mgc", "explain", plan, "--json").stdout)


class Case:
    """A layout of a tiny model that needs more than its machine has."""

    def __init__(self, number):
        draw = random.Random(number)
        self.name = draw.choice(sorted(MODELS))
        pathlib.Path("config.json").write_text(json.dumps(MODELS[self.name]), encoding="utf-8")
        self.dp, self.mbs = draw.choice((1, 2, 4, 8)), draw.choice((1, 2, 4))
        self.dtype = draw.choice(("f32", "bf16"))
        self.flags = {"--seq": 32, "--gbs": 32, "--dp": self.dp, "--mbs": self.mbs, "--dtype": self.dtype, "--target": "cuda:sm_90"}
        self.flags |= {"--tp": draw.choice((1, 1, 2)), "--pp": draw.choice((1, 1, 2))}
        if draw.random() < 0.2:
            self.flags["--no-recompute"] = True
        if self.name == "mixtral" and self.dp > 1:
            self.flags["--ep"] = draw.choice((1, 2))
        if draw.random() < 0.2:
            self.flags["--world"] = self.dp * self.flags["--tp"] * self.flags["--pp"]
        self.compiled = 0
        plan = self.compile({})
        needed = plan["fits"]["needed_bytes"]
        frame = max(stage["memory"]["frame"] for stage in plan["stages"])  # nearly all of it a library's workspace
        self.bytes = int(frame + (needed - frame) * draw.choice((0.9, 0.7, 0.5)))

    def compile(self, changes, machine_file=None):
        """Facts of the plan; nothing where there is none."""
        flags = self.flags | changes | ({"--machine": machine_file} if machine_file else {})
        words = [str(word) for flag, value in flags.items() for word in ((flag,) if value is True else (flag, value))]
        done = run("mgc", "compile", "config.json", "-o", "plan", *words, code=None)
        self.said = done.stderr
        return facts("plan") if done.returncode == 0 else None

    def singles(self):
        """Every change of one choice, as docs/memory.md lists them."""
        flags = self.flags
        for level in (1, 2, 3) if self.dp > 1 else ():
            yield {"--zero": level}
        yield {"--optimizer-cpu-offload": True}
        if self.dtype == "bf16":
            yield {"--grad-dtype": "bf16"}
        if "--no-recompute" not in flags:
            yield {"--recompute-granularity": "full", "--recompute-method": "uniform", "--recompute-num-layers": 1}
        if flags.get("--ep", 1) > 1:
            yield {"--moe-rows-factor": 2}
        if self.name == "mixtral":
            yield from ({"--ep": flags.get("--ep", 1) * times} for times in (2, 4, 8))
        for mbs in (2, 1):
            if mbs < self.mbs:
                yield {"--mbs": mbs}
        for axis, times in itertools.product(("--tp", "--pp", "--cp"), (2, 4, 8)):
            if (self.dp == 1 and "--world" not in flags) or self.dp % times == 0:
                yield {axis: flags.get(axis, 1) * times, "--dp": max(self.dp // times, 1)}


def parsed(text):
    words, flags = text.split(), {}
    while words:
        flag = words.pop(0)
        flags[flag] = words.pop(0) if words and not words[0].startswith("--") else True
    return flags


class Fits(unittest.TestCase):
    def test_changes(self):
        """Each change that is proposed compiles, takes the bytes that were said, and fits; and where one change suffices three times, no other
        change of one choice takes less time."""
        tried = 0
        for number in range(samples.seed() * CASES, (samples.seed() + 1) * CASES):
            with self.subTest(number=number):
                case = Case(number)
                file = machine("small", case.bytes)
                found = case.compile({}, file)
                fits = found["fits"]
                self.assertFalse(fits["fits"])
                self.assertEqual(fits["spare_bytes"], case.bytes - fits["needed_bytes"])
                self.assertIn("does not fit small: a rank needs", case.said)
                changes = fits["changes"]
                self.assertEqual([CHANGE.match(line)[1] for line in case.said.splitlines() if CHANGE.match(line)],
                                 [change["flags"] for change in changes])
                self.assertLessEqual(len(changes), 3)
                self.assertEqual([c["seconds"] for c in changes], sorted(c["seconds"] for c in changes))
                for change in changes:
                    again = case.compile(parsed(change["flags"]), file)
                    self.assertTrue(again["fits"]["fits"], change)
                    self.assertEqual(again["fits"]["needed_bytes"], change["bytes"])
                    self.assertEqual(again["prediction"]["seconds"], change["seconds"])
                    self.assertEqual(again["ranks"], change["ranks"])
                    tried += 1
                singles = [plan for plan in (case.compile(single, file) for single in case.singles()) if plan and plan["fits"]["fits"]]
                if len(singles) >= 3:
                    self.assertEqual([c["seconds"] for c in changes], sorted(p["prediction"]["seconds"] for p in singles)[:3])
                elif not changes:
                    self.assertEqual(singles, [])
        self.assertGreater(tried, 0)

    def test_said_alike(self):
        """The numbers of mgc compile are those of mgc explain, as text, JSON and page; and on another machine it is another fit."""
        pathlib.Path("config.json").write_text(json.dumps(MODELS["gpt2"]), encoding="utf-8")
        said = compile_plan("plan", "config.json", "--seq 32 --target cuda:sm_90 --machine", machine("little", 34_400_000))
        line = next(line for line in said.splitlines() if line.startswith("does not fit little"))
        text = run("mgc", "explain", "plan").stdout
        self.assertIn(line, text)
        changes = [line for line in said.splitlines() if CHANGE.match(line)]
        self.assertTrue(changes)
        for change in changes:
            self.assertIn(change, text)
        run("mgc", "explain", "plan", "--html", "page.html")
        self.assertIn('"fits":', pathlib.Path("page.html").read_text(encoding="utf-8"))
        other = json.loads(run("mgc", "explain", "plan", "--machine", "h100", "--json").stdout)["fits"]
        self.assertTrue(other["fits"])
        self.assertEqual((other["device_bytes"], other["changes"]), (80_000_000_000, []))
        said = compile_plan("plan", "config.json", "--seq 32 --target cuda:sm_90")
        self.assertRegex(said, r"fits h100: a rank needs .* to spare\n")
        self.assertRegex(said, r"\ngpt2, [\d.]+ k parameters\n")
        self.assertNotIn("fits", compile_plan("plan", "config.json", "--seq 32"), "of CPUs nothing is known")
        self.assertIsNone(facts("plan")["fits"])
        said = compile_plan("plan", "config.json", "--seq 32 --target cuda:sm_90 --no-near-layouts --machine little.json")
        self.assertIn("does not fit little", said)
        self.assertNotIn("near layouts", said)
        expect(1, "memory.bytes: found 1e+20, expected a number from 1 to", "mgc", "compile", "config.json", "-o", "none",
               "--machine", machine("huge", 10**20))

    def test_three_changes(self):
        """Where only three choices together suffice."""
        pathlib.Path("config.json").write_text(json.dumps(MODELS["gpt2"]), encoding="utf-8")
        said = compile_plan("plan", "config.json", "--seq 64 --mbs 4 --gbs 8 --target cuda:sm_90 --no-recompute --machine",
                            machine("tight", 33_900_000))
        changes = [CHANGE.match(line)[1] for line in said.splitlines() if CHANGE.match(line)]
        self.assertTrue(changes, said)
        for change in changes:
            self.assertNotIn("--recompute", change)


class Stages(unittest.TestCase):
    FLAGS = "--seq 16 --mbs 1 --gbs 4 --pp 2"

    def layers(self, *flags):
        compile_plan("cut", GOLDEN / "gpt2/config.json", self.FLAGS, *flags)
        return [sum(end - begin for begin, end in stage["layers"]) for stage in facts("cut")["stages"]]

    def test_ways(self):
        """Each way to say a cut."""
        for flags, expected in (("--stages 1,3", [1, 3]), ("--stages 3,1", [3, 1]), ("--stages 2x2", [2, 2]),
                                ("--decoder-first-pipeline-num-layers 1", [1, 3]), ("--decoder-last-pipeline-num-layers 1", [3, 1]),
                                ("--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split", [2, 2]),
                                ("--vpp 2 --stages 1x4", [2, 2]), ("--pipeline-model-parallel-layout Et|t*3L", [1, 3]),
                                ("--vpp 2 --pipeline-model-parallel-layout E(t|)*3,tL", [2, 2])):
            with self.subTest(flags=flags):
                self.assertEqual(self.layers(flags), expected)
        # An encoder, and what stands between it and the decoder.
        compile_plan("cut", GOLDEN / "t5/config.json", self.FLAGS, "--encoder-seq-length 16 --stages 1,3")
        self.assertEqual([(s["encoder_layers"], s["layers"]) for s in facts("cut")["stages"]],
                         [([[0, 1]], []), ([[1, 2]], [[0, 2]])])
        # The file's way, and a flag that decides anew.
        config = json.loads((GOLDEN / "gpt2/config.json").read_text(encoding="utf-8")) | {"mgc": {"stages": "1,3", "pp": 2}}
        pathlib.Path("own.json").write_text(json.dumps(config), encoding="utf-8")
        for flags, expected in (("", [1, 3]), ("--decoder-last-pipeline-num-layers 1", [3, 1]),
                                ("--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split", [2, 2])):
            compile_plan("own", "own.json", "--seq 16 --gbs 4", flags)
            self.assertEqual([s["layers"][0][1] - s["layers"][0][0] for s in facts("own")["stages"]], expected)

    def test_same_training(self):
        """A cut changes where layers are, and no number."""
        logs = []
        for stages in ("1,3", "3,1", "2,2"):
            pathlib.Path("log").unlink(missing_ok=True)
            self.layers("--stages", stages)
            run("mgrun", "cut", *"--mock-data --train-iters 3 --lr 1e-2 --log log --threads 1".split())
            logs.append([record["loss"] for record in timeless("log")])
        self.assertEqual(logs[0], logs[1])
        self.assertEqual(logs[0], logs[2])

    def test_refused(self):
        for flags, parts in (
                ("--stages 1x2", ["--stages: 2 layers in all; expected n_layer = 4", "possible: --stages 2x2"]),
                ("--stages 1,x", "'x' in '1,x' is no number of layers"), ("--stages 1x99999999999", "more than 65536 chunks"),
                ("--stages 0,4", "'0' in '0,4'"), ("--stages ,4", "'' in ',4'"), ("--stages 9223372036854775807,5", "'9223372036854775807' in"), ("--stages 4", ["1 chunks; expected pp * vpp = 2 * 1 = 2", "possible: --pp 1 with it"]),
                ("--decoder-first-pipeline-num-layers 5", "-1 of 4 layers are left for 1 stages"),
                ("--account-for-loss-in-pipeline-split", "4 layers and 1 that count as one do not divide over pp * vpp = 2"),
                ("--pipeline-model-parallel-layout E|t*4L", "chunk 0 has 0 layers"),
                ("--pipeline-model-parallel-layout Et|(t*3L", "a bracket is not closed"),
                ("--pipeline-model-parallel-layout Et|ttt", "is not E, layers, 0 m and L"),
                ("--pipeline-model-parallel-layout tEt|ttL", "is not E, layers"),
                ("--pipeline-model-parallel-layout Et|ttmtL", "is not E, layers"),
                ("--pipeline-model-parallel-layout Et|tt*0L", "'*0L' does not say how often"),
                ("--pipeline-model-parallel-layout Et)|ttL", "closes nothing"),
                ("--pipeline-model-parallel-layout Ex|ttL", "'x' is none of E"),
                ("--pipeline-model-parallel-layout (((((((((t)))))))))", "nested deeper than 8"),
                ("--pipeline-model-parallel-layout t*99999999999", "more than 65536"),
                ("--stages 1,3 --decoder-first-pipeline-num-layers 1", "each says how all layers are cut")):
            with self.subTest(flags=flags):
                expect(1, parts, "mgc", "compile", GOLDEN / "gpt2/config.json", "-o", "none", *self.FLAGS.split(), *flags.split())
        # A program that was edited.
        run("mgc", "compile", GOLDEN / "gpt2/config.json", *self.FLAGS.split(), "--stages", "1,3", "--compile-to", "import", "-o", "cut.mlir")
        text = pathlib.Path("cut.mlir").read_text(encoding="utf-8")
        self.assertIn('stages = "1,3"', text)
        for wrong, message in (("1,4", "expected 4 layers in 2 chunks"), ("1,y", "'y' in '1,y' is no number of layers")):
            pathlib.Path("wrong.mlir").write_text(text.replace('stages = "1,3"', f'stages = "{wrong}"'), encoding="utf-8")
            expect(1, message, "mgc", "compile", "wrong.mlir", "-o", "none")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
