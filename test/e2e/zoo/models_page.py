"""docs/models.md: which models mgc trains, what they are called, and how near to transformers it comes."""
import textwrap

import torch
import transformers

import zoo
from zoo import models

COLUMNS = ("one", "tp2-pp2", "cp2", "bf16")
HEAD = """# Models

For users who want to know whether mgc trains their model. This page is printed by

    test/bench/setup-peers
    {command}

`model_type` and `architectures` of a `config.json` decide what a model is; every field that transformers' class reads is
understood, or refused by its name ([how a config.json is read](config-json.md); `test/e2e/mutate_configs.py` changes all of
them one at a time and compares with what transformers computes). Fields that are switches are in the second table.

## Families
"""
MEASURED = """## What is measured

Tiny random models of transformers' own classes ({transformers}; PyTorch {torch}), one for each switch that a family has, are
trained {steps} steps of {batch} x {length} tokens by transformers and AdamW, and by mgc: on one rank; with tensor and sequence
parallelism over 2 ranks and 2 stages; with a sequence over 2 ranks; and in bf16. Losses, gradient norms, every gradient of the
first step and every weight after the last one are compared. The figures are the worst error over the error allowed: at most 1 where
mgc agrees. In f32 the error allowed is four times what float64 shows whose initial weights are off by 2e-7
([test/golden](../test/golden/README.md)), in bf16 what random rounding of each operation predicts to be exceeded once in
10^8 or so ([precision](precision.md)).
"""


def wrapped(text):
    """Paragraphs of 120 columns."""
    fill = lambda block: textwrap.fill(block, 120, break_long_words=False, break_on_hyphens=False)
    return "\n\n".join(block if block.startswith(("#", "    ")) else fill(block) for block in text.split("\n\n"))


def worst_of(cells):
    """The worst of a family's cells; a text where one is refused."""
    ratios = [cell["ratio"] for cell in cells if "ratio" in cell]
    if not cells:
        return "not measured"
    return f"{max(ratios):.2f}" + (", some refused" if len(ratios) < len(cells) else "") if ratios else "refused"


def is_supported(records):
    return any("ratio" in cell for record in records for cell in record["runs"].values())


def families(records):
    rows = ["| model_type | class in `architectures` | published models | worst error / allowed, f32 | bf16 |",
            "|---|---|---|---|---|"]
    for family in zoo.FAMILIES:
        own = [record for record in records if record["family"] == family.model_type]
        if not own or not is_supported(own):
            continue
        cells = lambda names: [record["runs"][name] for record in own for name in names if name in record["runs"]]
        rows.append(f"| `{family.model_type}` | `{family.architecture}` | {family.used_by} | {worst_of(cells(COLUMNS[:3]))} | "
                    f"{worst_of(cells(COLUMNS[3:]))} |")
    return "\n".join(rows)


def cell_text(cell):
    return f"{cell['ratio']:.2f}" if cell and "ratio" in cell else "refused" if cell else ""


def switches(tiny):
    own = tiny.family.variants.get(tiny.variant, {})
    return ", ".join(f"`{name}`" for name in own)


def tiny_models(records):
    rows = ["| tiny model | what differs | parameters | one rank | tp 2 pp 2 | cp 2 | bf16 |", "|---|---|---|---|---|---|---|"]
    by_name, refused = {tiny.name: tiny for tiny in zoo.TINY}, []
    for record in records:
        if not is_supported([record]):
            refused.append(record)
            continue
        cells = " | ".join(cell_text(record["runs"].get(name)) for name in COLUMNS)
        rows.append(f"| {record['name']} | {switches(by_name[record['name']])} | {record['parameters']:,} | {cells} |")
    return "\n".join(rows), refused


def command(options):
    """The one that prints the page; a line each for what it is restricted to."""
    chosen = [[f"--{flag} {word}" for word in getattr(options, flag) or []] for flag in ("run", "model")
              if not options.records]
    words = ["test/e2e/against_transformers.py --bin build/release/bin --page docs/models.md",
             *map(" ".join, filter(None, chosen))]
    lines = textwrap.wrap(" ".join(words), 108, break_on_hyphens=False, subsequent_indent=" " * 8)
    return " \\\n".join(lines)


def page(records, options):
    rows, refused = tiny_models(records)
    measured = MEASURED.format(transformers=f"transformers {transformers.__version__}", torch=torch.__version__.split("+")[0],
                               steps=models.STEPS, batch=models.BATCH, length=models.LENGTH)
    left_out = [record["name"] for record in records if record in refused]
    parts = [wrapped(HEAD.format(command=command(options))).strip(), families(records), wrapped(measured).strip(), rows]
    above = [f"{record['name']} in the column {name} ({cell['what']})" for record in records
             for name, cell in record["runs"].items() if cell.get("ratio", 0) > 1]
    if above:
        parts.append(wrapped(f"Above 1, and not explained: {', '.join(above)}."))
    if left_out:
        parts.append(wrapped(f"Refused today, each with a message that says what is not supported: {', '.join(left_out)}."))
    return "\n\n".join(parts) + "\n"
