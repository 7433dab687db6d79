#!/usr/bin/env python3
"""tensor_names ROOT: no code of runtime/ has a word that stands in the names of tensors of a model family alone.

The words come from the families' own tables: "transformer.h.{}.attn.c_attn.weight" has transformer, h, attn, c_attn, weight.
"""
import pathlib
import re
import sys

# Words of English or of the code itself.
COMMON = {"attention", "attn", "bias", "blocks", "decoder", "dense", "encoder", "experts", "h", "head", "layers", "mlp", "model", "norm",
          "router", "shared", "sinks", "transformer", "weight"}
TENSOR = re.compile(r'"((?:transformer|model|lm_head)\.[\w.{}*]+)"')
COMMENT = re.compile(r"//.*")


def words_of(root):
    words = set()
    for path in sorted((root / "model/families").glob("*.cpp")):
        for name in TENSOR.findall(path.read_text()):
            words |= {word for word in name.split(".") if word not in ("", "{}", "*")}
    return words - COMMON


def main(root):
    words = words_of(root)
    assert {"wte", "lm_head", "embed_tokens", "masked_bias", "inv_freq", "c_attn"} <= words, words
    pattern = re.compile(r'\b(?:%s)\b|"(?:transformer|model)\."' % "|".join(sorted(words)))
    assert pattern.search('name.ends_with("wte.weight")') and pattern.search('{"model."}')
    found = [f"{path.relative_to(root)}:{number}: {line.strip()}"
             for path in sorted((root / "runtime").rglob("*")) if path.suffix in (".h", ".cpp", ".cu", ".cuh")
             for number, line in enumerate(path.read_text().splitlines(), 1) if pattern.search(COMMENT.sub("", line))]
    if found:
        print("runtime/ names tensors of model families; expected them in the plan (Parameter::aliases, Plan::ignoredTensors)",
              *found, sep="\n  ")
    return bool(found)


sys.exit(main(pathlib.Path(sys.argv[1])))
