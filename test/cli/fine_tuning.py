"""mgrun --sft and mgc-data show: templates, what is refused, what is kept and saved. usage: fine_tuning.py BIN ROOT"""
import gzip
import json
import pathlib
import re
import shlex
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from tool_runs import BIN, CLEAN, GOLDEN, compile_plan, enter_folder, expect, records, run  # noqa: E402

MODEL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 1024, "hidden_size": 16, "intermediate_size": 16,
         "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 128, "pad_token_id": 0}
OWN = {"mgc": {"model": {"head": {"softcap": 5}}}}
TEMPLATE = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
SFT = ["--data", "chats.jsonl", "--sft", "--tokenizer-model", "tokenizer"]
STEP = ["--train-iters", 1, "--lr", "1e-3", "--lr-decay-style", "constant"]


def chat(question, answer, **more):
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer} | more]}


def write_lines(path, lines):
    pathlib.Path(path).write_text("".join(json.dumps(line) + "\n" for line in lines))


def setUpModule():
    enter_folder()
    shutil.copytree(GOLDEN / "tokenizers/qwen2", "tokenizer")
    pathlib.Path("tokenizer/chat_template.jinja").write_text(TEMPLATE)
    pathlib.Path("tokenizer/generation_config.json").write_text("{}")
    write_lines("chats.jsonl", [chat("the cat", f"sat on the mat {i}") for i in range(6)])
    with open("chats.jsonl", "a") as file:
        file.write("  \n\n")
    for name, config in ("model", MODEL), ("own", MODEL | OWN):
        pathlib.Path(f"{name}.json").write_text(json.dumps(config))
        compile_plan(name, f"{name}.json", "--seq 64 --gbs 2")


def loss(*flags, plan="model", data=()):
    pathlib.Path("log").unlink(missing_ok=True)
    run("mgrun", plan, *(data or SFT), *STEP, "--log", "log", *flags)
    return records("log")[0]["loss"], records("log")[0]["tokens"]


def shown(*flags):
    return [json.loads(line) for line in run("mgc-data", "show", "chats.jsonl", "--tokenizer-model", "tokenizer", "--json", *flags).stdout.splitlines()]


class FineTuning(unittest.TestCase):
    def test_show(self):
        samples = shown("--count", 6)
        self.assertEqual(len(samples), 6)
        document = samples[0]["documents"][0]
        learned = "".join(text for text, is_learned in zip(self.texts(document["ids"]), document["learned"]) if is_learned)
        self.assertRegex(learned, r"^sat on the mat \d<\|im_end\|>\n$")
        self.assertRegex(document["text"], r"^<\|im_start\|>user\nthe cat<\|im_end\|>\n<\|im_start\|>assistant\nsat")
        self.assertEqual(shown(), shown("--seed", 1234))  # mgrun's
        self.assertNotEqual(shown(), shown("--seed", 0))
        packed = shown("--packed", "--seq", 128)
        self.assertEqual([len(sample["documents"]) for sample in packed], [len(packed[0]["documents"])] * (len(packed) - 1)
                         + [6 - len(packed[0]["documents"]) * (len(packed) - 1)])
        text = run("mgc-data", "show", "chats.jsonl", "--tokenizer-model", "tokenizer", "--count", 1).stdout
        self.assertRegex(text, r"⟦sat on the mat \d<\|im_end\|>\n⟧")

    def texts(self, ids):
        vocabulary = json.loads(pathlib.Path("tokenizer/tokenizer.json").read_text())
        names = {id: text for text, id in vocabulary["model"]["vocab"].items()} | {t["id"]: t["content"] for t in vocabulary["added_tokens"]}
        return [names[id].replace("Ġ", " ").replace("Ċ", "\n") for id in ids]

    def test_thoughts_that_the_template_drops(self):
        thought = "<think>\nbecause\n</think>\n\nso it is"
        pathlib.Path("t.jinja").write_text(TEMPLATE.replace("m.content", "m.content.split('</think>')[-1]"))
        flags = ["--tokenizer-model", "tokenizer", "--chat-template", "t.jinja"]
        write_lines("thoughts.jsonl", [chat("why?", thought)])
        for learn in "answers", "all":
            expect(1, 'thoughts.jsonl: line 1: t.jinja: message 1: the template drops a part of its "content" (thoughts?); expected one that keeps it '
                      "(--chat-template FILE), or the message without it", "mgc-data", "show",
                   "thoughts.jsonl", *flags, "--sft-learn", learn)
        write_lines("thoughts.jsonl", [{"messages": chat("why?", thought)["messages"] + chat("a", "b")["messages"]}] * 2)
        for _ in range(2):  # rendered, and kept
            done = run("mgrun", "model", "--data", "thoughts.jsonl", "--sft", *flags, *STEP, "--data-cache-path", "kept_thoughts")
            self.assertIn("; 2 earlier answers without their thoughts, which the template drops", done.stderr)

    def test_long_conversations(self):
        """The time is not the square of the length: that was half a minute."""
        messages = sum((chat(f"question {i}", f"answer {i * i}")["messages"] for i in range(1500)), [])
        write_lines("long.jsonl", [{"messages": messages}])
        shown = run("mgc-data", "show", "long.jsonl", "--tokenizer-model", "tokenizer", "--json", "--seq", 65536, timeout=12).stdout
        document = json.loads(shown)["documents"][0]
        learned = [is_learned and not before for is_learned, before in zip(document["learned"], [False, *document["learned"]])]
        self.assertEqual(sum(learned), 1500)

    def test_less_memory_than_templates_may_have(self):
        show = [BIN / "mgc-data", "show", "chats.jsonl", "--tokenizer-model", "tokenizer", "--count", 1]
        for flags in "-v", "-Sv":
            run("bash", "-c", f"ulimit {flags} 4000000; exec " + shlex.join(map(str, show)))

    def test_what_is_learned(self):
        line = chat("a", "b")
        line["messages"] += chat("c", "d d d")["messages"]
        write_lines("turns.jsonl", [line] * 2)
        data = ["--data", "turns.jsonl", *SFT[2:]]
        answers, last, everything = (loss("--sft-learn", learn, data=data)[1] for learn in ("answers", "last-answer", "all"))
        self.assertLess(last, answers)
        self.assertLess(answers, everything)
        line["messages"][1]["weight"] = 0
        write_lines("turns.jsonl", [line] * 2)
        self.assertEqual(loss(data=data)[1], last)

    def test_compressed_and_kept(self):
        plain = loss()
        pathlib.Path("chats.jsonl.gz").write_bytes(gzip.compress(pathlib.Path("chats.jsonl").read_bytes()))
        self.assertEqual(loss(data=["--data", "chats.jsonl.gz", *SFT[2:]]), plain)
        self.assertEqual(loss("--data-cache-path", "kept"), plain)
        kept, = pathlib.Path("kept").iterdir()
        environment = CLEAN | {"MGC_PYTHON": "/bin/false"}
        for flags in [], ["--chat-template", "tokenizer/chat_template.jinja"]:
            expect(1, ["needs Python 3 with jinja2", "apt install python3-jinja2"], "mgrun", "model", *SFT, *STEP, *flags, env=environment)
        kept.write_bytes(kept.read_bytes().replace(b"mat", b"hat", 1))  # damaged: made again
        self.assertEqual(loss("--data-cache-path", "kept"), plain)
        self.assertNotIn(b"hat", kept.read_bytes())

    def test_rows_of_parquet(self):
        """By a module in the place of pyarrow."""
        folder = pathlib.Path("modules/pyarrow")
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
        (folder / "parquet.py").write_text(
            "class ParquetFile:\n    def __init__(self, path): pass\n    def iter_batches(self): return [self]\n"
            f"    def to_pylist(self): return [{chat('a', 'b')} | {{'score': float(text)}} for text in ('nan', '1')]\n")
        pathlib.Path("rows.parquet").touch()
        show = ["mgc-data", "show", "rows.parquet", "--tokenizer-model", "tokenizer"]
        environment = {"env": CLEAN | {"PYTHONPATH": "modules"}}
        expect(1, 'rows.parquet: row 1: "score": has NaN or Infinity', *show, **environment)
        self.assertIn("rows.parquet: row 2; ", run(*show, "--sft-ignore-fields", "score", **environment).stdout)

    def test_refusals(self):
        for line, message in ((chat("a", "b", tool_calls=[{"function": {"name": "f", "arguments": {}}}]),
                               'line 1: message 1: "tool_calls" is not read by the chat template of tokenizer'),
                              (chat("a", "b") | {"tools": [{}]}, '"tools" are not read by'),
                              (chat("a", "b") | {"id": 1}, 'line 1: "id" is not understood'),
                              (chat("a", "\ufdd0"), "has a character U+FDD0"),
                              (chat("a", "b") | {"chat_template_kwargs": {"x": 1}}, '"x" is not read by')):
            write_lines("bad.jsonl", [line])
            expect(1, ["mgrun: bad.jsonl: ", message], "mgrun", "model", "--data", "bad.jsonl", *SFT[2:], *STEP)
        known = ("{% for m in messages %}{% if m.role in ['user', 'assistant'] %}<|im_start|>{{ m.content }}"
                 "{% for t in (m.tool_calls or [])[:1] %}{{ t.function.name }}{% endfor %}\n{% endif %}{% endfor %}Be kind.")
        pathlib.Path("t.jinja").write_text(known)
        call = {"function": {"name": "f", "arguments": {}}}
        for messages, message in (([chat("2+2=4, yes?", "yes", role="Assistant"), chat("sure?", "I am")], 'message 1: its "content" is not in'),
                                  ([{"messages": [{"role": "developer", "content": "Be kind."}]}, chat("a", "b")],
                                   'message 0: its "content" is not in'),
                                  ([chat("a", "b", tool_calls=[call, call])], "message 1: call 1 is not in")):
            write_lines("bad.jsonl", [{"messages": sum((each["messages"] for each in messages), [])}])
            expect(1, ["bad.jsonl: line 1: t.jinja: " + message], "mgrun", "model", "--data", "bad.jsonl", *SFT[2:], *STEP,
                   "--chat-template", "t.jinja")
        pathlib.Path("t.jinja").write_bytes(b"\xff\xfe{{ messages }}")
        expect(1, "t.jinja: byte 0xff at position 0 is not UTF-8", "mgrun", "model", *SFT, *STEP, "--chat-template", "t.jinja")
        for text, message in (("", "t.jinja: is empty, expected a template in Jinja"),
                              ("{{ '\\ud800' }}{{ messages[0].content }}{{ messages[1].content }}", "half of a character"),
                              (TEMPLATE.replace("{{ m.content }}", "{% set c %}{% generation %}{{ m.content }}{% endgeneration %}{% endset %}{{ c | upper }}"),
                               "the template changes what {% generation %} marks"),
                              ("{% if %}", "t.jinja: line 1: Expected an expression"),
                              ("{{ raise_exception('not so') }}", "chats.jsonl: line 1: t.jinja: not so"),
                              ("{{ messages[9].content.x }}", "the template: UndefinedError"),
                              ("{{ messages | length }}", 'message 0: its "content" is not in the text')):
            pathlib.Path("t.jinja").write_text(text)
            expect(1, message, "mgrun", "model", *SFT, *STEP, "--chat-template", "t.jinja")
        expect(1, "--chat-template-kwargs: is [1], expected a JSON object", "mgrun", "model", *SFT, *STEP, "--chat-template-kwargs", "[1]")
        expect(1, '--chat-template-kwargs: "think" is not read by', "mgrun", "model", *SFT, *STEP, "--chat-template-kwargs", '{"think": 1}')
        expect(2, "--sft-learn", "mgrun", "model", *SFT, *STEP, "--sft-learn", "some")

    def test_damaged_folders(self):
        config = json.loads(pathlib.Path("tokenizer/tokenizer_config.json").read_text())
        expected = 'expected a text, or a list of objects with "name" and "template", one of them with the name "default"'
        cases = [("tokenizer_config.json", f"is {text}, expected an object", text) for text in ("[1]", "null")]
        cases += [("tokenizer_config.json", ["chat_template: is " + json.dumps(value, separators=(",", ":")), expected], json.dumps(config | {"chat_template": value}))
                  for value in (5, "", [], {}, [{"name": "rag", "template": "x"}])]
        cases += [("chat_template.jinja", "has 4194305 bytes, expected at most 4194304", " " * (4194304 + 1)),
                  ("tokenizer_config.json", "chat_template: has 4194305 bytes, expected at most 4194304",
                   json.dumps(config | {"chat_template": " " * (4194304 + 1)}))]
        cases += [(name, "cannot open", None) for name in ("chat_template.jinja", "tokenizer_config.json", "special_tokens_map.json")]
        for name, message, text in cases:
            shutil.rmtree("damaged", ignore_errors=True)
            shutil.copytree("tokenizer", "damaged")
            path = pathlib.Path("damaged") / name
            path.unlink(missing_ok=True)
            path.write_text(text) if text is not None else path.symlink_to("missing")
            parts = [message] if isinstance(message, str) else message
            expect(1, [f"damaged/{name}: ", *parts], "mgc-data", "show", "chats.jsonl", "--tokenizer-model", "damaged")

    def test_saved_folder_is_whole(self):
        run("mgrun", "model", *SFT, *STEP, "--save", "saved")
        names = {path.name for path in pathlib.Path("saved").iterdir()}
        self.assertLessEqual({"tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"}, names)
        pathlib.Path("other.jinja").write_text(TEMPLATE.replace("user", "user "))
        run("mgrun", "model", *SFT, *STEP, "--chat-template", "other.jinja", "--save", "other")
        self.assertEqual(pathlib.Path("other/chat_template.jinja").read_text(), pathlib.Path("other.jinja").read_text())
        # From a checkpoint of the folder, without a tokenizer that is named.
        run("mgrun", "model", "--mock-data", "--load", "saved/iter_0000001", "--finetune", *STEP, "--save", "again")
        self.assertEqual(pathlib.Path("again/tokenizer.json").read_bytes(), pathlib.Path("tokenizer/tokenizer.json").read_bytes())
        run("mgrun", "model", *SFT, *STEP, "--save", "bare", "--no-save-tokenizer-assets")
        self.assertFalse(pathlib.Path("bare/tokenizer.json").exists())

    def test_saved_folder_chats_as_it_was_trained(self):
        """The template in Jinja that stands for ChatML, or for one in JSON, writes the same texts and marks the same tokens as learned."""
        import jinja2
        shutil.copytree("tokenizer", "bare_tokenizer", ignore=shutil.ignore_patterns("chat_template.jinja"))
        roles = {"user": {"before": "<u \"'\\n{{ %}\\\\>\u00e9\n\n", "after": " {# \t"}, "assistant": {"before": "  \n<a>\n", "after": "\n \n", "learn": True},
                 "critic": {"before": "<no>", "after": "|", "learn": True}, "system": {}}
        pathlib.Path("t.json").write_text(json.dumps({"begin": "\n{% begin %}", "roles": roles}))
        line = chat("\nthe cat ", " sat\n")
        own = {"messages": [{"role": "user", "content": "\n{{ a }}"}, {"role": "assistant", "content": " b\n"}, {"role": "critic", "content": "c"}]}
        for name, lines, flags, prompt in (("ml", [line], [], "<|im_start|>assistant\n"), ("json", [own], ["--chat-template", "t.json"], roles["assistant"]["before"])):
            write_lines("one.jsonl", lines * 2)
            data = ["--data", "one.jsonl", "--sft", "--tokenizer-model", "bare_tokenizer", *flags]
            run("mgrun", "model", *data, *STEP, "--save", f"by_{name}")
            show = lambda *given: run("mgc-data", "show", "one.jsonl", "--json", *given).stdout
            self.assertEqual(show("--tokenizer-model", "bare_tokenizer", *flags), show("--tokenizer-model", f"by_{name}"))
            text = pathlib.Path(f"by_{name}/chat_template.jinja").read_text()
            template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(re.sub("{% (end)?generation %}", "", text))
            whole = json.loads(show("--tokenizer-model", "bare_tokenizer", *flags).splitlines()[0])["documents"][0]["text"]
            self.assertEqual(template.render(messages=lines[0]["messages"], add_generation_prompt=True), whole + prompt)
        write_lines("one.jsonl", [{"prompt": "a", "completion": "b"}] * 2)
        run("mgrun", "model", "--data", "one.jsonl", "--sft", "--tokenizer-model", "bare_tokenizer", *STEP, "--save", "by_none")
        self.assertFalse(pathlib.Path("by_none/chat_template.jinja").exists())

    def test_generation_config_that_nobody_can_read(self):
        shutil.copytree("tokenizer", "generates")
        for text, why in ("{ no", "is not JSON"), ("[1]", "is none, expected a JSON object"):
            pathlib.Path("generates/generation_config.json").write_text(text)
            said = run("mgrun", "model", *SFT[:-1], "generates", *STEP, "--save", "generated").stderr
            self.assertIn("generates/generation_config.json: ", said)
            self.assertIn(why, said)
            self.assertIn("not copied to --save", said)
            self.assertFalse(pathlib.Path("generated/generation_config.json").exists())
            self.assertTrue(pathlib.Path("generated/tokenizer.json").exists())
            shutil.rmtree("generated")

    def test_one_pass_over_validation(self):
        compile_plan("evaluated", "model.json", "--seq 64 --gbs 4 --evaluation")
        said = run("mgrun", "evaluated", *SFT, "--valid-data", "chats.jsonl", "--eval-interval", 1, "--eval-iters", 3, *STEP).stderr
        self.assertRegex(said, r"validation: chats.jsonl: 6 conversations .*; --eval-iters 3 of 4 samples are 2.00 epochs, --eval-iters 2 is one")

    def test_a_save_spares_the_weights_that_it_begins_with(self):
        run("mgrun", "model", "--mock-data", *STEP, "--save", "base", "--no-save-optim")
        before = pathlib.Path("base/model.safetensors").read_bytes()
        pathlib.Path("link").symlink_to("base")
        for load, save in ("base", "base"), ("link", "base/"), ("base", "link"), ("base/model.safetensors", "../" + pathlib.Path.cwd().name + "/base"):
            expect(1, ["--save: ", "holds the weights that --load begins with, and the save would replace config.json, model.safetensors; "
                       "expected another folder; --force"], "mgrun", "model", *SFT, *STEP, "--load", load, "--save", save)
        self.assertEqual(pathlib.Path("base/model.safetensors").read_bytes(), before)
        run("mgrun", "model", *SFT, *STEP, "--load", "base", "--save", "base", "--force")
        self.assertNotEqual(pathlib.Path("base/model.safetensors").read_bytes(), before)
        run("mgrun", "model", *SFT, *STEP[2:], "--train-iters", 2, "--load", "base", "--save", "base")  # its own checkpoints now

    def test_a_save_is_no_checkpoint(self):
        run("mgrun", "model", "--mock-data", *STEP, "--save", "kept_in")
        pathlib.Path("best").symlink_to("kept_in/iter_0000001")
        for folder in "kept_in/iter_0000001", "best":
            for flags in [], ["--force"]:
                expect(1, ["--save: ", "is a checkpoint", "expected another folder"], "mgrun", "model", "--mock-data", "--load", "kept_in",
                       "--finetune", *STEP, "--save", folder, "--no-save-optim", *flags)

    def test_a_run_that_does_not_begin_leaves_no_empty_folder(self):
        pathlib.Path("bad_lines.jsonl").write_text("no JSON\n")
        pathlib.Path("there").mkdir()
        for folder in "a/b", "there/b":
            expect(1, "bad_lines.jsonl: line 1", "mgrun", "model", "--data", "bad_lines.jsonl", *SFT[2:], *STEP, "--save", folder)
        self.assertFalse(pathlib.Path("a").exists())
        self.assertEqual(list(pathlib.Path("there").iterdir()), [])

    def test_another_template_is_no_resume(self):
        run("mgrun", "model", *SFT, *STEP, "--save", "first")
        pathlib.Path("tokenizer/chat_template.jinja").write_text(TEMPLATE + " ")
        try:
            expect(1, "contents of the chat template: found the hash", "mgrun", "model", *SFT, *STEP[2:], "--load", "first", "--train-iters", 2)
        finally:
            pathlib.Path("tokenizer/chat_template.jinja").write_text(TEMPLATE)

    def test_other_conversations_are_no_resume(self):
        lines = pathlib.Path("chats.jsonl").read_text().splitlines(keepends=True)[:6]
        changed = ["--data", "changed.jsonl", *SFT[2:]]
        more = lambda *flags, data=changed, code=0: run("mgrun", "model", *data, *STEP[2:], "--train-iters", 3, "--load", "before", *flags, code=code)
        write = lambda lines: pathlib.Path("changed.jsonl").write_text("".join(lines))
        write(lines)
        run("mgrun", "model", *changed, *STEP[2:], "--train-iters", 3, "--exit-interval", 1, "--save", "before")
        for other in [lines[0].replace("cat", "hat"), *lines[1:]], lines[::-1]:
            write(other)
            self.assertIn("contents of --data: found conversations with the checksum ", more(code=1).stderr)
            more("--finetune")
        write(line.replace('{"messages"', '{ "messages"') for line in lines)  # the same conversations
        more()
        shutil.copytree("tokenizer", "moved")
        more(data=changed[:-1] + ["moved"])
        pathlib.Path("same.jinja").write_text(TEMPLATE)
        more("--chat-template", "same.jinja")
        self.assertIn("--chat-template-kwargs: found {}, expected none, as in the checkpoint", more("--chat-template-kwargs", "{}", code=1).stderr)

    def test_own_architecture(self):
        said = run("mgrun", "own", *SFT, *STEP, "--save", "owned")
        self.assertIn("no class of transformers computes this architecture", said.stdout + said.stderr)
        config = json.loads(pathlib.Path("owned/config.json").read_text())
        self.assertEqual((config["model_type"], "architectures" in config), ("mgc", False))
        self.assertEqual(config["mgc"]["base"], {"model_type": "llama", "architectures": ["LlamaForCausalLM"]})
        compile_plan("again_own", "owned", "--seq 64 --gbs 2")
        before, after = (loss("--load", "owned", "--finetune", plan=plan) for plan in ("own", "again_own"))
        self.assertEqual(before, after)
        expect(1, "softcap", "mgrun", "model", *SFT, *STEP, "--load", "owned", "--finetune")
        shutil.copytree("owned", "edited", ignore=shutil.ignore_patterns("iter_*", "latest*"))
        for change, message in ((lambda own: own["mgc"].pop("base"), "mgc.base is missing, expected an object"),
                                (lambda own: own["mgc"].update(base=5), 'mgc.base: found 5, expected an object {"model_type": .., ..}'),
                                (lambda own: own.update(model_type="llama"), "mgc.base is of model_type mgc, found")):
            edited = json.loads(json.dumps(config))
            change(edited)
            pathlib.Path("edited/config.json").write_text(json.dumps(edited))
            expect(1, f"edited/config.json: {message}", "mgc", "compile", "edited", "-o", "edited_plan")
            expect(1, f"edited/config.json: {message}", "mgrun", "own", *SFT, *STEP, "--load", "edited")


unittest.main(argv=sys.argv[:1], verbosity=1)
