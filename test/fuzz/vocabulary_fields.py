#!/usr/bin/env python3
# Every field of the vocabulary of models (docs/model-vocabulary.md), as `mgc options --schema` lists them: a model with
# each value or two of its range, models with two of them, and the page's example. Each trains on tp 2, pp 2 as on one
# rank, or the reader of the model refuses it by the name of a field.
#
#   test/fuzz/vocabulary_fields.py --bin build/release/bin --jobs 2                    the full run: all fields, 300 pairs
#   test/fuzz/vocabulary_fields.py --bin build/release/bin --only ^encoder.embedding   fields whose path has this pattern
#
# Equal means what it does in random_layouts.py; in a model that amplifies rounding, what one rank's weights, moved by up
# to a unit of their last place, make of it. A layout that the sizes of a model forbid (one head on tp 2) must be
# refused with another that works, which then equals one rank.
import argparse
import collections
import concurrent.futures
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

import random_layouts
import samples  # random_layouts adds test/e2e to the path
from harness import differences

PAIRS = 300
# Messages of the compiler's own checks, which no config.json may lead to.
INTERNAL = ("does not verify", "cannot be proved", "Assertion", "error: 'mg.", "Stack dump", "mgc has a bug")
NEW = object()  # the value of a part that is an object: what PARTS has

RMS = {"kind": "rms"}
ATTENTION = {"heads": 4, "groups": 2, "head_dim": 8}
LAYER = {"attention_branch": {"before": RMS}, "mlp_branch": {"before": RMS}, "attention": ATTENTION, "mlp": {"ffn": 16}}
DECODER = {"vocabulary": 40, "hidden": 16, "positions": 64, "layer_count": 2, "layer": LAYER, "final_norm": RMS,
           "initializer_range": 0.2}
BOTH_WAYS = LAYER | {"attention": ATTENTION | {"causal": False}}
LATENT = {"heads": 4, "groups": 4, "head_dim": 8, "rope": {}, "latent": {"key_rank": 6, "rotary_dim": 4, "value_dim": 8}}
BASES = {
    "decoder": DECODER,
    "experts": DECODER | {"layer": LAYER | {"mlp": {"ffn": 8, "gated": True}, "experts": {"count": 4, "chosen": 2}}},
    "latent": DECODER | {"layer": LAYER | {"attention": LATENT}},
    "masked": DECODER | {"objective": "masked", "layer": BOTH_WAYS},
    "cross": DECODER | {"layer": LAYER | {"cross": ATTENTION | {"causal": False}, "cross_branch": {"before": RMS}},
                        "encoder": {"layer": BOTH_WAYS, "layer_count": 2, "final_norm": RMS}},
    "images": DECODER | {"encoder": {"layer": BOTH_WAYS, "layer_count": 2, "final_norm": RMS, "hidden": 12,
                                     "patches": {"channels": 1, "size": 2, "rows": 2, "columns": 2},
                                     "projector": {"ffn": 8}, "image_tokens": {"token": 3}}},
}
# The sizes that an optional part needs; and other fields that a part, a field or a word needs, by their paths from it.
PARTS = {
    "latent": LATENT["latent"],
    "experts": BASES["experts"]["layer"]["experts"],
    "shared": {"ffn": 12},
    "projector": {"ffn": 8},
    "cross": ATTENTION | {"causal": False},
    "encoder": BASES["cross"]["encoder"],
    "patches": BASES["images"]["encoder"]["patches"],
}
SCALED = {"../original_positions": 8, "../factor": 2.0}
LONG = {"../kind": "longrope", "../short_factors": [1.5] * 4, "../long_factors": [2.5] * 4, **SCALED}
BESIDE = {
    "latent": {"../groups": 4, "../rope": {}},
    "experts": {"../mlp/gated": True},
    "limit": {"../gated": True},
    "up_plus_one": {"../gated": True},
    "short_factors": LONG,
    "long_factors": LONG,
    "query_growth": {"../scaling/original_positions": 4},
    "all_heads": {"../norm/kind": "rms"},
    **dict.fromkeys(("dynamic", "llama3", "yarn"), SCALED),
    **dict.fromkeys(("longrope", "su"), {name: value for name, value in LONG.items() if name != "../kind"}),
}


def fields_of(schema, path=()):
    """(path, schema) of each field, a part before its fields."""
    for key, field in schema["properties"].items():
        if key in ("layers", "tensors"):  # how fields are written, none of their own
            continue
        yield (*path, key), field
        if "properties" in field:
            yield from fields_of(field, (*path, key))


def values_of(field):
    """A few of the values that the schema allows."""
    kinds = field["type"] if isinstance(field["type"], list) else [field["type"]]
    if "object" in kinds:
        return [NEW, None] if "null" in kinds else []
    if "boolean" in kinds:
        found = [True, False]
    elif "enum" in field:
        found = field["enum"]
    elif "array" in kinds:
        found = [[max(0.5, field["items"]["minimum"])] * 4]  # heads, and pairs of a head
    else:
        tried = (field["minimum"], 2, 8) if "integer" in kinds else (field["minimum"], 0.5, 1.25)
        found = sorted({value for value in tried if field["minimum"] <= value <= field["maximum"] and value > -1e9})
    return found + [None] * ("null" in kinds)


def put(model, path, value, with_needed=True):
    """The value at the path; it, and optional parts on the way, have what they need."""
    at = model
    for i, key in enumerate(path):
        is_value = i + 1 == len(path) and value is not NEW
        if is_value or at.get(key) is None:
            word = value if is_value and isinstance(value, str) else None
            for name, needed in (BESIDE.get(key, {}) | BESIDE.get(word, {})).items() if with_needed else ():
                put(model, [*path[:i], *name.split("/")[1:]], needed, with_needed=False)
            at[key] = value if is_value else json.loads(json.dumps(PARTS.get(key, {})))
        at = at[key]


def has_meaning(path, base):
    if path[0] == "encoder":
        return base == "images" or (base == "cross" and path[1:2] not in (("patches",), ("projector",), ("image_tokens",), ("hidden",)))
    if path[:2] in (("layer", "cross"), ("layer", "cross_branch")) or path[0] in ("start_token", "padding_of_labels"):
        return base == "cross"
    return True


def bases_of(path):
    """The models in which a field alone is tried."""
    found = [base for base in ("decoder", "cross", "images") if has_meaning(path, base)]
    return found[:1] if found[0] == "decoder" else found


def described(changes):
    return ", ".join(f"{'.'.join(path)} = {'an object' if value is NEW else json.dumps(value)}" for path, value in changes)


def cases_of(schema, seed):
    """(base, changes): a change for each value of each field, and pairs of changes."""
    changes = [(path, value) for path, field in fields_of(schema) for value in values_of(field)]
    single = [(base, [change]) for change in changes for base in bases_of(change[0])]
    r, pairs = random.Random(seed), []
    while len(pairs) < PAIRS:
        base, both = r.choice(list(BASES)), r.sample(changes, 2)
        if both[0][0] != both[1][0] and all(has_meaning(path, base) for path, _ in both):
            pairs.append((base, both))
    return single, pairs


def model_of(base, changes):
    model = json.loads(json.dumps(BASES[base]))  # bases share parts, a copy does not
    for path, value in sorted(changes, key=lambda change: len(change[0])):
        put(model, path, value)
    return {"model_type": "mgc", "mgc": {"model": model}}


def names_a_field(message, changes):
    """Whether the reader refuses the file by the name of what was changed, or of what holds it."""
    said = "\n".join(line for line in message.splitlines() if "config.json" in line or line.startswith("  "))
    return any(key in said for path, _ in changes for key in path if key != "layer")


def beyond_rounding(binaries, where, one, many):
    """Differences that rounding of the one rank's weights does not explain: two fields may make a model that amplifies it."""
    runs = [random_layouts.train(binaries, where, "one", [], "--load", moved)
            for moved in random_layouts.moved_weights(binaries, where, "one", 2.0**-23)]
    exact = random_layouts.results(one)
    return ([message for _, message in runs if message]
            or random_layouts.beyond_draws(one, many, [random_layouts.squares(random_layouts.results(run), exact) for run, _ in runs]))


def has_no_epsilon(changes):
    """Whether rows of zeros, such as those of a sample without an image, have 0 / 0 as their norms."""
    return any(path[-1] == "epsilon" and value == 0 for path, value in changes)


def end_of(message):
    """Without the table of the layout."""
    return "\n  ".join(line for line in message.splitlines() if line and not line.startswith(("--", "microbatches")))


def judge(binaries, base, changes):
    """(verdict, what is wrong)."""
    where = pathlib.Path(tempfile.mkdtemp(prefix="mgc-fields-"))
    label = f"{base}: {described(changes)}"
    length = 24 if base == "images" else 8  # an image has 16 patches, and tokens stand behind it
    sizes = [f"--seq={length}", "--gbs=4", "--mbs=2"] + ["--encoder-seq-length=8"] * (base == "cross")
    try:
        (where / "config.json").write_text(json.dumps(model_of(base, changes)))
        one, message = random_layouts.train(binaries, where, "one", [*sizes, "--tp=1", "--pp=1"])
        if one is None and "not finite" in message and has_no_epsilon(changes):
            return "not finite", ""
        if one is None or (one == "refused" and (any(text in message for text in INTERNAL) or not names_a_field(message, changes))):
            return "wrong", f"{label}\n  one rank: {end_of(message)}"
        if one == "refused":
            return "refused", ""
        many, message = random_layouts.train(binaries, where, "many", [*sizes, "--tp=2", "--pp=2"])
        verdict = "equal"
        if many == "refused" and (works := re.search(r"a layout that works: (.*)", message)):
            verdict = "another layout"
            many, message = random_layouts.train(binaries, where, "other", works[1].split())
        if many in (None, "refused"):
            return "wrong", f"{label}\n  tp 2, pp 2: {end_of(message)}"
        found = differences(one, many) and beyond_rounding(binaries, where, one, many)
        return (verdict, "") if not found else ("wrong", label + "".join(f"\n  {line}" for line in found[:4]))
    finally:
        shutil.rmtree(where, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default="build/release/bin")
    parser.add_argument("--only", default="", help="fields whose path has this pattern")
    parser.add_argument("--seed", type=int, default=samples.seed(), help="of the pairs")
    parser.add_argument("--sample", type=int, default=1, help="one of so many cases")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    binaries = options.bin.resolve()
    schema, page = (subprocess.run([binaries / "mgc", "options", kind], stdout=subprocess.PIPE, text=True, check=True).stdout
                    for kind in ("--schema", "--model"))
    example = re.search(r"\nA whole model.*\n\n((?:    .*\n)+)", page)
    single, pairs = cases_of(json.loads(schema)["properties"]["mgc"]["properties"]["model"], options.seed)
    cases = [case for case in single + pairs if any(re.search(options.only, ".".join(path)) for path, _ in case[1])]
    BASES["page"] = json.loads(example[1])["mgc"]["model"]
    cases = [("page", []), *samples.sample(cases, options.sample)]
    counts = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        random_layouts.count(pool.map(lambda case: judge(binaries, *case), cases), counts, "models")
    print(f"{len(cases)} models: {counts['equal']} equal one rank on tp 2, pp 2, {counts['another layout']} on another layout, "
          f"{counts['refused']} are refused by name, {counts['not finite']} divide 0 by 0, {counts['wrong']} wrong")
    sys.exit(1 if counts["wrong"] or not counts["equal"] else 0)


if __name__ == "__main__":
    main()
