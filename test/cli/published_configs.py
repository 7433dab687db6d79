#!/usr/bin/python3
"""Folders as Hugging Face publishes them, read as transformers reads them: python3 published_configs.py BIN REPOSITORY

Notes of mgc about fields, and heads that the weights untie.
"""
import json
import sys
import unittest
from pathlib import Path

import numpy

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))
import tensor_files  # noqa: E402
from tool_runs import GOLDEN, compile_plan, enter_folder, expect, read, run, write  # noqa: E402

NOT_TIED = "the head is not tied, although the config.json ties it"
TRAIN = ("--train-iters", "1", "--clip-grad", "0", "--lr", "0")


def setUpModule():
    enter_folder()


def folder(name, model, edit=None, weights=None):
    """A copy of a golden model's config.json, edited, and these weights."""
    config = json.loads(read(GOLDEN / model / "config.json")) | (edit or {})
    write(f"{name}/config.json", json.dumps(config))
    if weights:
        tensor_files.save(f"{name}/model.safetensors", weights)
    return name


def weights_of(model):
    return tensor_files.load(GOLDEN / model / "model.safetensors")


def own_head(weights, table):
    return weights | {"lm_head.weight": numpy.ascontiguousarray(weights[table][::-1])}


class Heads(unittest.TestCase):
    def check_own(self, name, model, table, flags, edit=None):
        weights = own_head(weights_of(model), table)
        said = compile_plan(f"{name}-plan", folder(name, model, edit, weights), flags)
        self.assertIn(NOT_TIED, said)
        run("mgrun", f"{name}-plan", "--data", GOLDEN / model / "batch.safetensors", "--load", name, "--save", f"{name}-saved", *TRAIN)
        saved = tensor_files.load(f"{name}-saved/model.safetensors")
        for tensor in ("lm_head.weight", table):
            numpy.testing.assert_array_equal(saved[tensor], weights[tensor])
        # The folder that was saved is the same model, for mgc and mgrun.
        compile_plan(f"{name}-again", f"{name}-saved", flags)
        run("mgrun", f"{name}-again", "--data", GOLDEN / model / "batch.safetensors", "--load", f"{name}-saved", *TRAIN)

    def test_t5_as_transformers_5_saves_the_second_version(self):
        self.check_own("t5", "t5", "shared.weight", "--seq 12 --gbs 8 --encoder-seq-length 16", {"scale_decoder_outputs": False})

    def test_any_family(self):
        self.check_own("llama", "llama_tied_rope3", "model.embed_tokens.weight", "--seq 16 --gbs 8")

    def test_weights_without_a_head_or_with_a_copy_are_tied(self):
        weights = weights_of("llama_tied_rope3")
        for name, extra in (("none", {}), ("copy", {"lm_head.weight": weights["model.embed_tokens.weight"]})):
            said = compile_plan(f"{name}-plan", folder(name, "llama_tied_rope3", {}, weights | extra), "--seq 16 --gbs 8")
            self.assertNotIn(NOT_TIED, said)
            run("mgrun", f"{name}-plan", "--data", GOLDEN / "llama_tied_rope3/batch.safetensors", "--load", name, *TRAIN)

    def test_an_index_of_two_files(self):
        weights = own_head(weights_of("llama_tied_rope3"), "model.embed_tokens.weight")
        folder("shards", "llama_tied_rope3")
        files = {name: "a.safetensors" if name.startswith("lm_head") else "b.safetensors" for name in weights}
        for file in sorted(set(files.values())):
            tensor_files.save(f"shards/{file}", {name: weights[name] for name in weights if files[name] == file})
        write("shards/model.safetensors.index.json", json.dumps({"metadata": {}, "weight_map": files}))
        self.assertIn(NOT_TIED, compile_plan("shards-plan", "shards", "--seq 16 --gbs 8"))

    def test_the_config_alone_and_weights_that_cannot_be_read(self):
        folder("alone", "llama_tied_rope3", {}, own_head(weights_of("llama_tied_rope3"), "model.embed_tokens.weight"))
        self.assertNotIn(NOT_TIED, compile_plan("alone-plan", "alone/config.json", "--seq 16 --gbs 8"))
        write("alone/model.safetensors", "version https://git-lfs.github.com/spec/v1\n")
        self.assertIn("the weights cannot tell", compile_plan("alone-plan", "alone", "--seq 16 --gbs 8", "--force"))


class Notes(unittest.TestCase):
    def test_fields_and_defaults_are_named(self):
        folder("notes", "llama", {"max_sequence_length": 64, "num_beams": 4, "max_positon_embeddings": 64})
        config = json.loads(read("notes/config.json"))
        del config["max_position_embeddings"]
        write("notes/config.json", json.dumps(config | {"scale": float("inf")}))
        said = compile_plan("notes-plan", "notes", "--seq 16 --gbs 8").splitlines()
        self.assertIn("mgc: notes/config.json: ignored, as LlamaForCausalLM of transformers ignores them: max_positon_embeddings "
                      "(did you mean max_position_embeddings?), max_sequence_length, scale", said)
        self.assertIn("mgc: notes/config.json: missing, so the defaults of LlamaForCausalLM hold: max_position_embeddings = 2048", said)
        # A plan whose config.json has Infinity is loaded, trained and saved.
        run("mgrun", "notes-plan", "--mock-data", "--save", "notes-saved", *TRAIN)
        self.assertEqual(json.loads(read("notes-saved/config.json"))["scale"], float("inf"))

    def test_quantized_weights(self):
        folder("quantized", "llama", {"quantization_config": {"quant_method": "fp8"}})
        expect(1, ["quantization_config", "model.dequantize()", "remove the field"], "mgc", "compile", "quantized",
               "--seq", 16, "-o", "quantized-plan")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
