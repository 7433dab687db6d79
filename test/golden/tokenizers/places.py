#!/usr/bin/env python3
"""Writes NAME/places.json beside each tokenizer.json with PyPI's tokenizers (0.23): a venv with it runs this, the tests do not.

A digest for each of the strings: of the bytes [begin, end) that its tokens are made of, whole characters, before white space is
trimmed off them. Null where the tokenizer puts one character for several (composes them, drops them, or cuts blanks down to one): the
library then gives the place of one of them alone.
"""
import json
import pathlib
import re
import unicodedata

from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).resolve().parent


def digest(numbers):
    value = 0xCBF29CE484222325  # FNV-1a
    for byte in json.dumps(numbers, separators=(",", ":")).encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def main():
    texts = [text for _, text in json.loads((HERE / "strings.json").read_text())["rows"]]
    for path in sorted(HERE.glob("*/tokenizer.json")):
        tokenizer = Tokenizer.from_str(json.dumps(json.loads(path.read_text()) | {"post_processor": None}))
        tokenizer.no_truncation(), tokenizer.no_padding()
        normalizer = json.dumps(json.loads(path.read_text())["normalizer"])
        forms = [form for form in ("NFC", "NFKC") if form in normalizer or "Precompiled" in normalizer]
        rows = []
        for text in texts:
            runs = "Regex" in normalizer and re.search(r"\s\s", text)
            dropped = "Precompiled" in normalizer and any(unicodedata.category(c) == "Cc" for c in text)
            if runs or dropped or any(unicodedata.normalize(form, text) != text for form in forms):
                rows.append(None)
                continue
            starts = [len(text[:i].encode()) for i in range(len(text) + 1)]
            offsets = tokenizer.encode(text, add_special_tokens=False).offsets
            rows.append(digest([starts[at] for offset in offsets for at in offset]))
        (path.parent / "places.json").write_text(json.dumps({"rows": rows}) + "\n")


main()
