#!/usr/bin/env python3
"""Fine-tuning on conversations beside transformers: the loss of the first step is that of its model, its ids and its mask, with
every conversation in a sequence of its own and packed, over ranks; and transformers chats with the folder that is saved. Needs
torch and transformers, here or in build/peers (test/bench/setup-peers); without them it says so and ends with 77, which ctest
counts as skipped.

    test/e2e/conversations.py --bin build/release/bin [--model llama]
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import tempfile

from zoo import peers

torch, transformers = peers.use()

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "max_position_embeddings": 512, "pad_token_id": None}
MODELS = {  # class, further fields, tokenizer, its template, special tokens
    "llama": (transformers.LlamaConfig, {}, "llama3", "header_ids", {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}),
    "qwen2": (transformers.Qwen2Config, {}, "qwen2", "default_system", {"eos_token": "<|im_end|>"}),
    "mistral": (transformers.MistralConfig, {"sliding_window": None}, "mistral_metaspace", "inst_tight",
                {"bos_token": "<s>", "eos_token": "</s>"}),
    "gemma": (transformers.GemmaConfig, {"head_dim": 16}, "gemma", "turns", {"bos_token": "<bos>", "eos_token": "<eos>"}),
}
LENGTH, CHATS = 256, 8
RUNS = {"one": "", "tp2": "--tp 2", "cp2": "--cp 2", "dp2": "--dp 2"}
PACKED = "--reset-position-ids --reset-attention-mask"
TOLERANCE = 1e-5


def conversations(count):
    """The shortest without tools and thoughts, which every template takes."""
    lines = (GOLDEN / "chat/conversations.jsonl").read_text().splitlines()
    plain = [line for line in map(json.loads, lines) if all(message.keys() <= {"role", "content"} for message in line["messages"])]
    return sorted(plain, key=lambda line: len(json.dumps(line)))[:count]


def make_folder(name, folder):
    """A random model of transformers with a tokenizer and a chat template."""
    make, more, tokenizer, template, special = MODELS[name]
    document = json.loads((GOLDEN / "tokenizers" / tokenizer / "tokenizer.json").read_text()) | {"post_processor": None}
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps(document))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"} | special))
    shutil.copy(GOLDEN / "chat/templates" / f"{template}.jinja", folder / "chat_template.jinja")
    loaded = transformers.AutoTokenizer.from_pretrained(folder)
    torch.manual_seed(1)
    end = loaded.convert_tokens_to_ids(special["eos_token"])
    config = make(vocab_size=len(loaded), **SIZES | more | {"eos_token_id": end, "bos_token_id": None})
    model = transformers.AutoModelForCausalLM.from_config(config).float()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1 + torch.rand_like(weight))
    model.save_pretrained(folder)
    return loaded, model


def loss_of(tokenizer, model, lines):
    total, count = 0.0, 0
    for line in lines:
        chat = tokenizer.apply_chat_template(line["messages"], return_dict=True, return_assistant_tokens_mask=True)
        ids, mask = torch.tensor([chat["input_ids"][:LENGTH]]), torch.tensor([chat["assistant_masks"][:LENGTH]], dtype=torch.bool)
        with torch.no_grad():
            logits = model(input_ids=ids).logits[0, :-1]
        labels = ids[0, 1:].masked_fill(~mask[0, 1:], -100)
        total += torch.nn.functional.cross_entropy(logits, labels, ignore_index=-100, reduction="sum").item()
        count += (labels != -100).sum().item()
    return total / count, count


class Tools:
    def __init__(self, binaries, folder):
        self.binaries, self.folder = binaries, folder

    def run(self, program, *words):
        done = subprocess.run([self.binaries / program, *map(str, words)], cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{program} {' '.join(map(str, words))}: {done.stderr}")
        return done.stdout

    def train(self, flags, data, samples, *more):
        """The steps of the log."""
        shutil.rmtree(self.folder / "plan", ignore_errors=True)
        self.run("mgc", "compile", "model", "-o", "plan", "--seq", LENGTH, "--mbs", 1, "--gbs", samples, *flags.split())
        self.run("mgrun", "plan", "--data", data, "--sft", "--tokenizer-model", "model", "--load", "model", "--lr-decay-style", "constant",
                 "--log", "log", *more)
        steps = [json.loads(line) for line in (self.folder / "log").read_text().splitlines()]
        (self.folder / "log").unlink()
        return steps


def check_losses(name, tools, tokenizer, model, runs):
    lines = conversations(CHATS)
    (tools.folder / "chats.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    expected, tokens = loss_of(tokenizer, model, lines)
    shown = tools.run("mgc-data", "show", "chats.jsonl", "--tokenizer-model", "model", "--seq", LENGTH, "--count", CHATS, "--packed",
                      "--json")
    packed = len(shown.splitlines())
    wrong = 0
    for run, flags in runs.items():
        for kind, samples, more in (("own", CHATS, ""), ("packed", packed, PACKED)):
            if run == "dp2" and samples % 2:
                continue
            step = tools.train(f"{flags} {more}", "chats.jsonl", samples, "--train-iters", 1, "--lr", 0)[0]
            differs = abs(step["loss"] - expected)
            wrong += differs > TOLERANCE or step["tokens"] != tokens
            print(f"{name} {run} {kind}: {step['loss']:.7f}, transformers {expected:.7f}, {step['tokens']} tokens of {tokens}")
    return wrong


def check_chat(name, tools):
    line = {"messages": [{"role": "user", "content": "Where is the cat?"}, {"role": "assistant", "content": "on the mat"}]}
    (tools.folder / "one.jsonl").write_text((json.dumps(line) + "\n") * 4)
    tools.train("", "one.jsonl", 4, "--train-iters", 60, "--lr", "3e-3", "--save", "saved")
    chat = transformers.pipeline("text-generation", str(tools.folder / "saved"), dtype=torch.float32)
    said = chat(line["messages"][:1], max_new_tokens=24, do_sample=False)[0]["generated_text"][-1]["content"].strip()
    print(f"{name}: transformers says {said!r}")
    return not said.startswith("on the mat")  # where no token ends a turn, it goes on


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default="build/release/bin")
    parser.add_argument("--model", choices=sorted(MODELS), action="append")
    parser.add_argument("--run", choices=sorted(RUNS), action="append")
    options = parser.parse_args()
    wrong = 0
    for name in options.model or MODELS:
        with tempfile.TemporaryDirectory(prefix="mgc-chat-") as folder:
            tools = Tools(options.bin.resolve(), pathlib.Path(folder))
            tokenizer, model = make_folder(name, tools.folder / "model")
            wrong += check_losses(name, tools, tokenizer, model, {run: RUNS[run] for run in options.run or RUNS})
            wrong += check_chat(name, tools)
    raise SystemExit(1 if wrong else 0)


main()
