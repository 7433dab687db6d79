#!/usr/bin/env python3
# Mutates what a step ends with in the compiler's own form, one fact at a time, and goes on from there. Each mutant must
# be refused, or mean the same: its plan trains to the bits of the plan itself. A mutant whose plan trains to others is
# a fact of the form that its verifiers do not prove.
#
#   test/mutation/mutate_forms.py --bin build/release/bin --model gpt2 [--sample N --seed S]
#
# Facts: the layout of every value of begin, gradients, reduce and update, over which axes and stages it is split or pending; what
# every op there takes, whether it is there, and what is returned; what arguments and results are bound to; what buckets say; the
# bucket of every place; the functions of stages and reductions.
import argparse
import collections
import concurrent.futures
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import mutate

STEP_END = re.compile(r'mg\.pass = "(begin|gradients|reduce|update)"')
NAMES = re.compile(r"%[\w#]+")


def split(text):
    """At the commas that stand in no brackets."""
    parts, depth, part = [], 0, ""
    for c in text.replace("->", "\0"):
        depth += (c in "<([{") - (c in ">)]}")
        if c == "," and not depth:
            parts.append(part.strip())
            part = ""
        else:
            part += c.replace("\0", "->")
    return [*parts, part.strip()] if part.strip() else parts


def unwrapped(types):
    return split(types[1:-1] if types.startswith("(") else types)


def defined(line):
    """Name -> type of what a line of a step's function defines; operands and their types."""
    op = re.match(r"\s*(%[^=]*?) = (mg\.\w+) ?(.*?)(?: \{[^}]*\})? : (.*)$", line)
    if not op:
        return {}, []
    results, _, operands, types = op.groups()
    taken, arrow, made = types.rpartition(" -> ")
    made = unwrapped(made if arrow else types)
    names = []
    for name in split(results):
        name, _, count = name.partition(":")
        names += [f"{name}#{i}" for i in range(int(count))] if count else [name]
    taken = unwrapped(taken)
    operands = NAMES.findall(operands)
    return dict(zip(names, made)), list(zip(operands, taken)) if len(operands) == len(taken) else []


def axes_mutants(line, axes):
    """Mutants of `split = [..]` and the like: another one, one less, one twice, one more."""
    for found in re.finditer(r'(split =|reduce =|data =|shard =|outer =) \[([^\]]*)\]', line):
        names = [name.strip('"') for name in split(found[2])]
        lists = [[axis] for axis in axes] + [names[:i] + names[i + 1:] for i in range(len(names))]
        lists += [names + [axis] for axis in axes] + [names[::-1], [*names, *names[:1]]]
        for other in {tuple(one) for one in lists if one != names}:
            quoted = ", ".join(f'"{name}"' for name in other)
            yield f"{found[1]} [{quoted}]", f"{line[:found.start()]}{found[1]} [{quoted}]{line[found.end():]}"


def operand_mutants(line, values):
    """Each operand is another value of its type, the one op is left out, a summand is left out or there twice."""
    made, taken = defined(line)
    position = line.find("=") if made else 0
    for name, kind in taken:
        others = [other for other, its in values.items() if its == kind and other != name]
        for other in others:
            yield f"{name} is {other}", line[:position] + re.sub(rf"{name}(?![\w#])", other, line[position:], count=1)
    if "mg.accumulate" in line and len(taken) > 1:
        for names in [taken[1:], taken[:-1], [*taken, taken[0]], [*taken[1:], taken[1]]]:
            operands, types = (", ".join(part) for part in zip(*names))
            signs = ", ".join("1" for _ in names)
            yield f"of {operands}", f"{line[:line.find('=')]}= mg.accumulate {operands} {{signs = array<i64: {signs}>}} : ({types}) -> {taken[0][1]}"
        yield "subtracts", re.sub(r"(signs = array<i64: .*)1>", r"\1-1>", line)


def retyped(line, name, old, new):
    """The line, which reads or returns the value, with its other type."""
    head, colon, types = line.rpartition(" : ") if line.lstrip().startswith("return") else line.partition(" : ")
    taken, arrow, made = types.rpartition(" -> ")
    taken = taken if arrow else types
    of = [other if read != name else new for read, other in zip(NAMES.findall(head.partition(" = ")[2] or head), unwrapped(taken))]
    text = ", ".join(of)
    return head + colon + (f"({text})" if taken.startswith("(") else text) + arrow + made


def layout_mutants(lines, at, axes):
    """Another layout of what the op makes, which its readers take: an entry of a list less, one more, in another order."""
    made, _ = defined(lines[at])
    if len(made) != 1:
        return
    (name, kind), = made.items()
    end = lines.index("  }", at)
    for found in re.finditer(r"(part|, sum|<sum) \[([^\]]*)\]", kind):
        entries = split(found[2])
        lists = [entries[:i] + entries[i + 1:] for i in range(len(entries))] + [entries[::-1]]
        lists += [[*entries, axis] for axis in axes if not re.search(rf"\b{axis}\b", kind)]
        for other in {tuple(one) for one in lists if one != entries}:
            list_of = f"{found[1]} [{', '.join(other)}]" if other else {"part": "part", ", sum": "", "<sum": "<"}[found[1]]
            new = kind[:found.start()] + list_of + kind[found.end():]
            head, _, tail = lines[at].rpartition(kind)
            readers = [retyped(line, name, kind, new) if re.search(rf"{name}(?![\w#])", line) else line for line in lines[at + 1:end]]
            yield f"{name} is {new}", "\n".join([*lines[:at], head + new + tail, *readers, *lines[end:]])


def left_out(lines, at):
    """Makes the readers of the op's result read its operand; only where the two have one type."""
    made, taken = defined(lines[at])
    if len(made) == 1 and len(taken) == 1 and taken[0][1] == next(iter(made.values())):
        name = next(iter(made))
        return [re.sub(rf"{name}(?![\w#])", taken[0][0], line) for line in lines[at + 1:]]
    return None


def returned_mutants(line):
    names, _, types = line.partition(" : ")
    names, types = NAMES.findall(names), split(types)
    for i, j in ((i, j) for i in range(len(names)) for j in range(i) if types[i] == types[j]):
        for pair in ((j, i), (i, i)) if len(names) < 12 else ((j, i),):
            other = list(names)
            other[i], other[j] = names[pair[0]], names[pair[1]]
            yield f"returns {other[i]} for {names[i]}", f"    return {', '.join(other)} : {', '.join(types)}"


def bound_mutants(line, kinds):
    """Signatures: another index or kind of buffer, of arguments and results."""
    for found in re.finditer(r'\{index = (\d+) : i64, kind = "(\w+)"\}', line):
        others = [(int(found[1]) + d, found[2]) for d in (-1, 1)] + [(found[1], kind) for kind in kinds if kind != found[2]]
        for index, kind in others:
            yield f"{found[2]} {found[1]} is {kind} {index}", (
                f'{line[:found.start()]}{{index = {index} : i64, kind = "{kind}"}}{line[found.end():]}')


def stage_mutants(line, functions, buckets):
    """Lines of mg.stage and of what is in it."""
    if "mg.bucket" in line:
        for flag in ("decay", "frozen"):
            has = f"{flag}, " in line
            yield f"{flag} flipped", line.replace(f"{flag}, ", "") if has else line.replace("{", f"{{{flag}, ", 1)
        tied = re.search(r"tied = array<i64(: [\d, ]+)?>", line)[0]
        for other in ("array<i64>", "array<i64: 0>", "array<i64: 0, 1>", "array<i64: 1, 0>"):
            if other not in tied:
                yield f"tied = {other}", line.replace(tied, f"tied = {other}")
    if "mg.place" in line:
        for other in range(buckets):
            if f" bucket {other} " not in line:
                yield f"bucket {other}", re.sub(r"bucket \d+", f"bucket {other}", line)
    for word, name in re.findall(r"(begin|reduce|update|reduction) (@[\w.]+)", line):
        for other in functions["gradients" if word == "reduction" else word]:
            if other != name:
                yield f"{word} {other}", line.replace(f"{word} {name}", f"{word} {other}")


def mutants(text):
    """(what, the changed text), of all facts of the functions of a step."""
    lines = text.splitlines()
    axes = re.findall(r"(\w+) = \d+", re.search(r"mg\.mesh = #mg\.mesh<([^>]*)>", text)[1])
    functions = collections.defaultdict(list)
    for line in lines:
        if (found := STEP_END.search(line)) and line.lstrip().startswith("func.func"):
            functions[found[1]].append(re.search(r"@[\w.]+", line)[0])
    kinds = sorted(set(re.findall(r'kind = "(gradient\w*|value|master|\w+_moment)"', text)))
    buckets, inside, values = 0, "", {}
    for at, line in enumerate(lines):
        if "mg.stage " in line:
            buckets = sum("mg.bucket" in one for one in lines[at:lines.index("  }", at)])
            inside = "stage"
        elif line.lstrip().startswith("func.func"):
            inside = "function" if STEP_END.search(line) else ""
            values = {name: kind for name, kind in re.findall(r"(%arg\d+): (tensor<[^>]*>>)", line)}
        if not inside:
            continue
        where = f"{at + 1}: {line.strip()[:60]}"
        changed = []
        if inside == "stage":
            changed += [*axes_mutants(line, axes), *stage_mutants(line, functions, buckets)]
        elif line.lstrip().startswith("func.func"):
            changed += bound_mutants(line, kinds)
        elif line.lstrip().startswith("return"):
            changed += returned_mutants(line)
        else:
            changed += operand_mutants(line, values)
            for what, other in layout_mutants(lines, at, axes):
                yield f"{where}: {what}", other
            if (rest := left_out(lines, at)) is not None:
                yield f"{where}: left out", "\n".join([*lines[:at], *rest])
            values |= defined(line)[0]
        for what, other in changed:
            yield f"{where}: {what}", "\n".join([*lines[:at], other, *lines[at + 1:]])


def verdict(options, judge, text):
    with tempfile.TemporaryDirectory(prefix="mgc-mutant-") as folder:
        form, plan = pathlib.Path(folder) / "form.mlir", pathlib.Path(folder) / "plan"
        form.write_text(text)
        try:
            done = subprocess.run([options.bin / "mgc", "compile", form, "-o", plan], capture_output=True, text=True,
                                  timeout=mutate.SECONDS)
        except subprocess.TimeoutExpired:
            return "bad", "mgc hangs"
        if done.returncode not in (0, 1):
            return "bad", f"mgc crashes with {done.returncode}"
        if done.returncode:
            return "refused", done.stderr.strip()[:300]
        found = judge.outcome(plan)
    return ("equal", "") if found == judge.baseline else ("survives", found if isinstance(found, str) else "trains otherwise")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default="build/release/bin")
    parser.add_argument("--model", choices=sorted(mutate.MODELS), required=True)
    mutate.add_choice(parser)
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    with tempfile.TemporaryDirectory(prefix="mgc-mutant-") as folder:
        folder = pathlib.Path(folder)
        options.plan = mutate.compiled(options.bin, options.model, folder, ["--dump-phases=phases"])
        (form,) = (folder / "phases").glob("??-stage.mlir")
        everything = [m for m in mutants(form.read_text()) if options.only in m[0]]
        if options.sample and options.sample < len(everything):
            everything = random.Random(options.seed).sample(everything, options.sample)
        sys.exit(judge_all(options, mutate.Judge(options, folder), everything))


def judge_all(options, judge, everything):
    counts = dict.fromkeys(("refused", "equal", "survives", "bad"), 0)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for (what, _), (found, why) in zip(everything, pool.map(lambda m: verdict(options, judge, m[1]), everything)):
            counts[found] += 1
            if options.verbose or found in ("survives", "bad"):
                print(f"{what}: {found}: {why}", flush=True)
    print(f"{len(everything)} mutants: " + ", ".join(f"{n} {found}" for found, n in counts.items()))
    return 1 if counts["survives"] or counts["bad"] or not counts["refused"] else 0


if __name__ == "__main__":
    main()
