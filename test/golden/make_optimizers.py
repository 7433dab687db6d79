#!/usr/bin/python3
"""Writes the references of training by other optimizers (docs/optimizers.md): weights and batches of a base model.

    make_optimizers.py [NAME ..]       writes NAME/expect.json and NAME/expect.safetensors

The model and its gradients are those of make_later_tokens.py and reference.py, which has the updates.
"""
import argparse

import reference
from make_later_tokens import Llama, losses_of

# By reference: model, base, word of --optimizer, and what the training of the base has otherwise.
REFERENCES = {
    "llama_sgd": (Llama, "llama", "sgd", {"name": "SGD", "momentum": 0.9}),
}


def write(name):
    model, base_name, word, optimizer = REFERENCES[name]
    base = reference.Base(base_name)
    base.expect["optimizer"] = optimizer | {key: base.expect["optimizer"][key] for key in ("weight_decay", "clip")}
    reference.write(name, base.start, base, {"base": base_name, "flags": ["--optimizer", word]}, losses_of(model, base.config, 0))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", metavar="NAME", nargs="*", help=", ".join(REFERENCES))
    for chosen in parser.parse_args().names or REFERENCES:
        write(chosen)
