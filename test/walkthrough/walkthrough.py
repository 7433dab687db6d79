#!/usr/bin/python3
"""Writes docs/walkthrough.md: the real IR of one small model after each phase, and what is decided after the last. `--check` says whether the page is fresh.

    test/walkthrough/walkthrough.py --bin build/release/bin [--check]
"""
import argparse
import difflib
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs" / "walkthrough.md"
WIDTH = 120
FLAGS = ["--tp", "2", "--pp", "2", "--dp", "2", "--sp", "--seq", "16", "--mbs", "1", "--gbs", "4", "--zero", "1",
         "--loss-tile", "8"]

INTRO = f"""# Walkthrough: one model through every phase

A Llama of two layers, hidden size 8, two heads, on 8 ranks: `test/walkthrough/config.json`, compiled with

    mgc compile test/walkthrough/config.json {' '.join(FLAGS)} \\
        -o plan --dump-phases phases

The page is made by `test/walkthrough/walkthrough.py` from what that command writes; a test keeps it true. Not shown are
the `tensor<...>` around types, the types of operands, and the attributes of arguments; long lines are broken. All else
is as printed.
"""

# phase, what to show: (regular expression of the first line, how many lines at most), what to see
SHOWN = [
    ("import", [(r"func.func @layer\(", 40), (r"mg\.chain", 8)],
     "One function per distinct block, on logical types: dimensions have names, nothing is sharded. The chain says which blocks make up "
     "the model; two layers are one block."),
    ("merge", [(r"func.func @layer\(", 40)],
     "One product for queries, keys and values, one for gate and up: each with a joined parameter, the dimension `j` of which no axis splits."),
    ("grad", [(r"func.func @layer.backward", 60)],
     "The backward function, still logical. Cotangents that meet are one `mg.accumulate`; parameter gradients are results."),
    ("shard", [(r"func.func @layer.forward", 40)],
     "Every value has its layout. Two reshards gather the sequence before the column-parallel products, two reduce-scatter after the "
     "row-parallel ones: Megatron-LM's sequence parallelism, read off the types."),
    ("local", [(r"func.func @layer.forward", 40)],
     "Shapes are one rank's, reshards are collectives over named axes, and `coordinates` marks ops that read the rank's position."),
    ("stage", [(r"mg.stage 0 ", 30), (r"func.func @reduce.0", 30)],
     "Each pipeline stage has chunks, buckets of parameters treated alike, and the functions of a step, with layouts: a gradient is a "
     "pending sum, of which --zero 1 gives each data rank a slice."),
    ("step", [(r"func.func @reduce.0", 30)],
     "mg-local has made collectives of the changes of type: ZeRO-1's reduce-scatter over dp."),
    ("tile", [(r"func.func @head.backward", 40)],
     "The head's forward function is empty: its backward function computes the loss and all gradients, 8 tokens at a time, so that "
     "the logits never exist as a whole. Collectives over the vocabulary's ranks stand inside `mg.tile`, those over the sequence outside."),
    ("fuse", [(r"func.func @layer.forward", 45)],
     "Everything is a library call, a row kernel (`mg.kernel`) or a collective."),
    ("schedule", [(r"^stage 0:", 24)],
     "No IR any more, but what is decided for the plan, as text. The steps of stage 0 in order: 1F1B with two microbatches; sends and "
     "receives with the waits that memory reuse needs."),
    ("memory", [(r"^stage 0:", 40), (r"^function layer.forward", 8)],
     "Every buffer of a stage has an offset in the rank's single allocation, every value of a function one in its frame."),
]


def without_attributes(line):
    """The signature of a function without the attributes of arguments and results: balanced {mg. ...}."""
    kept, depth, i = "", 0, 0
    while i < len(line):
        if depth:
            depth, i = depth + {"{": 1, "}": -1}.get(line[i], 0), i + 1
        elif line.startswith(" {mg.", i):
            depth, i = 1, i + 2
        else:
            kept, i = kept + line[i], i + 1
    return kept.replace(" attributes {", " {")


def without_operand_types(line):
    """"%0 = op %a : (A, B) -> R" as "%0 = op %a -> R"."""
    line = re.sub(r"^( *(?:return|mg.yield) .*?) : .*", r"\1", line)
    return re.sub(r" : (\([^()]*\)|[^():{}]*) -> ", " -> ", line)


def simplified(line):
    line = without_attributes(line) if "func.func" in line else line
    while True:
        shorter = re.sub(r"tensor<((?:[0-9]+x)*[a-z0-9]+), #mg\.layout<([^<>]*)>>", r"\1<\2>", line)
        if shorter == line:
            return line if "func.func" in line else without_operand_types(line)
        line = shorter


def broken(line):
    """Lines of at most WIDTH columns; what does not fit goes on further to the right."""
    indent = " " * (len(line) - len(line.lstrip()) + 8)
    joined = re.sub(r"<[^<>]*>|%\w+: ", lambda kept: kept.group().replace(" ", "\0"), line)  # types and arguments stay whole
    return [part.replace("\0", " ") for part in textwrap.wrap(joined, WIDTH, subsequent_indent=indent, break_long_words=False,
                                                              break_on_hyphens=False)] or [""]


def excerpt(text, pattern, most):
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if re.search(pattern, line))
    indent = len(lines[start]) - len(lines[start].lstrip())
    if "{" in lines[start]:
        end = next(i for i in range(start + 1, len(lines)) if re.match(r" {%d}\}" % indent, lines[i])) + 1
    else:  # a text phase: up to the next line that is indented as little
        end = next((i for i in range(start + 1, len(lines)) if not lines[i].startswith(" ")), len(lines))
    shown = lines[start : min(end, start + most)] + (["      ..."] if end > start + most else [])
    return "\n".join(part for line in shown for part in broken("    " + simplified(line[min(indent, 4) :])))


def page(binaries):
    with tempfile.TemporaryDirectory() as folder:
        command = [binaries / "mgc", "compile", HERE / "config.json", *FLAGS, "-o", f"{folder}/plan", "--dump-phases", f"{folder}/phases"]
        subprocess.run(command, check=True, capture_output=True)
        parts = [INTRO]
        for phase, excerpts, text in SHOWN:
            (file,) = pathlib.Path(folder, "phases").glob(f"*-{phase}.*")
            ir = file.read_text()
            parts.append(f"## {phase}\n\n{textwrap.fill(text, WIDTH)}\n\n" + "\n\n    ...\n\n".join(excerpt(ir, *e) for e in excerpts) + "\n")
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default="build/release/bin")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    new = page(options.bin.resolve())
    if not options.check:
        PAGE.write_text(new)
        return
    old = PAGE.read_text() if PAGE.exists() else ""
    if old != new:
        sys.stdout.writelines(list(difflib.unified_diff(old.splitlines(True), new.splitlines(True), "docs/walkthrough.md", "now"))[:60])
        sys.exit("docs/walkthrough.md is out of date: run test/walkthrough/walkthrough.py")


if __name__ == "__main__":
    main()
