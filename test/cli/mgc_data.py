"""mgc-data: Megatron-LM's files byte for byte, runs that are ended and gone on with, lines that are none. usage: mgc_data.py BIN ROOT"""
import gzip
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import tool_runs  # noqa: E402
from tool_runs import GOLDEN, end, start, wait_until, write  # noqa: E402

BYTES = ["--tokenizer-type", "ByteTokenizer"]


def run(*words, code=0, **options):
    return tool_runs.run("mgc-data", *words, code=code, **options)


def preprocess(source, out, *flags, **options):
    return run("preprocess", "--input", source, "--output-prefix", out, *flags, **options)


def refuse(message, command, *words):
    said = command(*words, code=1).stderr
    assert message in said, f"{words}: expected {message!r}, found {said}"


def write_lines(path, texts):
    write(path, "".join(json.dumps({"text": text}) + "\n" for text in texts))


class Data(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        os.chdir(self.folder.name)
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(os.chdir, "/")

    def same(self, one, two):
        self.assertEqual(pathlib.Path(one).read_bytes(), pathlib.Path(two).read_bytes(), f"{one} {two}")

    def test_preprocessed_as_megatron_does(self):
        runs = json.loads((GOLDEN / "preprocess/expect.json").read_text())["runs"]
        compared = 0
        for name, facts in runs.items():
            words = facts["arguments"].split()
            model = GOLDEN / words[words.index("--tokenizer-model") + 1]
            if not model.exists():
                continue  # a published one, not here
            words[words.index("--input") + 1] = GOLDEN / "preprocess" / words[words.index("--input") + 1]
            words[words.index("--tokenizer-model") + 1] = model
            for workers in (1, 3):
                words[words.index("--workers") + 1] = workers
                done = run("preprocess", *words)
                for file in facts["sha256"]:
                    self.same(file, GOLDEN / "preprocess" / file)
                    compared += 1
        self.assertEqual(compared, 36)
        self.assertEqual([path.name for path in pathlib.Path(".").glob("*.part")], [])

    def test_vocabulary_and_merges_as_files(self):
        model = json.loads((GOLDEN / "tokenizers/gpt2/tokenizer.json").read_text())["model"]
        pathlib.Path("vocab.json").write_text(json.dumps(model["vocab"]))
        pathlib.Path("merges.txt").write_text("#version: 0.2\n" + "".join(" ".join(pair) + "\n" for pair in model["merges"]))
        rows = json.loads((GOLDEN / "tokenizers/strings.json").read_text())["rows"]
        texts = [text for _, text in rows if "<|endoftext|>" not in text] # there a tokenizer.json has a token
        write_lines("in.jsonl", texts)
        files = ["--vocab-file", "vocab.json", "--merge-file", "merges.txt"]
        for out, *flags in [("json", "--tokenizer-model", GOLDEN / "tokenizers/gpt2"), ("files", "--tokenizer-type", "GPT2BPETokenizer", *files),
                            ("folder", "--tokenizer-type", "GPT2BPETokenizer", "--tokenizer-model", ".")]:
            done = preprocess("in.jsonl", out, "--append-eod", *flags)
            for ending in ("bin", "idx"):
                self.same(f"json_text_document.{ending}", f"{out}_text_document.{ending}")
        for code, message, *flags in [
                (1, "--tokenizer-type GPT2BPETokenizer: needs --tokenizer-model: a folder with vocab.json and merges.txt",
                 "--tokenizer-type", "GPT2BPETokenizer"),
                (2, "--merge-file", "--tokenizer-type", "GPT2BPETokenizer", *files[:2]), (1, "--vocab-file", *BYTES, *files)]:
            self.assertIn(message, preprocess("in.jsonl", "x", *flags, code=code).stderr)

    def test_merge_and_info(self):
        done = run("merge", "--input", GOLDEN / "indexed/part0_u16", GOLDEN / "indexed/part1_u16", "--output-prefix", "both")
        for ending in ("bin", "idx"):
            self.same(f"both.{ending}", GOLDEN / f"indexed/merged_u16.{ending}")
        done = run("info", "both", GOLDEN / "indexed/docs_i32.idx")
        self.assertIn("documents  24\n", done.stdout)
        self.assertIn("sequences  250, 5 of them empty", done.stdout)
        run("info", "none", code=1)
        refuse("docs_i32.idx: has tokens of type I32", run, "merge", "--input", GOLDEN / "indexed/part0_u16", GOLDEN / "indexed/docs_i32", "--output-prefix", "x")
        self.assertEqual(sorted(path.name for path in pathlib.Path(".").iterdir()), ["both.bin", "both.idx"])
        before = pathlib.Path("both.bin").read_bytes()
        pathlib.Path("link.bin").symlink_to("both.bin")
        for output in ("both.bin", "./both", pathlib.Path("both").resolve(), "link"):
            refuse("is one of the inputs", run, "merge", "--input", "both", GOLDEN / "indexed/part0_u16", "--output-prefix", output)
        self.assertEqual(pathlib.Path("both.bin").read_bytes(), before)

    def test_merge_leaves_the_files_of_others(self):
        pathlib.Path("weights.bin").write_text("of another program")
        refuse("weights.bin: has no weights.idx beside it", run, "merge", "--input", GOLDEN / "indexed/part0_u16", "--output-prefix", "weights")
        self.assertEqual(pathlib.Path("weights.bin").read_text(), "of another program")

    def test_merge_after_one_that_was_killed(self):
        """Between the tokens and the index: .bin stands without .idx, the lengths as a part."""
        for name in "weights.bin", "weights.lengths.part":
            pathlib.Path(name).write_text("left")
        done = run("merge", "--input", GOLDEN / "indexed/part0_u16", "--output-prefix", "weights", code=1)  # may be another's .bin
        self.assertIn("weights.bin: has no weights.idx beside it", done.stderr)
        self.assertEqual(pathlib.Path("weights.bin").read_text(), "left")
        pathlib.Path("weights.idx.part").write_text("left")
        done = run("merge", "--input", GOLDEN / "indexed/part0_u16", "--output-prefix", "weights")
        self.same("weights.bin", GOLDEN / "indexed/part0_u16.bin")
        self.assertEqual(sorted(path.name for path in pathlib.Path(".").iterdir()), ["weights.bin", "weights.idx"])

    def test_merge_of_an_index_without_documents(self):
        """Three sequences of 1, 2 and 3 tokens: each is a document of what they are merged to."""
        header = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, 8, 3, 0)
        pathlib.Path("a.idx").write_bytes(header + struct.pack("<3i3q", 1, 2, 3, 0, 2, 6))
        pathlib.Path("a.bin").write_bytes(struct.pack("<6H", *range(6)))
        done = run("merge", "--input", "a", "a", "--output-prefix", "b")
        done = run("info", "b")
        self.assertRegex(done.stdout, r"documents  6\n  sequences  6\n  tokens     12\n")

    def test_a_run_that_is_ended_is_gone_on_with(self):
        rng, source = random.Random(1), os.fsdecode(b"\xe9.jsonl")  # a name that is no UTF-8
        with open(source, "w") as out:
            for _ in range(40000):
                out.write(json.dumps({"text": " ".join(str(rng.randrange(10 ** 9)) for _ in range(100))}) + "\n")
        flags = ["--tokenizer-model", GOLDEN / "tokenizers/gpt2", "--append-eod", "--workers", 2]
        whole = preprocess(source, "whole", *flags)
        part, size = pathlib.Path("again_text_document.bin.part"), 0
        for _ in range(2):  # each time it ends some way further on
            with start("mgc-data", "preprocess", "--input", source, "--output-prefix", "again", *flags) as process:
                wait_until(lambda: part.exists() and part.stat().st_size > size + (1 << 20), process)
                end(process, signal.SIGTERM)
            size = part.stat().st_size
            self.assertFalse(pathlib.Path("again_text_document.bin").exists())
        out = preprocess(source, "again", *flags).stdout
        self.assertIn("after an earlier run", out)
        for ending in ("bin", "idx"):
            self.same(f"again_text_document.{ending}", f"whole_text_document.{ending}")

    def test_another_call_does_not_go_on(self):
        pathlib.Path("in.jsonl").write_text('{"text": "a"}\n')
        pathlib.Path("out.state.json").write_text('{"format": "mgc preprocess 1", "of": {}}')
        refuse("out.state.json: is of a run with another value of: input files, --json-keys, flags", preprocess, "in.jsonl", "out", *BYTES)
        preprocess("in.jsonl", "out", *BYTES, "--restart")
        self.assertFalse(pathlib.Path("out.state.json").exists())

    def begin(self, *flags):
        """A call that is ended before it is done: its state is out.state.json."""
        write_lines("in.jsonl", (" ".join(map(str, range(i, i + 100))) for i in range(20000)))
        with start("mgc-data", "preprocess", "--input", "in.jsonl", "--output-prefix", "out", *flags) as process:
            wait_until(pathlib.Path("out_text_document.bin.part").exists, process)
            end(process, signal.SIGTERM)

    def test_another_tokenizer_of_the_same_name_does_not_go_on(self):
        original = (GOLDEN / "tokenizers/gpt2/tokenizer.json").read_text()
        pathlib.Path("tokenizer.json").write_text(original)
        flags = ["--tokenizer-model", "tokenizer.json"]
        self.begin(*flags)
        changed = json.loads(original)
        vocabulary = changed["model"]["vocab"]
        vocabulary["1"], vocabulary["2"] = vocabulary["2"], vocabulary["1"]
        pathlib.Path("tokenizer.json").write_text(json.dumps(changed))
        refuse("another value of: contents of the tokenizer's files (tokenizer.json); expected ", preprocess, "in.jsonl", "out", *flags)
        pathlib.Path("tokenizer.json").write_text(original)
        done = preprocess("in.jsonl", "out", *flags)
        self.assertIn("20000 documents", done.stdout)
        self.assertIn("after an earlier run", done.stdout)

    def test_a_commit_that_fails_or_is_killed_is_gone_on_with(self):
        """IndexedWriter.h lists the states between its steps."""
        write_lines("in.jsonl", ("a" * i for i in range(50)))
        pathlib.Path("old.jsonl").write_text('{"text": "b"}\n')
        for source, out in ("in.jsonl", "new"), ("old.jsonl", "out"), ("old.jsonl", "old"):
            preprocess(source, out, *BYTES)
        pathlib.Path("out_text_document.idx.part").mkdir()
        refuse("out_text_document.idx.part: cannot be written: Is a directory", preprocess, "in.jsonl", "out", *BYTES)
        pathlib.Path("out_text_document.idx.part").rmdir()
        parts = ["out.state.json", *(f"out_text_document.{name}.part" for name in ("bin", "lengths", "documents"))]
        kept = {name: pathlib.Path(name).read_bytes() for name in parts}
        new, old = ({ending: pathlib.Path(f"{name}_text_document.{ending}").read_bytes() for ending in ("bin", "idx")}
                    for name in ("new", "old"))
        others = [parts[0], *parts[2:]]  # the tokens have their name
        for bins, index, names in [(old["bin"], old["idx"], parts), (old["bin"], None, parts), (new["bin"], None, others),
                                   (new["bin"], new["idx"], others), (new["bin"], new["idx"], parts[:1])]:
            for path in pathlib.Path(".").glob("out*"):
                path.unlink()
            files = {name: kept[name] for name in names} | {"out_text_document.bin": bins, "out_text_document.idx": index}
            for name, content in files.items():
                if content is not None:
                    pathlib.Path(name).write_bytes(content)
            done = preprocess("in.jsonl", "out", *BYTES)
            self.assertEqual(done.returncode, 0, (names, done.stderr))
            self.assertIn("50 documents, 1225 tokens", done.stdout)
            self.assertIn("after an earlier run", done.stdout)
            for ending in ("bin", "idx"):
                self.same(f"out_text_document.{ending}", f"new_text_document.{ending}")
            self.assertEqual(len(list(pathlib.Path(".").glob("out*"))), 2)
        pathlib.Path("out.state.json").write_bytes(kept["out.state.json"])
        for ending, content in old.items():
            pathlib.Path(f"out_text_document.{ending}").write_bytes(content)
        refuse("has 1 documents, 1 sequences and 1 tokens, expected the 50, 49 and 1225 that an earlier", preprocess,
               "in.jsonl", "out", *BYTES)

    @unittest.skipUnless(shutil.which("strace"), "no strace, which kills at a system call")
    def test_killed_at_each_rename(self):
        flags = [*BYTES, "--json-keys", "text", "title"]
        pathlib.Path("in.jsonl").write_text('{"text": "new", "title": "n"}\n')
        pathlib.Path("old.jsonl").write_text('{"text": "a", "title": "of the old"}\n')
        for source, out in ("in.jsonl", "new"), ("old.jsonl", "old"):
            preprocess(source, out, *flags)
        for count in range(1, 7):
            preprocess("old.jsonl", "out", *flags)
            kill = ["strace", "-f", "-o", "/dev/null", "-e", "trace=rename", "-e", f"inject=rename:signal=KILL:when={count}"]
            tool_runs.run(*kill, tool_runs.BIN / "mgc-data", "preprocess", "--input", "in.jsonl", "--output-prefix", "out", *flags,
                          code=-signal.SIGKILL if count < 6 else 0)  # state, 2 pairs
            for key in ("text", "title"):
                new, old, out = ([pathlib.Path(f"{name}_{key}_document.{ending}") for ending in ("bin", "idx")]
                                 for name in ("new", "old", "out"))
                if out[1].exists():
                    self.assertIn([path.read_bytes() for path in out],
                                  [[path.read_bytes() for path in pair] for pair in (new, old)])
            preprocess("in.jsonl", "out", *flags)
            for name in "text_document.bin", "text_document.idx", "title_document.bin", "title_document.idx":
                self.same(f"out_{name}", f"new_{name}")
            self.assertEqual(list(pathlib.Path().glob("out.state.json*")), [])

    def test_what_is_no_state(self):
        pathlib.Path("in.jsonl").write_text('{"text": "a"}\n')
        for state in '{"format": 1}', "[]", "{", '{"format": {}}':
            pathlib.Path("out.state.json").write_text(state)
            refuse("out.state.json: is no state of mgc-data preprocess", preprocess, "in.jsonl", "out", *BYTES)

    def test_a_restart_forgets_the_earlier_run(self):
        """Also one that ends before its own state is saved: the files that state was of are gone."""
        pathlib.Path("in.jsonl").write_text("not JSON\n")
        pathlib.Path("out.state.json").write_text('{"format": "mgc preprocess 1"}')
        done = preprocess("in.jsonl", "out", *BYTES, "--restart", code=1)
        self.assertFalse(pathlib.Path("out.state.json").exists())

    def test_an_ignored_signal_stays_ignored(self):
        write_lines("in.jsonl", ["1 2 3 " * 100] * 100000)
        with start("mgc-data", "preprocess", "--input", "in.jsonl", "--output-prefix", "out", *BYTES,
                   preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as process:
            wait_until(pathlib.Path("out_text_document.bin.part").exists, process)
            end(process, signal.SIGHUP, 0)

    def test_lines_that_are_none(self):
        good = b'{"text": "a"}\n'
        for line, message in [
                (b"\n", "line 2: is blank"),
                (b"\xef\xbb\xbf{}\n", "line 2: begins with a byte order mark"),
                (b'{"text": "\\ud800"}\n', "line 2: byte 16: "),
                (b'{"text": 1}\n', 'line 2: byte 9: "1}", expected a text, or a list of texts, of "text"'),
                (b'{"text": ["a", null]}\n', "expected a text, or a list of texts"),
                (b'{"title": "a"}\n', 'line 2: has no "text", but "title"; --json-keys names what to read'),
                (b'{"text": "a"\n', "line 2: byte 12: the line ends, expected ,"),
                (b'{"text": "a"} x\n', "expected nothing behind the object"),
                (b'{"text": "a\tb"}\n', "without control characters"),
                (b'{"text": "\xff"}\n', "line 2: byte 10: 0xff is not UTF-8"),
                (b'{"n": 01, "text": ""}\n', "line 2: byte 7"),
                (b'{"n": ' + b"[" * 1000 + b"}\n", "at most 512 values inside each other")]:
            pathlib.Path("in.jsonl").write_bytes(good + line + good)
            done = preprocess("in.jsonl", "out", *BYTES, code=1)
            self.assertIn("in.jsonl: ", done.stderr)
            self.assertIn(message, done.stderr)

    def test_compressed_files(self):
        text = b"".join(b'{"text": "%d"}\n' % i for i in range(300000))
        members = gzip.compress(text[:1000000]) + gzip.compress(text[1000000:])
        zstd = subprocess.run(["zstd", "-qc"], input=text, capture_output=True).stdout if shutil.which("zstd") else b""
        for whole in (members, zstd):
            if not whole:
                continue
            pathlib.Path("in.jsonl").write_bytes(whole)
            self.assertIn("300000 documents, 1688890 tokens", preprocess("in.jsonl", "out", "--restart", *BYTES).stdout)
            pathlib.Path("in.jsonl").write_bytes(whole[:len(whole) // 2])
            refuse("in.jsonl: is cut off", preprocess, "in.jsonl", "out", "--restart", *BYTES)
        pathlib.Path("in.jsonl").write_bytes(members[:1000] + b"xx" + members[1002:])
        refuse("in.jsonl: is cut off, or is not what its first bytes say", preprocess, "in.jsonl", "out", "--restart", *BYTES)
        pathlib.Path("in.jsonl").write_bytes(b"BZh9")
        refuse("in.jsonl: is compressed, expected text, or gzip or zstd; bzip2 -dc < FILE makes it text", preprocess, "in.jsonl", "out",
               *BYTES)

    def test_texts_without_tokens(self):
        """A tokenizer without a token for what it does not know drops it."""
        pathlib.Path("tokenizer.json").write_text(json.dumps({"model": {"type": "BPE", "vocab": {"x": 0}, "merges": []}}))
        pathlib.Path("in.jsonl").write_text('{"text": "abc"}\n')
        done = preprocess("in.jsonl", "out", "--tokenizer-model", "tokenizer.json")
        self.assertIn("1 documents, 0 tokens", done.stdout)
        self.assertIn("no text gave a token", done.stderr)

    def test_a_search_that_is_given_up(self):
        """The regular expression of a tokenizer needs 2^40 steps in line 2: its tokens are not just left out."""
        split = {"type": "Split", "pattern": {"Regex": "(?:x+x+)+y"}, "behavior": "Isolated"}
        model = {"type": "WordLevel", "vocab": {"x": 0, "[UNK]": 1}, "unk_token": "[UNK]"}
        pathlib.Path("tokenizer.json").write_text(json.dumps({"pre_tokenizer": split, "model": model}))
        texts = ["x", "x " + 40 * "x" + "!y"]
        write_lines("in.jsonl", texts)
        refuse("in.jsonl: line 2: tokenizer.json.pre_tokenizer: the regular expression (?:x+x+)+y cannot", preprocess, "in.jsonl", "out", "--tokenizer-model", "tokenizer.json")
        self.assertFalse(pathlib.Path("out_text_document.idx").exists())

    def test_usage(self):
        pathlib.Path("in.jsonl").write_text('{"text": "5 3 1"}\n')
        for flags, code, message in [
                ([], 1, "needs --tokenizer-model"),
                (["--tokenizer-type", "Nobodys"], 2, "Nobodys"),
                (["--tokenizer-type", "NullTokenizer"], 1, "--vocab-size 0: expected 1 to"),
                (["--tokenizer-type", "NullTokenizer", "--vocab-size", 5], 1, '"5" is no token, expected 0 to 4'),
                (["--tokenizer-model", GOLDEN / "tokenizers/unigram", "--append-eod"], 1, "--append-eod: the tokenizer does not say"),
                (["--tokenizer-model", GOLDEN / "tokenizers/unigram", "--append-eod", "--eod-token", "</s>"], 0, ""),
                (["--tokenizer-model", GOLDEN / "tokenizers/unigram", "--append-eod", "--eod-token", "no"], 1, "no such token")]:
            self.assertIn(message, preprocess("in.jsonl", "out", *flags, code=code).stderr)

    def test_what_would_be_written_is_no_input_and_has_a_name(self):
        text = '{"text": "a"}\n'
        pathlib.Path("in_text_document.bin").write_text(text)
        for flags, message in [([], "--output-prefix in: in_text_document.bin is an input, expected another"),
                               (["--json-keys", "a", "a"], "--json-keys: found a twice, expected each once"),
                               (["--json-keys", "a/b"], "--json-keys a/b: is part of the files' names, expected no /")]:
            refuse(message, preprocess, "in_text_document.bin", "in", *BYTES, *flags)
        self.assertEqual(pathlib.Path("in_text_document.bin").read_text(), text)

    def test_output_that_cannot_be_written(self):
        pathlib.Path("in.jsonl").write_text('{"text": "a"}\n')
        indexed = GOLDEN / "indexed/docs_i32"
        for words in (["info", indexed], ["merge", "--input", indexed, "--output-prefix", "merged"], ["--help"], ["--version"],
                      ["preprocess", "--input", "in.jsonl", "--output-prefix", "out", *BYTES]):
            with self.subTest(words=words), open("/dev/full", "wb") as full:
                for given in {"stdout": full}, {"stdout": None, "preexec_fn": lambda: os.close(1)}:
                    self.assertRegex(run(*words, code=1, **given).stderr, "standard output: cannot be written: (No space left|Bad file)")

    def test_sentences(self):
        pathlib.Path("in.jsonl").write_text('{"text": "One sentence. Another one!  And\\na third?"}\n')
        done = preprocess("in.jsonl", "out", *BYTES, "--split-sentences", "--append-eod")
        self.assertIn("documents  1\n", run("info", "out_text_sentence").stdout)
        tokens = pathlib.Path("out_text_sentence.bin").read_bytes()[::2]
        self.assertTrue(tokens.startswith(b"One sentence.Another one!"))


unittest.main(argv=sys.argv[:1], verbosity=1)
