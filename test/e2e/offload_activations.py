#!/usr/bin/python3
"""Activations on the host: python3 offload_activations.py BIN REPOSITORY, with the stand-ins of a GPU in LD_LIBRARY_PATH.

A training with it has the bits of one without, in all schedules, policies of recomputation and levels of ZeRO, and takes the
memory that docs/memory.md says. A plan whose copies are in another order, or that shares out memory in another way, is refused.
"""
import copy
import json
import os
import pathlib
import shutil
import sys
import unittest

import offload
import tool_runs
from offload import train
from tool_runs import GOLDEN, TINY_GPT, compile_plan, enter_folder, expect, run

sys.path.insert(0, str(tool_runs.ROOT / "test/mutation"))
import mutate
import samples

SWITCH = "--fine-grained-activation-offloading"
DENSE = "attn_norm,core_attn,attn_proj,mlp_norm,mlp"
EXPERTS = "attn_norm,core_attn,attn_proj,mlp_norm,expert_fc1,moe_act"
GPT = "--seq 16 --mbs 1 --target cuda:sm_90"
FULL = "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
# name: model, number of layers, flags, modules
LAYOUTS = {
    "one": ("gpt2", 6, "--gbs 2", DENSE),
    "bf16": ("llama", 6, "--gbs 2 --bf16", DENSE),
    "core": ("llama", 6, "--gbs 2", "core_attn"),
    "entering": ("llama", 6, "--gbs 2", "attn_norm"),
    "mlp": ("llama", 6, "--gbs 2 --activation-offload-fraction 0.5", "mlp"),
    "saved": ("llama", 6, "--gbs 2 --no-recompute --bf16", f"{DENSE},qkv_linear"),
    "selective": ("llama", 6, "--gbs 2 --recompute-granularity selective --recompute-modules mlp", DENSE),
    "full": ("gpt2", 6, f"--gbs 2 {FULL}", "attn_norm"),
    "block": ("gpt2", 6, "--gbs 2 --recompute-granularity full --recompute-method block --recompute-num-layers 2", DENSE),
    "pp": ("llama", 6, "--pp 2 --gbs 4 --bf16", DENSE),
    "gpipe": ("llama", 6, "--pp 2 --gbs 4 --schedule gpipe", "attn_norm,mlp"),
    "interleaved": ("gpt2", 8, "--pp 2 --vpp 2 --gbs 4", DENSE),
    "zb-h1": ("llama", 6, "--pp 2 --gbs 4 --schedule zb-h1", DENSE),
    "zb-v": ("llama", 8, "--pp 2 --vpp 2 --gbs 4 --schedule zb-v --bf16", DENSE),
    "dualpipev": ("llama", 8, "--pp 2 --vpp 2 --gbs 8 --schedule dualpipev", DENSE),
    "tp": ("llama", 6, "--tp 2 --gbs 2", DENSE),
    "cp": ("llama", 6, "--cp 2 --gbs 2", DENSE),
    "zero3": ("llama", 6, "--dp 2 --gbs 4 --zero 3 --overlap-param-gather --overlap-grad-reduce", DENSE),
    "parts": ("llama", 6, "--dp 2 --gbs 4 --overlap-grad-reduce --ddp-bucket-size 10000", DENSE),
    "both": ("llama", 6, "--pp 2 --dp 2 --gbs 8 --zero 1 --bf16 --optimizer-cpu-offload --optimizer-offload-fraction 0.5", DENSE),
    "experts": ("qwen3_moe", 4, "--dp 2 --ep 2 --gbs 4", EXPERTS),
    "exchanged": ("qwen3_moe", 4, "--dp 2 --ep 2 --gbs 4 --moe-token-dispatcher-type alltoall", EXPERTS),
    "latent": ("deepseek_v3", 4, "--pp 2 --gbs 4", f"{EXPERTS},mlp"),
    "encoder-decoder": ("t5", 3, "--gbs 2 --encoder-seq-length 16", DENSE),
    "encoder": ("bert", 4, "--gbs 2", DENSE),
    "frozen-halves": ("llama", 6, "--gbs 4 --schedule zb-h1 --freeze layers:2", "attn_proj"),
    "frozen-middle": ("llama", 6, "--gbs 4 --schedule zb-h1 --freeze layers:2-3", DENSE),
    "experts-halves": ("qwen3_moe_sparse2", 8, "--gbs 4 --schedule zb-h1", "mlp,moe_act,expert_fc1"),
    "frozen": ("llama", 6, "--gbs 2 --freeze embeddings,layers:0-1", DENSE),
}
LAYERS = {"gpt2": ["n_layer"], "t5": ["num_layers", "num_decoder_layers"]}


def setUpModule():
    enter_folder()


def model_of(name, layers):
    config = json.loads((GOLDEN / name / "config.json").read_text(encoding="utf-8"))
    config |= dict.fromkeys(LAYERS.get(name, ["num_hidden_layers"]), layers)
    config.pop("layer_types", None)
    path = pathlib.Path(f"{name}-{layers}.json")
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


def without(flags):
    """The flags of the same layout that keeps all on the device."""
    words = flags.split()
    of_host = ("--optimizer-offload-fraction", "--activation-offload-fraction")
    return " ".join(word for i, word in enumerate(words) if word != "--optimizer-cpu-offload" and not {word, words[i - 1] if i else ""} & set(of_host))


def plans(name):
    """The plan with activations on the host, and the one without."""
    model, layers, flags, modules = LAYOUTS[name]
    paths = [f"{name}.host", f"{name}.device"]
    for path, options in zip(paths, (f"{SWITCH} --offload-modules {modules} {flags}", without(flags))):
        if not pathlib.Path(path).exists():
            compile_plan(path, model_of(model, layers), GPT, options)
    return paths


def stages(plan):
    return json.loads(run("mgc", "explain", plan, "--json").stdout)["stages"]


class SameBits(unittest.TestCase):
    def test_layouts(self):
        for name in samples.sample(list(LAYOUTS), int(os.environ.get("MGC_TEST_SAMPLE", "1"))):
            with self.subTest(name):
                on_host, on_device = plans(name)
                self.assertTrue(all(stage["memory"]["hostActivations"] > 0 for stage in stages(on_host)))
                offload.assert_same_training(self, on_host, on_device)

    def test_evaluation(self):
        model = model_of("llama", 6)
        for path, flags in (("evaluated.host", f"{SWITCH} --offload-modules {DENSE}"), ("evaluated.device", "")):
            compile_plan(path, model, GPT, "--gbs 4 --evaluation", flags)
        found = [train(path, path + ".out", "--eval-interval", 2, "--eval-iters", 1) for path in ("evaluated.host", "evaluated.device")]
        self.assertEqual(found[0], found[1])


class Memory(unittest.TestCase):
    def test_bytes(self):
        """A slot of the host has what leaves the device, of all layers but the last; what enters the first layer is an input."""
        for name in ("one", "bf16", "core", "entering", "full", "tp"):
            with self.subTest(name):
                host, device = (stages(plan)[0] for plan in plans(name))
                moved = host["memory"]["hostActivations"]
                self.assertEqual(host["memory"]["activations"], device["memory"]["activations"] - moved)
                self.assertEqual(host["host_bytes"], moved)
                buffers = 3 if "attn_norm" in LAYOUTS[name][3] else 2
                self.assertEqual(host["memory"]["transient"], moved // 5 * buffers)  # five layers alike

    def test_entering_values_of_full_recomputation(self):
        """h values of 4 bytes for each of 16 tokens, in 5 layers."""
        config = json.loads((GOLDEN / "gpt2/config.json").read_text(encoding="utf-8"))
        self.assertEqual(stages(plans("full")[0])[0]["host_bytes"], 5 * 16 * config["n_embd"] * 4)

    def test_fraction(self):
        """The first ones of the layers but the last, as many as Megatron-LM keeps: 5 - floor(5 (1 - f))."""
        model = model_of("llama", 6)
        found = []
        for fraction in (1, 0.75, 0.5, 0.2, 0.1):
            compile_plan("fraction", model, GPT, f"--gbs 2 {SWITCH} --offload-modules mlp --activation-offload-fraction {fraction}")
            found.append(stages("fraction")[0]["host_bytes"])
        self.assertEqual([bytes * 5 // found[0] for bytes in found], [5, 4, 3, 1, 1])
        document = mutate.read(pathlib.Path("fraction"))["plan"]
        copies = [call["instance"] for chunk in document["stages"][0]["chunks"] for call in chunk["calls"]
                  if document["programs"][call["program"]]["name"] == "activations.copy_out"]
        self.assertEqual(copies, [0])
        self.assertIn("  stage 0: layer 0: standard, values on the host\n  stage 0: layer 1 to 5: standard\n", run("mgc", "explain", "fraction").stdout)

    def test_more_microbatches_in_flight(self):
        """The device keeps of a stage what it keeps of one microbatch, and the host has the rest in slots of its own."""
        first, last = stages(plans("pp")[0])
        entering = 16 * json.loads((GOLDEN / "llama/config.json").read_text(encoding="utf-8"))["hidden_size"] * 2  # bytes that enter the first layer: an input
        self.assertEqual(first["memory"]["hostActivations"], 2 * (last["memory"]["hostActivations"] + entering))

    def test_budget(self):
        on_host, _ = plans("both")
        needed = max(stage["host_bytes"] for stage in stages(on_host))
        model, layers, flags, modules = LAYOUTS["both"]
        command = ["mgc", "compile", model_of(model, layers), *GPT.split(), *flags.split(), SWITCH, "--offload-modules", modules]
        run(*command, "--host-memory", needed, "-o", "fits")
        expect(1, [f"takes {needed} bytes of the host, 1 more than the {needed - 1} of --host-memory {needed - 1}", f"--host-memory {needed}",
                   "fewer --offload-modules"], *command, "--host-memory", needed - 1, "-o", "not")


class Measured(unittest.TestCase):
    def test_profile(self):
        """Copies are rows of the profile, and a part of the measured step; the prediction has them too."""
        on_host, _ = plans("pp")
        run("mgrun", on_host, *offload.TRAIN, "--profile-json", "profile.json")
        profile = json.loads(pathlib.Path("profile.json").read_text(encoding="utf-8"))
        self.assertIn("activations.copy_out/value0", json.dumps(profile))
        self.assertAlmostEqual(sum(profile["parts"].values()) / profile["mean_step_seconds"], 1, places=3)
        self.assertIn("copies between host and device", run("mgc", "explain", on_host).stdout)


class RefusedPlans(unittest.TestCase):
    """Case 17 of the acceptance for activations."""

    def setUp(self):
        self.plan = plans("pp")[0]
        self.document = mutate.read(pathlib.Path(self.plan))

    def refuse(self, task, change, *said):
        document = copy.deepcopy(self.document)
        stage = document["plan"]["stages"][0]
        chunk = next(chunk for chunk in stage["chunks"] if chunk["task"] == task)
        offload.Refused.unroll(chunk)
        change(chunk["calls"], document["plan"]["programs"], stage)
        shutil.rmtree("edited", ignore_errors=True)
        shutil.copytree(self.plan, "edited")
        mutate.write(document, pathlib.Path("edited"))
        expect(1, said, "mgc", "explain", "edited")

    @staticmethod
    def copies(calls, programs):
        return [i for i, call in enumerate(calls) if programs[call["program"]]["name"].startswith("activations.copy_")]

    def test_sound_as_it_is(self):
        self.refuse_nothing = copy.deepcopy(self.document)
        for stage in self.refuse_nothing["plan"]["stages"]:
            for chunk in stage["chunks"]:
                offload.Refused.unroll(chunk)
        shutil.copytree(self.plan, "unrolled")
        mutate.write(self.refuse_nothing, pathlib.Path("unrolled"))
        run("mgc", "explain", "unrolled")

    def test_copied_out_before_it_is_made(self):
        def change(calls, programs, stage):
            first = self.copies(calls, programs)[0]
            calls.insert(first - 1, calls.pop(first))
        self.refuse("forward", change, "of the transient memory, which no call of the run before it has written")

    def test_copied_in_before_it_is_copied_out(self):
        """The forward does not copy one out, so backward reads what an earlier microbatch left on the host."""
        def change(calls, programs, stage):
            calls.pop(self.copies(calls, programs)[0])
        self.refuse("forward", change, "of the transient memory")

    def test_read_before_it_is_copied_in(self):
        def change(calls, programs, stage):
            last = self.copies(calls, programs)[-1]
            calls.append(calls.pop(last))
        self.refuse("backward", change, "of the transient memory")

    def test_copied_over_what_is_read_later(self):
        """Two layers ahead, in buffers of which there is none for it."""
        def change(calls, programs, stage):
            first, second = self.copies(calls, programs)[:2]
            calls[second]["segments"] = [dict(segment) for segment in calls[second]["segments"]]
            for i in range(1, len(calls[second]["segments"]), 2):
                calls[second]["segments"][i] = dict(calls[first]["segments"][i])
            calls.insert(first + 1, calls.pop(second))
        self.refuse("backward", change, "where call", "has written what no call has read")

    def test_of_another_layer(self):
        def change(calls, programs, stage):
            first, second = self.copies(calls, programs)[:2]
            for i in range(0, len(calls[second]["segments"]), 2):
                calls[second]["segments"][i] = dict(calls[first]["segments"][i])
        self.refuse("backward", change, "to the host that no step reads")

    def test_slot_of_another_microbatch(self):
        def change(calls, programs, stage):
            ring = next(ring for ring in stage["rings"] if ring["name"] == "offloaded.0")
            for turn in ring["turns"]:
                turn["slots"] -= 1
        self.refuse("forward", change, "which do not hold them for this microbatch")

    def test_no_segments(self):
        def change(calls, programs, stage):
            programs[calls[0]["program"]]["segments"] = []
        self.refuse("forward", change, "found 0 segments and", "expected as many")

    def test_kernel_on_the_host(self):
        def change(calls, programs, stage):
            copied = calls[self.copies(calls, programs)[0]]
            reader = next(call for call in calls if call["program"] != copied["program"] and any(s["slot"] >= 0 for s in call["segments"]))
            number = next(i for i, segment in enumerate(reader["segments"]) if segment["slot"] >= 0)
            reader["segments"][number] = dict(copied["segments"][1])
        self.refuse("forward", change, "which is on the host; expected memory of the device")


class Options(unittest.TestCase):
    def test_refused(self):
        compiled = ["mgc", "compile", TINY_GPT, "-o", "never"]
        expect(1, [f"{SWITCH} with --target cpu", "possible:"], *compiled, SWITCH, "--offload-modules", "core_attn")
        gpu = [*compiled, "--target", "cuda:sm_90"]
        expect(1, [f"{SWITCH} without --offload-modules", "possible with this model: attn_norm, qkv_linear, core_attn"], *gpu, SWITCH)
        expect(1, [f"--offload-modules without {SWITCH}: nothing is on the host"], *gpu, "--offload-modules", "core_attn")
        expect(1, [f"--activation-offload-fraction without {SWITCH}"], *gpu, "--activation-offload-fraction", 0.5)
        on = [*gpu, SWITCH, "--offload-modules"]
        expect(1, ["--offload-modules moe_act: the model has no such layers", "possible with this model:"], *on, "moe_act")
        expect(1, ["--offload-modules fused_group_mlp is not known"], *on, "fused_group_mlp")
        expect(1, ["--activation-offload-fraction 0 is not above 0 and at most 1"], *on, "core_attn", "--activation-offload-fraction", 0)
        expect(1, [f"{SWITCH} with --memory"], *on, "core_attn", "--memory", "1GB")
        expect(1, [f"{SWITCH} with units of several layers"], *on, "core_attn", *FULL.split()[:-1], 2)
        self.assertIn("--offload-modules qkv_linear does nothing here", compile_plan("noted", TINY_GPT, GPT, "--gbs 2", SWITCH,
                                                                                   "--offload-modules qkv_linear,core_attn"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
