#!/usr/bin/python3
"""Optimizer state on the host: python3 offload.py BIN REPOSITORY, with the stand-ins of a GPU in LD_LIBRARY_PATH.

A training with it has the bits of one without: log, weights and state. Either goes on from a checkpoint of the other. A plan
whose copies are in another order, or meet in a staging buffer, is refused (VerifyOffload.h).
"""
import copy
import json
import os
import pathlib
import shutil
import sys
import unittest

import tool_runs
from tool_runs import GOLDEN, TINY_GPT, compile_plan, enter_folder, expect, run, timeless

sys.path.insert(0, str(tool_runs.ROOT / "test/mutation"))
import mutate
import samples

OFFLOAD = "--optimizer-cpu-offload"
# Clipping bites, so that the norm counts in each weight.
TRAIN = "--mock-data --train-iters 4 --lr 3e-3 --min-lr 1e-4 --lr-decay-style cosine --clip-grad 0.5".split()
GPT = "--seq 16 --mbs 1 --target cuda:sm_90"
LAYOUTS = {
    "one": (None, "--gbs 2"),
    "bf16": (None, "--gbs 2 --bf16"),
    "sgd": (None, "--gbs 2 --optimizer sgd"),
    "lion": (None, "--gbs 2 --optimizer lion --bf16"),
    "half": (None, "--gbs 2 --bf16 --optimizer-offload-fraction 0.5"),
    "pieces alike": ("gpt2", "--gbs 2 --optimizer-offload-fraction 0.5"),  # one on the host and one on the device, of a size
    "dp": (None, "--dp 2 --gbs 4 --bf16"),
    "zero1": (None, "--dp 2 --gbs 4 --zero 1 --bf16"),
    "zero1-f32": (None, "--dp 2 --gbs 4 --zero 1 --optimizer-offload-fraction 0.7"),
    "zero2": (None, "--dp 2 --gbs 4 --zero 2"),
    "zero3": (None, "--dp 2 --gbs 4 --zero 3 --bf16"),
    "tp": (None, "--tp 2 --gbs 2"),
    "pp": (None, "--pp 2 --gbs 4 --bf16"),
    "all": (None, "--pp 2 --tp 2 --dp 2 --gbs 8 --zero 1 --bf16 --optimizer-offload-fraction 0.6"),
    "zbv": (None, "--pp 2 --vpp 2 --schedule zb-v --gbs 4 --bf16"),
    "frozen": (None, "--gbs 2 --freeze embeddings,layers:0"),
    "experts": ("mixtral", "--ep 2 --dp 2 --gbs 4 --zero 1 --bf16"),
    "router": ("deepseek_v3", "--gbs 2"),
    "instances": (None, "--dp 4 --gbs 4 --zero 2 --num-distributed-optimizer-instances 2 --bf16"),
}


def setUpModule():
    enter_folder()


def model_of(name):
    return TINY_GPT if name is None else GOLDEN / name / "config.json"


def without(flags):
    words = flags.split()
    return " ".join(word for i, word in enumerate(words)
                    if "--optimizer-offload-fraction" not in (word, words[i - 1] if i else ""))


def plans(name):
    """The plan with states on the host, and the one without."""
    model, flags = LAYOUTS[name]
    paths = [f"{name}.host", f"{name}.device"]
    for path, options in zip(paths, (f"{OFFLOAD} {flags}", without(flags))):
        if not pathlib.Path(path).exists():
            compile_plan(path, model_of(model), GPT, options)
    return paths


def files(folder):
    """The contents of all files of the weights and of the latest checkpoint."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(pathlib.Path(folder).rglob("*.safetensors"))}


def states(folder):
    """Each tensor of the latest checkpoint, by name and place: files may be cut in another way."""
    tensors = {}
    for name, data in files(folder).items():
        length = int.from_bytes(data[:8], "little")
        for tensor, info in json.loads(data[8:8 + length]).items():
            if tensor != "__metadata__":
                begin, end = info["data_offsets"]
                tensors[name, tensor] = data[8 + length + begin:8 + length + end]
    return tensors


def train(plan, folder, *flags):
    shutil.rmtree(folder, ignore_errors=True)
    run("mgrun", plan, *TRAIN, "--save", folder, "--log", f"{folder}.jsonl", *flags)
    return states(folder), timeless(f"{folder}.jsonl")


def assert_same_training(test, on_host, on_device):
    found, expected = train(on_host, "a", "--poison"), train(on_device, "b")
    test.assertGreater(len(expected[0]), 2)
    test.assertEqual(found[1], expected[1])
    test.assertEqual(found[0].keys(), expected[0].keys())
    for tensor in expected[0]:
        test.assertTrue(found[0][tensor] == expected[0][tensor], tensor)


class SameBits(unittest.TestCase):
    def test_layouts(self):
        for name in samples.sample(list(LAYOUTS), int(os.environ.get("MGC_TEST_SAMPLE", "1"))):
            with self.subTest(name):
                on_host, on_device = plans(name)
                stages = json.loads(run("mgc", "explain", on_host, "--json").stdout)["stages"]
                self.assertTrue(all(stage["host_bytes"] > 0 for stage in stages), stages)
                assert_same_training(self, on_host, on_device)

    def test_memory(self):
        """Bytes of masters and states leave the device, as many as the host has; a fraction counts bytes."""
        on_host, on_device = plans("bf16")
        stages = [json.loads(run("mgc", "explain", plan, "--json").stdout)["stages"][0] for plan in (on_host, on_device)]
        optimizer = stages[1]["memory"]["optimizer"]
        self.assertEqual(stages[0]["memory"]["optimizer"], 0)
        self.assertEqual(stages[0]["host_bytes"], stages[0]["memory"]["hostOptimizer"])
        self.assertEqual(stages[0]["host_bytes"], optimizer)
        self.assertEqual(stages[0]["bytes"], stages[1]["bytes"] - optimizer + stages[0]["memory"]["staging"])
        half = json.loads(run("mgc", "explain", plans("half")[0], "--json").stdout)["stages"][0]
        self.assertEqual(half["host_bytes"] + half["memory"]["optimizer"], optimizer)
        self.assertAlmostEqual(half["host_bytes"] / optimizer, 0.5, delta=0.05)

    def test_budget(self):
        on_host, _ = plans("bf16")
        needed = json.loads(run("mgc", "explain", on_host, "--json").stdout)["stages"][0]["host_bytes"]
        flags = [*GPT.split(), *LAYOUTS["bf16"][1].split(), OFFLOAD]
        run("mgc", "compile", TINY_GPT, *flags, "--host-memory", needed, "-o", "fits")
        said = expect(1, [f"stage 0 takes {needed} bytes of the host, 1 more than the {needed - 1} of --host-memory {needed - 1}",
                          f"possible: --host-memory {needed}"],
                      "mgc", "compile", TINY_GPT, *flags, "--host-memory", needed - 1, "-o", "not")
        fraction = said.split("--optimizer-offload-fraction ")[1].split(",")[0]
        run("mgc", "compile", TINY_GPT, *flags, "--host-memory", needed - 1, "--optimizer-offload-fraction", fraction, "-o", "less")


class Measured(unittest.TestCase):
    def test_profile(self):
        """Copies are a part of the measured step, and rows of the profile; the parts add up to the step."""
        on_host, _ = plans("bf16")
        run("mgrun", on_host, *TRAIN, "--profile-json", "profile.json")
        profile = json.loads(pathlib.Path("profile.json").read_text(encoding="utf-8"))
        self.assertGreater(profile["parts"]["host copies"], 0)
        self.assertAlmostEqual(sum(profile["parts"].values()) / profile["mean_step_seconds"], 1, places=3)
        self.assertIn("update.copy_in/master", json.dumps(profile))


class GoesOn(unittest.TestCase):
    def test_from_either(self):
        """Four steps without a stop, and two and two more, of which one pair has its states on the host."""
        for name in ("zero1", "half"):
            on_host, on_device = plans(name)
            straight, _ = train(on_device, "straight")
            for first, second in ((on_host, on_device), (on_device, on_host), (on_host, on_host)):
                with self.subTest(name, first=first, second=second):
                    shutil.rmtree("parts", ignore_errors=True)
                    run("mgrun", first, *TRAIN, "--exit-interval", 2, "--save", "parts")
                    run("mgrun", second, *TRAIN, "--load", "parts", "--save", "parts")
                    found = {key: value for key, value in states("parts").items() if "iter_0000002" not in key[0]}
                    self.assertEqual(found.keys(), straight.keys())
                    for tensor in straight:
                        self.assertTrue(found[tensor] == straight[tensor], tensor)

    def test_evaluation(self):
        for path, flags in (("evaluated.host", OFFLOAD), ("evaluated.device", "")):
            compile_plan(path, TINY_GPT, GPT, "--dp 2 --zero 1 --gbs 4 --bf16 --evaluation", flags)
        found = [train(path, path + ".out", "--eval-interval", 2, "--eval-iters", 1)
                 for path in ("evaluated.host", "evaluated.device")]
        self.assertEqual(found[0], found[1])


class Refused(unittest.TestCase):
    """Case 17 of the acceptance: each change of the update's calls is refused, and what it says."""

    def setUp(self):
        self.plan = plans("bf16")[0]
        self.document = mutate.read(pathlib.Path(self.plan))

    def calls(self, document):
        stage = document["plan"]["stages"][0]
        return next(chunk for chunk in stage["chunks"] if chunk["task"] == "update"), document["plan"]["programs"]

    def refuse(self, change, *said):
        document = copy.deepcopy(self.document)
        chunk, programs = self.calls(document)
        self.unroll(chunk)
        change(chunk, programs)
        shutil.rmtree("edited", ignore_errors=True)
        shutil.copytree(self.plan, "edited")
        mutate.write(document, pathlib.Path("edited"))
        expect(1, said, "mgc", "explain", "edited")

    @staticmethod
    def unroll(chunk):
        """Calls without repeats."""
        calls, after = [], 0
        for repeat in chunk.pop("repeats", []):
            calls += chunk["calls"][after:repeat["begin"]]
            for i in range(repeat["count"]):
                for call in chunk["calls"][repeat["begin"]:repeat["end"]]:
                    one = copy.deepcopy(call)
                    one["instance"] += i * one.pop("instanceStride", 0)
                    for segment in one["segments"]:
                        segment["offset"] += i * segment.pop("stride", 0)
                    calls.append(one)
            after = repeat["end"]
        chunk["calls"] = calls + chunk["calls"][after:]

    def named(self, chunk, programs, name):
        return [i for i, call in enumerate(chunk["calls"]) if programs[call["program"]]["name"].startswith(name)]

    def test_sound_as_it_is(self):
        document = copy.deepcopy(self.document)
        self.unroll(self.calls(document)[0])
        shutil.copytree(self.plan, "unrolled")
        mutate.write(document, pathlib.Path("unrolled"))
        run("mgc", "explain", "unrolled")

    def test_copied_in_before_it_is_copied_out(self):
        def change(chunk, programs):  # piece 2 goes to the buffer of piece 0 before that is copied out
            into, out = self.named(chunk, programs, "update.copy_in"), self.named(chunk, programs, "update.copy_out")
            chunk["calls"].insert(out[0], chunk["calls"].pop(into[2]))
        self.refuse(change, "copies in over bytes", "whose content was not copied out")

    def test_other_buffer(self):
        def change(chunk, programs):  # piece 1 goes to the buffer of piece 0
            into = self.named(chunk, programs, "update.copy_in")
            first, second = chunk["calls"][into[0]], chunk["calls"][into[1]]
            for i in range(1, len(second["segments"]), 2):
                second["segments"][i] = first["segments"][i]
        self.refuse(change, "copies in over bytes")

    def test_copied_out_before_it_is_updated(self):
        def change(chunk, programs):
            out = self.named(chunk, programs, "update.copy_out")
            chunk["calls"].insert(out[0] - 1, chunk["calls"].pop(out[0]))
        self.refuse(change, "which were not copied in from there and updated")

    def test_copied_out_to_another_place(self):
        def change(chunk, programs):
            out = self.named(chunk, programs, "update.copy_out")
            first, second = (chunk["calls"][i]["segments"] for i in out[:2])
            first[1], second[1] = second[1], first[1]
        self.refuse(change, "which were not copied in from there and updated")

    def test_not_copied_out(self):
        def change(chunk, programs):
            chunk["calls"].pop(self.named(chunk, programs, "update.copy_out")[-1])
        self.refuse(change, "ends without having copied out")

    def test_copied_in_twice(self):
        def change(chunk, programs):  # the last piece again, when all is done
            calls = chunk["calls"]
            again = [copy.deepcopy(calls[self.named(chunk, programs, name)[-1]]) for name in ("update.copy_in", "update.copy_out")]
            for call in again:
                call["instance"] += 1000
            calls += again
        self.refuse(change, "a second time, or before they were copied out")

    def test_gradient_of_another_piece(self):
        def change(chunk, programs):
            updates = self.named(chunk, programs, "update.0.0.0")
            first, second = (chunk["calls"][i]["segments"] for i in updates[:2])
            staged = {segment["offset"] for i in self.named(chunk, programs, "update.copy_in")
                      for segment in chunk["calls"][i]["segments"]}
            swapped = next(i for i, (a, b) in enumerate(zip(first, second)) if a != b and a["offset"] not in staged)
            first[swapped], second[swapped] = second[swapped], first[swapped]
        self.refuse(change, "binds elements", "expected the same")

    def test_states_in_two_calls(self):
        """An update of what two others update, of which each segment lies in two states."""
        def change(chunk, programs):
            calls = chunk["calls"]
            again = copy.deepcopy(calls[self.named(chunk, programs, "update.0.0.0")[0]])
            again["instance"] += 1000
            for segment in again["segments"]:
                segment["offset"] += 64
            calls.append(again)
        self.refuse(change, "update: the call of 'update.0.0.0")

    def test_segment_of_two_states(self):
        def change(chunk, programs):
            program = programs[chunk["calls"][self.named(chunk, programs, "update.0.0.0")[0]]["program"]]
            staged = {chunk["calls"][i]["segments"][1]["offset"] for i in self.named(chunk, programs, "update.copy_in")}
            update = chunk["calls"][self.named(chunk, programs, "update.0.0.0")[0]]
            first = min((segment["offset"], i) for i, segment in enumerate(update["segments"]) if segment["offset"] in staged)[1]
            program["segmentBytes"][first] *= 2
        self.refuse(change, "which hold more than one range of a state")

    def test_copies_of_parts(self):
        def change(chunk, programs):
            program = programs[chunk["calls"][self.named(chunk, programs, "update.copy_in")[0]]["program"]]
            program["instructions"][0]["bytes"] -= 64
        self.refuse(change, "copies a part of segment", "expected all of it")

    def test_copies_beside_kernels(self):
        def change(chunk, programs):
            copies = programs[chunk["calls"][self.named(chunk, programs, "update.copy_in")[0]]["program"]]
            segment = copies["instructions"][0]["operands"][1]
            size = copies["segmentBytes"][segment["segment"]]
            copies["instructions"].append({"op": "move", "kind": "fill", "bytes": size, "operands": [segment], "label": "more"})
        self.refuse(change, "has other instructions beside copies")

    def test_kernel_on_the_host(self):
        def change(chunk, programs):
            stage = self.document["plan"]["stages"][0]
            update = chunk["calls"][self.named(chunk, programs, "update.0.0.0")[0]]
            update["segments"][0] = {"slot": -1, "offset": stage["bytes"]}
        self.refuse(change, "is not inside the")

    def test_host_memory_on_cpu(self):
        document = copy.deepcopy(self.document)
        document["plan"]["target"] = "cpu"
        shutil.rmtree("edited", ignore_errors=True)
        shutil.copytree(self.plan, "edited")
        mutate.write(document, pathlib.Path("edited"))
        expect(1, "in a plan for CPUs, whose memory is the host's", "mgc", "explain", "edited")


class Options(unittest.TestCase):
    def test_refused(self):
        compiled = ["mgc", "compile", TINY_GPT, "-o", "never"]
        expect(1, ["--optimizer-cpu-offload with --target cpu", "possible:"], *compiled, OFFLOAD)
        gpu = [*compiled, "--target", "cuda:sm_90"]
        expect(1, ["--optimizer-offload-fraction without --optimizer-cpu-offload"], *gpu, "--optimizer-offload-fraction", 0.5)
        expect(1, ["--host-memory without --optimizer-cpu-offload"], *gpu, "--host-memory", "4GB")
        expect(1, ["is not above 0 and at most 1"], *gpu, OFFLOAD, "--optimizer-offload-fraction", 0)
        expect(1, ["--no-overlap-param-gather: an update in pieces leaves values in slices"], *gpu, OFFLOAD, "--dp", 2, "--zero", 1,
               "--no-overlap-param-gather")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
