#!/usr/bin/python3
"""mgc-data preprocess compared with the loop of Megatron-LM's preprocess_data.py: python3 preprocess.py --bin BIN [--mib 24] [--workers 2]

The loop, in plain Python with the package tokenizers: processes that each take 32 lines at a time, parse and encode them; one that
writes. The corpus is the Python sources and texts of the machine's Python packages, a document each; the tokenizer a byte-level BPE
of 32,000 tokens that is trained on a part of it. Both alternate; their files must be equal to the byte. Then the time in which
mgc-data info opens and checks an index of 10 million documents. Runs itself with the Python of build/peers (setup-peers).
"""
import argparse
import filecmp
import json
import multiprocessing
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / "build/peers/bin/python"
VOCABULARY, ROUNDS = 32000, 3


def has_later_characters(text):
    """Whether the text has characters of a Unicode that Oniguruma does not know (docs/data.md, Tokenizers)."""
    assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
    return not text.isascii() and any(unicodedata.category(character) == "Cn" for character in text)


def write_corpus(path, size):
    """JSON lines of about that many bytes of text."""
    written = documents = 0
    with open(path, "w") as out:
        for file in sorted((ROOT / "build/peers").resolve().glob("lib/python3*/site-packages/**/*")):
            if file.suffix not in (".py", ".md", ".txt", ".rst") or written >= size:
                continue
            text = file.read_bytes().decode(errors="ignore").strip("\ufeff")
            if text and not has_later_characters(text):
                out.write(json.dumps({"text": text}) + "\n")
                written += len(text.encode())
                documents += 1
    return documents, written


def train_tokenizer(corpus, folder):
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    with open(corpus) as lines:
        tokenizer.train_from_iterator((json.loads(line)["text"] for number, line in enumerate(lines) if number % 8 == 0), trainer)
    os.mkdir(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|endoftext|>"}))


class Encoder:
    """The Hugging Face tokenizer of one process."""

    @staticmethod
    def begin(model):
        import tokenizers
        Encoder.tokenizer = tokenizers.Tokenizer.from_file(model)
        Encoder.end = Encoder.tokenizer.token_to_id("<|endoftext|>")

    @staticmethod
    def encode(line):
        ids = Encoder.tokenizer.encode(json.loads(line)["text"]).ids
        return ids + [Encoder.end] if ids else ids


def write_index(path, kind, lengths):
    import numpy
    lengths = numpy.asarray(lengths, numpy.int32)
    offsets = numpy.zeros(len(lengths), numpy.int64)
    numpy.cumsum(lengths[:-1].astype(numpy.int64) * 2, out=offsets[1:])
    with open(path, "wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, kind, len(lengths), len(lengths) + 1))
        for values in lengths, offsets, numpy.arange(len(lengths) + 1, dtype=numpy.int64):
            file.write(values.tobytes())


def loop(corpus, prefix, model, workers):
    import numpy
    lengths = []
    with multiprocessing.Pool(workers, Encoder.begin, (str(model / "tokenizer.json"),)) as pool, open(corpus) as lines, \
            open(f"{prefix}_text_document.bin", "wb") as file:
        for ids in pool.imap(Encoder.encode, lines, 32):
            if ids:
                file.write(numpy.array(ids, numpy.uint16).tobytes())
                lengths.append(len(ids))
    write_index(f"{prefix}_text_document.idx", 8, lengths)
    return sum(lengths)


def timed(function, *arguments):
    begin = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - begin, result


def program(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def compare(folder, bin, mib, workers):
    documents, size = write_corpus("corpus.jsonl", mib << 20)
    train_tokenizer("corpus.jsonl", folder / "tokenizer")
    print(f"{documents} documents, {size / 2**20:.1f} MiB of text, {VOCABULARY} tokens, {workers} workers")
    times = {"the loop": [], "mgc-data": []}
    for _ in range(ROUNDS):
        seconds, tokens = timed(loop, "corpus.jsonl", "loop", folder / "tokenizer", workers)
        times["the loop"].append(seconds)
        times["mgc-data"].append(timed(program, bin / "mgc-data", "preprocess", "--input", "corpus.jsonl", "--output-prefix", "own",
                                       "--tokenizer-model", "tokenizer", "--append-eod", "--workers", workers, "--restart")[0])
        for ending in "bin", "idx":
            files = [f"{name}_text_document.{ending}" for name in ("loop", "own")]
            assert filecmp.cmp(*files, shallow=False), f"{files} differ"
            os.remove(files[1])
    for name, seconds in times.items():
        print(f"{name}: best {min(seconds):.2f} s of {', '.join(f'{one:.2f}' for one in seconds)}, "
              f"{size / 2**20 / min(seconds):.1f} MiB/s, {tokens / min(seconds) / 1e6:.2f} M tokens/s")
    print(f"the same files; mgc-data is {min(times['the loop']) / min(times['mgc-data']):.1f} times as fast")


def open_large(bin, documents):
    write_index("large.idx", 8, [1] * documents)
    with open("large.bin", "wb") as file:
        file.truncate(2 * documents)
    times = [timed(program, bin / "mgc-data", "info", "large")[0] for _ in range(ROUNDS)]
    print(f"an index of {documents} documents, opened and checked: best {min(times):.2f} s of {', '.join(f'{one:.2f}' for one in times)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--mib", type=int, default=24)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    bin = arguments.bin.resolve()
    os.environ["TOKENIZERS_PARALLELISM"] = "false" # processes are the parallelism
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        compare(pathlib.Path(name), bin, arguments.mib, arguments.workers)
        open_large(bin, 10_000_000)
        os.chdir("/")


if __name__ == "__main__":
    if pathlib.Path(sys.prefix).resolve() != PYTHON.parents[1].resolve():
        os.execv(PYTHON, [PYTHON, *sys.argv])
    main()
