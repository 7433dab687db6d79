#!/usr/bin/env python3
"""Trains a tiny random model of every family with mgc and mgrun and compares losses, norms, gradients and weights with
transformers' own class under PyTorch's AdamW: on one rank, over tensor and pipeline ranks, over context ranks, and in bf16.

    test/e2e/against_transformers.py --bin build/release/bin                          every family
    test/e2e/against_transformers.py --bin build/release/bin --model gemma2 --run one --keep run
    test/e2e/against_transformers.py --only-references                                what transformers says, without mgc
    test/e2e/against_transformers.py --bin build/release/bin --page docs/models.md    and writes the page

Prints for each run the worst of found / allowed over all that is compared, at most 1, or what mgc refuses. The models are those
of the folder zoo; their references are made once, in build/zoo. f32 is held to 4 x what shaken weights show in float64 and in float32
(test/golden/README.md); bf16 to what random rounding of each op of the class predicts (zoo/rounded.py). Needs torch and
transformers, here or in build/peers (test/bench/setup-peers); without them it ends with 77, which ctest counts as skipped.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile

from zoo import peers

peers.use()

import compare  # noqa: E402
import golden  # noqa: E402
import prediction  # noqa: E402
import zoo  # noqa: E402
from layouts import Layout  # noqa: E402
from zoo import models_page, references, rounded  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNS = {"one": (Layout(mbs=2), "f32"), "tp2-pp2": (Layout(tp=2, pp=2, sp=True), "f32"),
        "cp2": (Layout(cp=2, context="all_gather"), "f32"), "bf16": (Layout(mbs=2), "bf16")}


def predict(tiny, reference, pool):
    """Predicts the error of bf16."""
    draws = [pool.submit(rounded.draw, tiny, reference.expect, seed) for seed in range(prediction.DRAWS)]
    reference.predictions[None] = prediction.Prediction(reference.expect, [one.result() for one in draws])


class Refused(Exception):
    """mgc does not compile the model: what it says first."""


def train(options, reference, layout, folder):
    """The worst of the comparisons, as (what, found, allowed)."""
    plan, error = golden.compile_plan(options, reference, layout, folder)
    said = re.findall(r"^(?:mgc: exit code 1: )?mgc: (.*)", error or "", re.M)  # notes, and at last what is wrong
    if said and error.startswith("mgc: exit code 1:"):
        raise Refused(said[-1].replace(reference.path(options.config), "config.json"))
    error = error or golden.run_training(options, reference, plan, folder, [*golden.one_thread(options), "--poison"])
    if error:
        return (" ".join(error.split()), float("inf"), 0)
    return max(golden.compare_all(options, reference, layout, folder), key=compare.excess)


def run(options, reference, name):
    """The run's cell: {"ratio": .., "what": ..} or {"refused": ..}."""
    layout, dtype = RUNS[name]
    options = argparse.Namespace(**vars(options) | {"dtype": dtype})
    folder = tempfile.mkdtemp(prefix="mgc-zoo-")
    try:
        worst = train(options, reference, layout, folder)
        return {"ratio": compare.excess(worst), "what": worst[0]}
    except Refused as reason:
        return {"refused": str(reason)}
    except (OSError, ValueError, KeyError) as error:  # a file that is missing or not understood
        return {"ratio": float("inf"), "what": f"{type(error).__name__}: {error}"}
    finally:
        if options.keep:
            shutil.copytree(folder, pathlib.Path(options.keep) / reference.model / name, dirs_exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


def check(options, tiny, pool):
    """A record of the tiny model: its facts and the cells of its runs."""
    reference = golden.Golden(tiny.name, options.references)
    record = {"name": tiny.name, "family": tiny.family.model_type, "parameters": reference.expect["parameters"], "runs": {}}
    for name in options.run or RUNS:
        if RUNS[name][1] == "bf16":
            if "refused" in (one := record["runs"].get("one", {})):
                record["runs"][name] = one
                continue
            predict(tiny, reference, pool)
        record["runs"][name] = run(options, reference, name)
        reference.predictions.clear()
    return record


def shown(cell):
    return cell.get("refused") or f"{cell['ratio']:.2f}" + (f" FAILED {cell['what']}" if not cell["ratio"] <= 1 else "")


def report(record):
    cells = record["runs"]
    if len({json.dumps(cell) for cell in cells.values()}) == 1 and "refused" in next(iter(cells.values())):
        cells = {"refused": next(iter(cells.values()))}
    texts = "  ".join(f"{name} {shown(cell)}" for name, cell in cells.items())
    print(f"{record['name']:22} {record['parameters']:7,}  {texts}", flush=True)


def parse_arguments():
    parents = [] if "--only-references" in sys.argv else [golden.options_of_runs()]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, parents=parents)
    parser.add_argument("--model", action="append", default=[], help="a tiny model or a family; default: all; may be repeated")
    parser.add_argument("--run", action="append", choices=RUNS, help="default: all; may be repeated")
    parser.add_argument("--references", type=pathlib.Path, default=ROOT / "build/zoo", help="folder of the references")
    parser.add_argument("--only-references", action="store_true", help="make the references and end")
    parser.add_argument("--required", action="store_true", help="what mgc refuses is a failure")
    parser.add_argument("--page", type=pathlib.Path, help="write docs/models.md here")
    parser.add_argument("--records", type=pathlib.Path, help="file (JSON) of what is measured: what runs now takes "
                        "its place there, and the page has all")
    options = parser.parse_args()
    if not options.only_references:
        options.bin = os.path.abspath(options.bin)
    return options


def with_earlier(path, records):
    """The records of a file with the new ones in their place; the file then has all."""
    known = {record["name"]: record for record in (json.loads(path.read_text(encoding="utf-8")) if path.exists() else [])}
    for record in records:
        known[record["name"]] = record | {"runs": known.get(record["name"], {}).get("runs", {}) | record["runs"]}
    every = [known[tiny.name] for tiny in zoo.TINY if tiny.name in known]
    path.write_text(json.dumps(every, indent=1), encoding="utf-8")
    return every


def main():
    options = parse_arguments()
    records, failed = [], 0
    with concurrent.futures.ProcessPoolExecutor(getattr(options, "jobs", 2)) as pool:
        chosen = zoo.select(options.model)
        made = [pool.submit(references.make, tiny, options.references / tiny.name) for tiny in chosen]
        for tiny, one in zip(chosen, made):
            one.result()
            if options.only_references:
                print(f"{tiny.name}: {options.references / tiny.name}", flush=True)
                continue
            records.append(check(options, tiny, pool))
            cells = records[-1]["runs"].values()
            failed += any(not cell.get("ratio", 0) <= 1 or options.required and "refused" in cell for cell in cells)
            report(records[-1])
    known = with_earlier(options.records, records) if options.records else records
    if options.page:
        options.page.write_text(models_page.page(known, options), encoding="utf-8")
    if records:
        refused = sum("refused" in cell for record in records for cell in record["runs"].values())
        print(f"{len(records) - failed} of {len(records)} tiny models agree with transformers "
              f"{peers.use()[1].__version__}, {refused} of their runs are refused")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
