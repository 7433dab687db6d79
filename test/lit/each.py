"""Programs with one error each, as -split-input-file reads them: each.py FILE

A paragraph of FILE with the line `// EACH` is a program in which that line stands for one of the paragraphs behind it, up to
the next such program. The paragraphs before the first of them, types, begin each program.
"""
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    head, mark, rest = file.read().partition("// EACH")
types, _, begun = head.rpartition("\n\n")
programs = []
for paragraph in (begun + mark + rest).strip().split("\n\n"):
    if mark in paragraph:
        program = f"{types}\n\n{paragraph}"
    else:
        programs.append(program.replace(mark, paragraph))
print("\n\n// -----\n\n".join(programs))
