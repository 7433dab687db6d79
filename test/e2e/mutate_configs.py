#!/usr/bin/env python3
"""Changes the fields of every tiny model's config.json one at a time. For each change, the program that mgc imports must be
another, or mgc must refuse it and name the field, or the field has no effect and that is said somewhere: the frontend ignores
it whatever it holds (the lists in model/families), or zoo/without_effect.py has the reason. In no case may a field be
passed over that changes what transformers' own class computes.

    test/e2e/mutate_configs.py --bin build/release/bin                  all of zoo/mutations.json
    test/e2e/mutate_configs.py --bin build/release/bin --sample 200     some, as scripts/test does
    test/e2e/mutate_configs.py --bin build/release/bin --model llama --field head_dim
    test/e2e/mutate_configs.py --regenerate [--model gemma2 ..]         zoo/mutations.json, by transformers

A change whose field is (absent) must also give the program of the value that the class then takes. Only --regenerate needs
torch and transformers, here or in build/peers (test/bench/setup-peers).
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import zoo
from zoo.without_effect import OTHER_DEFAULTS, SPELLINGS, family_of, reason_of

DATA = pathlib.Path(__file__).resolve().parent / "zoo/mutations.json"
ABSENT, OTHER = "(absent)", "other"
CRASHED = "mgc ends"
NONSENSE = {"no such value": 1}  # a value that only a field that nobody reads may hold


# --- mgc -------------------------------------------------------------------------------------------------------------

class Importer:
    """Configurations as programs: text, or what mgc says instead."""

    def __init__(self, binaries, folder):
        self.mgc, self.folder = os.path.join(os.path.abspath(binaries), "mgc"), folder

    def program(self, fields):
        """(program, nothing) or (nothing, message)."""
        with tempfile.NamedTemporaryFile("w", suffix=".json", dir=self.folder, encoding="utf-8") as file:
            json.dump(fields, file)
            file.flush()
            command = [self.mgc, "compile", file.name, "--seq", "16", "--gbs", "8", "--compile-to", "import"]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode == 0:
            return without_config(done.stdout), None
        message = done.stderr.replace(file.name, "config.json")
        if done.returncode != 1:
            return None, f"{CRASHED} with {done.returncode}"
        return None, message[message.rfind("\nmgc: ") + 1 :]


def without_config(program):
    """Without the text of the config.json, which a program keeps for what it saves."""
    text, found = re.subn(r'^ *config: "[^"]*"$', "", program, flags=re.M)
    if found != 1:
        raise SystemExit(f"a program of a config.json has its text {found} times; expected once, as config: \"..\"")
    return text


# --- One change ------------------------------------------------------------------------------------------------------

def changed(fields, path, value):
    fields = json.loads(json.dumps(fields))
    *outer, last = path.split(".")
    inner = fields
    for name in outer:
        inner = inner[name]
    if value == ABSENT:
        inner.pop(last, None)
    else:
        inner[last] = value
    return fields


def names_field(message, config, path):
    """The field, its other spelling, one that holds it, or one in it."""
    names = [name for name in path.split(".") for name in (name, *SPELLINGS.get(name, ()))]
    inside = config.get(path)
    names += inside if isinstance(inside, dict) else []
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message) for name in names)


def is_ignored(importer, fields, path):
    """Nobody reads the field: it may hold anything."""
    program, _ = importer.program(changed(fields, path, NONSENSE))
    return program is not None


def judge(importer, model, record, before, path, value, effect, *default):
    """(verdict, what is wrong or nothing)."""
    program, message = importer.program(changed(record["config"], path, value))
    if program is None:
        named = not message.startswith(CRASHED) and names_field(message, record["config"], path)
        return "refused", None if named else f"is refused, but not by its name: {message.strip()}"
    if default and (family_of(model), path) in OTHER_DEFAULTS:
        return "absent", None
    if default:  # the value that transformers assumes for an absent field
        explicit, _ = importer.program(changed(record["config"], path, default[0]))
        if explicit not in (None, program) and (effect == OTHER or program != before):
            return "absent", f"is read as another value than transformers', which is {json.dumps(default[0])}"
    if program != before:
        return "changed", None
    if effect == OTHER:
        return "ignored", "has no effect, but changes what transformers computes"
    if value in (None, ABSENT):  # transformers finds its default too, or reads no such file
        return "absent", None
    if is_ignored(importer, record["config"], path):
        return "ignored", None
    return "without effect", None if reason_of(model, path) else f"is read and has no effect (transformers: {effect}), and " \
        "zoo/without_effect.py has no reason"


def run(options):
    with open(DATA, encoding="utf-8") as file:
        data = json.load(file)
    chosen = {tiny.name for tiny in zoo.select(options.model)}
    with (tempfile.TemporaryDirectory(prefix="mgc-mutate-") as folder,
          concurrent.futures.ThreadPoolExecutor(options.jobs) as pool):
        importer = Importer(options.bin, folder)
        models = {name: record for name, record in data.items() if name in chosen}
        before = dict(zip(models, pool.map(lambda record: importer.program(record["config"]), models.values())))
        refused = {name for name, (program, _) in before.items() if program is None}
        cases = [(name, path, row) for name, record in models.items() if name not in refused
                 for path, rows in record["mutations"].items() if not options.field or options.field == path for row in rows]
        if options.sample:
            cases = random.Random(options.seed).sample(cases, min(options.sample, len(cases)))
        judged = pool.map(lambda case: judge(importer, case[0], models[case[0]], before[case[0]][0], case[1], *case[2]), cases)
        counts = collections.Counter()
        failed = [name for name in sorted(refused) if before[name][1].startswith(CRASHED)]
        for name in failed:
            print(f"FAILED {name}: {before[name][1]}", flush=True)
        for (name, path, (value, *_)), (verdict, wrong) in zip(cases, judged):
            counts[verdict] += wrong is None
            if wrong:
                failed.append(name)
                print(f"FAILED {name}: {path} = {value if value == ABSENT else json.dumps(value)} {wrong}", flush=True)
    for name in sorted(refused & set(options.model)):
        print(f"{name}: {before[name][1].strip()}")
    print(f"{len(cases) - len(failed)} of {len(cases)} changes are understood: "
          f"{', '.join(f'{count} {verdict}' for verdict, count in counts.most_common())}; "
          f"{len(models) - len(refused)} models, {len(refused)} that mgc refuses are left out")
    return 1 if failed or not cases else 0


# --- The data --------------------------------------------------------------------------------------------------------

def regenerate(options):
    from zoo import peers

    peers.use()
    from zoo import effects

    data = json.loads(DATA.read_text(encoding="utf-8")) if options.model and DATA.exists() else {}
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        chosen = zoo.select(options.model)
        for tiny, found in zip(chosen, pool.map(effects.record, chosen)):
            data[tiny.name] = found
            fields = found["mutations"]
            print(f"{tiny.name}: {sum(map(len, fields.values()))} changes of {len(fields)} fields", flush=True)
    DATA.write_text(text_of({tiny.name: data[tiny.name] for tiny in zoo.TINY if tiny.name in data}), encoding="utf-8")
    return 0


def text_of(data):
    """A line for each field."""
    models = []
    for name, found in data.items():
        rows = ",\n".join(f"   {json.dumps(path)}: {json.dumps(rows)}" for path, rows in found["mutations"].items())
        models.append(f' {json.dumps(name)}: {{\n  "config": {json.dumps(found["config"])},\n  "mutations": {{\n{rows}}}}}')
    return "{\n" + ",\n".join(models) + "}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin", help="folder of mgc")
    parser.add_argument("--model", action="append", default=[], help="a tiny model or a family; default: all; may be repeated")
    parser.add_argument("--field", help="this one alone, as rope_parameters.factor")
    parser.add_argument("--sample", type=int, help="so many changes, drawn at random")
    parser.add_argument("--seed", type=int, default=1, help="of --sample")
    parser.add_argument("--regenerate", action="store_true", help="write zoo/mutations.json anew, or its part for --model")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    sys.exit(regenerate(options) if options.regenerate else run(options))


if __name__ == "__main__":
    main()
