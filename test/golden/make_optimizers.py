#!/usr/bin/python3
"""Writes the references of training by other optimizers (docs/optimizers.md): weights and batches of a base model.

    make_optimizers.py [NAME ..]       writes NAME/expect.json and NAME/expect.safetensors

The model and its gradients are those of make_later_tokens.py and reference.py, which has the updates.
"""
import argparse

import reference
from make_later_tokens import Llama, losses_of

# Rates of Lion. An update moves an element by the whole rate, whatever the size of its gradient. Where the mix of moment and gradient is
# nearly 0, rounding may change its sign, and the element is off by 2 rates. reference.write refuses such a reference. Four steps have
# 200,000 signs, of which a handful are too near to 0 by most rates. The rate of a step changes the mixes of the next one: these rates
# were found step by step, counting up from 0.0016, 0.0012 and 0.0008 until no mix of the next step, save exact zeros, was within 5
# spreads of 0. So tolerances are those of any model, about 2e-6, and one wrong sign is 0.0004 or more.
LION_RATES = [0.00161, 0.00144, 0.00083, 0.0004]

# By reference: model, base, word of --optimizer, what the optimizer has otherwise than the base's, and its rates, or those of the base.
REFERENCES = {
    "llama_sgd": (Llama, "llama", "sgd", {"name": "SGD", "momentum": 0.9}, None),
    "llama_lion": (Llama, "llama", "lion", {"name": "Lion", "betas": [0.9, 0.99]}, LION_RATES),
}


def write(name):
    model, base_name, word, optimizer, rates = REFERENCES[name]
    base = reference.Base(base_name)
    base.expect["optimizer"] = optimizer | {key: base.expect["optimizer"][key] for key in ("weight_decay", "clip")}
    base.expect["lr"] = rates or base.expect["lr"]
    reference.write(name, base.start, base, {"base": base_name, "flags": ["--optimizer", word]}, losses_of(model, base.config, 0))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", metavar="NAME", nargs="*", help=", ".join(REFERENCES))
    for chosen in parser.parse_args().names or REFERENCES:
        write(chosen)
