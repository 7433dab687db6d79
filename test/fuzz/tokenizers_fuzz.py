"""Random strings through mgc-data and through PyPI's tokenizers, with every tokenizer.json of test/golden/tokenizers and those
that are named. Fails where ids differ. Skipped (77) where the package is not installed.

usage: tokenizers_fuzz.py BIN ROOT [--count N] [--seed N] [--model FILE ..]
"""
import argparse
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from zoo import peers

peers.use()
from tokenizers import Tokenizer

# Blocks of characters that regular expressions, normal forms and case treat differently; all older than Unicode 13, for
# libraries know different versions.
BLOCKS = [(0x20, 0x7E), (0x0, 0x1F), (0x7F, 0xFF), (0x100, 0x24F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x45F), (0x5D0, 0x5EA),
          (0x620, 0x65F), (0x660, 0x669), (0x904, 0x939), (0x93C, 0x94D), (0xE01, 0xE3A), (0x1100, 0x1112), (0x1E00, 0x1EFF),
          (0x1F00, 0x1F15), (0x2000, 0x206F), (0x20A0, 0x20B0), (0x2100, 0x214F), (0x2150, 0x2188), (0x2460, 0x24FF),
          (0x2500, 0x2570), (0x2581, 0x2581), (0x3000, 0x303F), (0x3041, 0x3096), (0x30A1, 0x30FA), (0x4E00, 0x4E80),
          (0xAC00, 0xAC80), (0xF900, 0xF920), (0xFB00, 0xFB06), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFF01, 0xFF5E),
          (0xFFFD, 0xFFFD), (0x1D400, 0x1D420), (0x1F300, 0x1F320), (0x1F3FB, 0x1F3FF), (0x1F600, 0x1F640), (0x20000, 0x20020)]
SPACES = [" ", "  ", "\t", "\n", "\r\n", "\r", "\u00a0", "\u2003", "\u3000", "\u200b", "\u0085", "\u2028", "\x1c", "   \n", "\n\n "]
ENDINGS = ["'s", "'t", "'re", "'LL", "'\u017f", "n't", "...", "!?", "://", "_x", "-", "\u00b4s", "\u0301", "\u0308", "\u200d"]


def pieces(rng, words, tokens):
    kind = rng.randrange(12)
    if kind <= 2:
        return rng.choice(words)
    if kind == 3:
        return rng.choice(words).upper() if rng.random() < 0.5 else rng.choice(words).title()
    if kind <= 5:
        return rng.choice(SPACES) * rng.choice((1, 1, 1, 2, 5))
    if kind == 6:
        return str(rng.randrange(10 ** rng.randrange(1, 12)))
    if kind == 7:
        return rng.choice(ENDINGS)
    if kind == 8 and tokens:
        token = rng.choice(tokens)
        return token if rng.random() < 0.7 else token[:rng.randrange(len(token) + 1)]
    low, high = rng.choice(BLOCKS)
    return "".join(chr(rng.randint(low, high)) for _ in range(rng.choice((1, 1, 2, 3, 8))))


def strings(rng, count, words, tokens):
    for _ in range(count):
        text = "".join(pieces(rng, words, tokens) for _ in range(rng.choice((1, 2, 3, 5, 8, 13))))
        yield text * 40 if rng.random() < 0.002 else text


def ours(program, folder, model, texts):
    source = folder / "in.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    done = subprocess.run([program, "preprocess", "--input", source, "--output-prefix", folder / "out", "--tokenizer-model", model,
                           "--tokenizer-type", "HuggingFaceTokenizer"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    index, tokens = (folder / "out_text_document.idx").read_bytes(), (folder / "out_text_document.bin").read_bytes()
    kind, sequences, documents = index[17], *struct.unpack_from("<QQ", index, 18)
    size, code = (2, "H") if kind == 8 else (4, "i")
    lengths = struct.unpack_from(f"<{sequences}i", index, 34)
    offsets = struct.unpack_from(f"<{sequences}q", index, 34 + 4 * sequences)
    ends = struct.unpack_from(f"<{documents}q", index, 34 + 12 * sequences)
    for first, last in zip(ends, ends[1:]):
        yield list(struct.unpack_from(f"<{lengths[first]}{code}", tokens, offsets[first])) if last > first else []


def compare(program, model, count, seed):
    peer = Tokenizer.from_file(str(model))
    peer.no_truncation(), peer.no_padding()
    added = [row["content"] for row in json.loads(model.read_text())["added_tokens"]]
    rows = json.loads((pathlib.Path(sys.argv[2]) / "test/golden/tokenizers/strings.json").read_text())["rows"]
    words = sorted({word for _, text in rows for word in text.split(" ")})
    texts = list(strings(random.Random(f"{seed} {model.parent.name}"), count, words, added))
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for text, ids, expected in zip(texts, ours(program, pathlib.Path(folder), model, texts), peer.encode_batch(texts)):
            if ids != expected.ids:
                wrong += 1
                if wrong <= 5:
                    print(f"{model.parent.name}: {text!r}\n  ours   {ids}\n  theirs {expected.ids}")
    print(f"{model.parent.name}: {count} strings, {wrong} differ")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=500, help="strings for each tokenizer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", type=pathlib.Path, nargs="*", default=[])
    arguments = parser.parse_args()
    models = sorted((arguments.root / "test/golden/tokenizers").glob("*/tokenizer.json"))
    wrong = sum(compare(arguments.bin / "mgc-data", model, arguments.count, arguments.seed) for model in models + arguments.model)
    sys.exit(1 if wrong or not models else 0)


main()
