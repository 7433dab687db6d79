#!/usr/bin/python3
"""Writes the references of training with frozen parameters (docs/frozen-parameters.md): weights and batches of a base model, of
which some tensors keep their values.

    make_frozen.py [NAME ..]       writes NAME/expect.json and NAME/expect.safetensors

The models, their gradients and AdamW are those of make_later_tokens.py and reference.py.
"""
import argparse
import fnmatch

import reference
from make_later_tokens import DeepseekV3, Llama, losses_of

# By reference: model, base, words of --freeze, and patterns of the tensors that these freeze.
REFERENCES = {
    "llama_frozen": (Llama, "llama", ["embeddings", "layers:0-1", "model.layers.2.mlp.*"],
                     ["model.embed_tokens.*", "model.layers.[01].*", "model.layers.2.mlp.*"]),
    "deepseek_v3_frozen": (DeepseekV3, "deepseek_v3", ["norm", "layers:1", "model.layers.2.mlp.experts.*"],
                           ["model.norm.*", "model.layers.1.*", "model.layers.2.mlp.experts.*"]),
}


def write(name):
    model, base_name, words, patterns = REFERENCES[name]
    base = reference.Base(base_name)
    frozen = sorted(tensor for tensor in base.start if any(fnmatch.fnmatchcase(tensor, pattern) for pattern in patterns))
    untrained = [tensor for tensor in base.expect["untrained"] if tensor not in frozen]
    reference.write(name, base.start, base,
                    {"base": base_name, "flags": ["--freeze", ",".join(words)], "untrained": untrained, "frozen": frozen},
                    losses_of(model, base.config, 0))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", metavar="NAME", nargs="*", help=", ".join(REFERENCES))
    for chosen in parser.parse_args().names or REFERENCES:
        write(chosen)
