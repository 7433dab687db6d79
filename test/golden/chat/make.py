#!/usr/bin/env python3
"""Writes conversations.jsonl and expected.json with transformers (5.24): a venv with it runs this, the tests do not.

expected.json: {template: {"tokenizer": folder of ../tokenizers, "rows": [a digest for each conversation, or null]}}. A digest is
that of the ids and of the learned ones among them; null where the template refuses the conversation or does not read all of it, or drops a part of the last answer.
Which tokens are learned follows from {% generation %} marks and the places of tokens, before white space is trimmed off them.
"""
import json
import pathlib
import random
import re
import tempfile

from transformers import AutoTokenizer

HERE = pathlib.Path(__file__).resolve().parent
TOKENIZERS = {"chatml": "qwen2", "default_system": "gpt2", "header_ids": "llama3", "inst": "llama2", "inst_tight": "mistral_metaspace",
              "turns": "gemma", "end_of_all": "llama2_metaspace", "speakers": "llama2", "zephyr": "llama2_metaspace",
              "commands": "deepseek", "thoughts_dropped": "deepseek", "thoughts_last": "qwen2", "tools_inline": "mistral_metaspace",
              "channels": "o200k", "glm": "o200k", "roles_of_granite": "gpt2_prefix_space", "instruction": "flagged_tokens",
              "with_break": "unigram", "step": "unigram_precompiled", "wide_marks": "wordpiece_cased"}
WORDS = ["the", "cat", "sat", "on", "mat", "Yes", "No", "naïve", "e\u0301te\u0301", "日本語", "\U0001F642", "x=1", "{code}", "<b>",
         "it's", "two  blanks", "tab\there", "line\nend", "1234", "नमस्ते", "مرحبا", "ﬁve", "...", "</s>", "<|im_end|>", "Ⅻ", "\u00a0wide"]
TOOL = {"type": "function", "function": {"name": "weather", "description": "Says how it is", "parameters": {
    "type": "object", "required": ["place"], "properties": {"place": {"type": "string", "description": "where"}}}}}


def text_of(r, most=10):
    text = " ".join(r.choice(WORDS) for _ in range(r.randint(1, most)))
    return r.choice(["{}"] * 7 + [" {}", "{}\n", "\n{} "]).format(text)


def conversation(r):
    kind = r.choice(["plain"] * 4 + ["thoughts", "inline", "tools"])
    messages, line = [], {}
    if r.random() < 0.4:
        messages.append({"role": "system", "content": text_of(r)})
    for _ in range(r.randint(1, 3)):
        messages.append({"role": "user", "content": text_of(r)})
        if kind == "tools" and r.random() < 0.6:
            call = {"type": "function", "function": {"name": "weather", "arguments": {"place": text_of(r, 2)}}}
            messages += [{"role": "assistant", "content": "", "tool_calls": [call]},
                         {"role": "tool", "name": "weather", "content": text_of(r)}]
            line["tools"] = [TOOL]
        answer = {"role": "assistant", "content": text_of(r)}
        if kind == "thoughts":
            answer["reasoning_content"] = text_of(r)
        if kind == "inline":
            answer["content"] = f"<think>\n{text_of(r)}\n</think>\n\n{text_of(r)}"
        messages.append(answer)
    return {"messages": messages} | line


def is_read(template, line):
    fields = {name for message in line["messages"] for name in message} - {"role", "content", "name"} | line.keys() - {"messages"}
    return all(name in template or (name == "reasoning_content" and "thinking" in template) for name in fields)


def has_last_answer(text, line):
    """But for white space."""
    return "".join(line["messages"][-1]["content"].split()) in "".join(text.split())


def tokenizer_of(name, folder):
    source = HERE.parent / "tokenizers" / name
    document = json.loads((source / "tokenizer.json").read_text()) | {"post_processor": None}
    known = [row["content"] for row in document["added_tokens"]]
    (folder / "tokenizer.json").write_text(json.dumps(document))
    special = {}
    for key, choices in (("bos_token", ("<s>", "<bos>", "<|begin_of_text|>", "<|endoftext|>", "[CLS]")),
                         ("eos_token", ("</s>", "<eos>", "<|eot_id|>", "<|im_end|>", "<|endoftext|>", "[SEP]"))):
        special |= next(({key: token} for token in choices if token in known), {})
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"} | special))
    return AutoTokenizer.from_pretrained(folder), special


def digest(ids, learned):
    value = 0xCBF29CE484222325  # FNV-1a
    for byte in json.dumps([ids, learned], separators=(",", ":")).encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def row_of(tokenizer, template, line):
    if not is_read(template, line):
        return None
    try:
        text = tokenizer.apply_chat_template(line["messages"], tools=line.get("tools"), chat_template=template, tokenize=False)
        found = tokenizer.apply_chat_template(line["messages"], tools=line.get("tools"), chat_template=template, return_dict=True,
                                              return_assistant_tokens_mask=True)
    except Exception:
        return None
    return digest(found["input_ids"], found["assistant_masks"]) if has_last_answer(text, line) else None


def main():
    r = random.Random(1)
    lines = [conversation(r) for _ in range(200)]
    with open(HERE / "conversations.jsonl", "w") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    expected = {}
    for path in sorted((HERE / "templates").glob("*.jinja")):
        with tempfile.TemporaryDirectory() as folder:
            tokenizer, special = tokenizer_of(TOKENIZERS[path.stem], pathlib.Path(folder))
            rows = [row_of(tokenizer, path.read_text(), line) for line in lines]
        expected[path.stem] = {"tokenizer": TOKENIZERS[path.stem], "special": special, "rows": rows}
        print(path.stem, TOKENIZERS[path.stem], special, sum(row is not None for row in rows), "rows")
    (HERE / "expected.json").write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in expected.items()) + "\n}\n")


main()
