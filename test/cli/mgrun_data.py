"""mgrun --data-path: indexed files, blends, splits, a cache. usage: mgrun_data.py BIN ROOT"""
import json
import os
import pathlib
import random
import signal
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from tool_runs import (CLEAN, GOLDEN, compile_plan, end, enter_folder, expect, has_unnamed_file, read, records, run, start,  # noqa: E402
                       wait_until, write, write_word_level)


def setUpModule():
    enter_folder()
    rng = random.Random(1)
    for name, count in ("a", 300), ("b", 100):
        write_indexed(name, [[rng.randrange(128) for _ in range(rng.randrange(1, 60))] + [0] for _ in range(count)])
    for plan, flags in [("plan", ""), ("evaluated", "--evaluation"), ("dp2", "--dp 2"),
                        ("packed", "--reset-attention-mask --reset-position-ids")]:
        compile_plan(plan, GOLDEN / "llama/config.json", "--seq 16 --gbs 8 --mbs 2", flags)


def write_indexed(prefix, sequences):
    """The format of Megatron-LM: a sequence is a document."""
    with open(f"{prefix}.bin", "wb") as out:
        for tokens in sequences:
            out.write(struct.pack(f"<{len(tokens)}H", *tokens))
    lengths = [len(tokens) for tokens in sequences]
    offsets = [2 * sum(lengths[:i]) for i in range(len(lengths))]
    with open(f"{prefix}.idx", "wb") as out:
        out.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(lengths), len(lengths) + 1))
        out.write(struct.pack(f"<{len(lengths)}i{len(lengths)}q{len(lengths) + 1}q", *lengths, *offsets, *range(len(lengths) + 1)))


class Data(unittest.TestCase):
    def losses(self, plan, *flags, steps=3):
        path = pathlib.Path("log.jsonl")
        path.unlink(missing_ok=True)
        done = run("mgrun", plan, "--train-iters", steps, "--log", path, *flags)
        return [record["loss"] for record in records(path)], done.stdout + done.stderr

    def expect(self, code, message, *flags, plan="plan"):
        expect(code, message, "mgrun", plan, "--train-iters", 1, *flags)

    def test_one_prefix(self):
        losses, text = self.losses("plan", "--data-path", "a")
        self.assertIn("a: ", text)
        self.assertEqual(losses, self.losses("plan", "--data-path", "a.bin")[0])
        whole = self.losses("plan", "--data-path", "a", "--split", "1")[0]
        self.assertEqual(whole, self.losses("plan", "--train-data-path", "a")[0])
        self.expect(2, "--valid-data-path: would do nothing: there is no --eval-interval", "--train-data-path", "a", "--valid-data-path", "b")
        self.assertNotEqual(losses, self.losses("plan", "--data-path", "a", "--split", "50,50")[0])
        self.assertNotEqual(losses, self.losses("plan", "--data-path", "a", "--seed", 7)[0])

    def test_a_prefix_with_and_without_its_ending(self):
        for name in "a", "b":
            for ending in ".bin", ".idx":
                os.link(name + ending, f"text-{name}_text_document{ending}")
        os.link("a.bin", "field_content_document.bin")
        os.link("a.idx", "field_content_document.idx")
        losses, text = self.losses("plan", "--data-path", "text-a")
        self.assertEqual(losses, self.losses("plan", "--data-path", "a")[0])
        self.assertIn("mgrun: --data-path text-a: takes text-a_text_document.idx and text-a_text_document.bin, since there is no text-a.idx", text)
        losses, text = self.losses("plan", "--data-path", "0.3", "a_text_document", "0.7", "text-b.bin")
        self.assertEqual(losses, self.losses("plan", "--data-path", "0.3", "a", "0.7", "b")[0])
        self.assertIn("mgrun: --data-path a_text_document: takes a.idx and a.bin", text)
        self.expect(1, ["field: there is no field.idx and field.bin, and no field_text_document.idx and field_text_document.bin",
                        "near: field_content_document"], "--data-path", "field")
        self.expect(1, "none_text_document: there is no none_text_document.idx and none_text_document.bin, and no none.idx",
                    "--data-path", "none_text_document")
        info = run("mgc-data", "info", "text-a", "b_text_document")
        self.assertIn("text-a_text_document\n  type", info.stdout)
        self.assertIn("mgc-data: b_text_document: takes b.idx", info.stderr)
        run("mgc-data", "merge", "--input", "text-a", "text-b", "--output-prefix", "merged")
        expect(1, "near: field_content_document", "mgc-data", "info", "field")

    def test_the_same_in_every_layout(self):
        for flags in (["--data-path", "a"], ["--data-path", "0.3", "a", "0.7", "b"]):
            for one, two in zip(self.losses("plan", *flags)[0], self.losses("dp2", *flags)[0]):
                self.assertAlmostEqual(one, two, places=4)

    def test_blends_and_cache(self):
        blend = ["--data-path", "0.3", "a", "0.7", "b"]
        losses, text = self.losses("plan", *blend)
        self.assertIn("25 samples of a blend: 8 of a: ", text)
        for _ in range(2):
            self.assertEqual(losses, self.losses("plan", *blend, "--data-cache-path", "cache")[0])
        self.assertEqual(len(list(pathlib.Path("cache").iterdir())), 2)
        pathlib.Path("cache", next(pathlib.Path("cache").iterdir()).name).write_bytes(b"")
        self.expect(1, "cache/gpt-", *blend, "--data-cache-path", "cache")

    def test_a_damaged_cache(self):
        """Numbers of documents far beyond the file's: the tensor comes first, behind the header."""
        flags = ["--data-path", "a", "--data-cache-path", "damaged"]
        self.losses("plan", *flags)
        (index,) = pathlib.Path("damaged").iterdir()
        raw = bytearray(index.read_bytes())
        begin, header = 8 + struct.unpack_from("<Q", raw)[0], json.loads(raw[8 : 8 + struct.unpack_from("<Q", raw)[0]])
        first, last = header["document_index"]["data_offsets"]
        raw[begin + first : begin + last] = struct.pack("<i", 2**31 - 1) * ((last - first) // 4)
        index.write_bytes(raw)
        self.expect(1, "of sequence 2147483647, which are not there; remove the file in --data-cache-path", *flags)

    def test_documents(self):
        by_token, _ = self.losses("packed", "--data-path", "a", "--eod-token-id", 0)
        by_sequence, _ = self.losses("packed", "--data-path", "a", "--dataloader-inter-document-masking")
        self.assertNotEqual(by_token, by_sequence)  # tokens 0 stand within sequences, too

    def test_cyclic(self):
        cyclic = ["--data-path", "a", "--dataloader-type", "cyclic"]
        sharded, shared = self.losses("dp2", *cyclic)[0], self.losses("dp2", *cyclic, "--no-data-sharding")[0]
        self.assertNotEqual(sharded, shared)
        self.assertEqual(sharded, self.losses("dp2", *cyclic)[0])

    def test_a_run_that_ends_while_it_tokenizes(self):
        """A request to end is heard, and no file stays, however the run ends."""
        write_word_level("tokenizer.json", map(str, range(100)), "0")
        line = json.dumps({"text": "1 2 3 4 5 6 7 8 9 " * 50}) + "\n"
        write("large.jsonl", line * 100000)
        write("one.jsonl", line)
        trained = ["plan", "--data", "large.jsonl"]
        evaluated = ["evaluated", "--data", "one.jsonl", "--valid-data", "large.jsonl", "--eval-interval", "1"]
        for number, code, data in ((signal.SIGTERM, 130, trained), (signal.SIGKILL, -signal.SIGKILL, trained),
                                (signal.SIGTERM, 130, evaluated)):
            with tempfile.TemporaryDirectory() as folder:
                process = start("mgrun", *data, "--train-iters", "100000", "--tokenizer-model", "tokenizer.json",
                                env=CLEAN | {"TMPDIR": folder})
                wait_until(lambda: has_unnamed_file(process.pid, folder, 1 << 16), process)  # one.jsonl has fewer tokens
                _, errors = end(process, number, code)
                self.assertEqual(os.listdir(folder), [])
                if number == signal.SIGTERM:
                    self.assertIn("large.jsonl: a request to end came while its lines were tokenized", errors)

    def test_lines_are_tokenized(self):
        """The same losses as those of the files that mgc-data makes."""
        write_word_level("tokenizer.json", map(str, range(100)), "0")
        rng = random.Random(3)
        texts = (" ".join(str(rng.randrange(100)) for _ in range(rng.randrange(1, 60))) for _ in range(50))
        write("small.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in texts))
        run("mgc-data", "preprocess", "--input", "small.jsonl", "--output-prefix", "small", "--tokenizer-model", "tokenizer.json")
        losses, text = self.losses("plan", "--data", "small.jsonl", "--tokenizer-model", "tokenizer.json")
        self.assertIn("small.jsonl: ", text)
        self.assertEqual(losses, self.losses("plan", "--train-data-path", "small_text_document")[0])
        # Documents of a packed plan, and labels at their ends, are known by the tokenizer's end token.
        lines = ["--data", "small.jsonl", "--tokenizer-model", "tokenizer.json"]
        self.expect(1, "for a .jsonl a tokenizer whose tokenizer_config.json has eos_token", *lines, plan="packed")
        pathlib.Path("tokenizer_config.json").write_text('{"eos_token": "0"}')
        for plan, flags in ("packed", []), ("plan", ["--eod-mask-loss"]):
            losses = self.losses(plan, *lines, *flags)[0]
            self.assertEqual(losses, self.losses(plan, *lines, *flags, "--eod-token-id", 0)[0])
        pathlib.Path("tokenizer_config.json").unlink()

    def test_lines_without_a_text(self):
        write_word_level("tokenizer.json", map(str, range(100)), "0")
        write("chats.jsonl", '{"messages": [{"role": "user", "content": "1"}], "id": 3}\n')
        self.expect(1, ['chats.jsonl: line 1: has no "text", but "messages", "id"; --sft reads conversations', "--json-keys NAME reads"],
                    "--data", "chats.jsonl", "--tokenizer-model", "tokenizer.json")

    def test_errors(self):
        self.expect(1, "c.idx", "--data-path", "c")
        self.expect(2, "--split a: expected", "--data-path", "a", "--split", "a")
        self.expect(2, "excludes", "--data-path", "a", "--train-data-path", "b")
        self.expect(2, "requires", "--valid-data-path", "a")
        self.expect(2, "--data-cache-path: would do nothing", "--mock-data", "--data-cache-path", "x")
        self.expect(2, "--no-data-sharding: would do nothing", "--data-path", "a", "--no-data-sharding")
        self.expect(1, "--dataloader-inter-document-masking", "--data-path", "a", plan="packed")
        self.expect(1, "split train has no sequences", "--data-path", "a", "--split", "0,1")
        self.expect(1, "4294967295", "--data-path", "a", "--seed", 1 << 32)
        write_indexed("large", [[500] * 400] * 20)
        self.expect(1, "large.bin: sequence", "--data-path", "large")
        write("cut.bin", read("a.bin")[:-2])
        write("cut.idx", read("a.idx"))
        self.expect(1, "cut off", "--data-path", "cut")
        self.expect(1, "is a file of --data-path", "--data-path", "a", "--log", "a.bin")


unittest.main(argv=sys.argv[:1], verbosity=1)
