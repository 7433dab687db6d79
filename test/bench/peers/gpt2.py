"""GPT-2 in eager PyTorch, as lean as it gets: fused attention, fused AdamW, no framework around it.

    gpt2.py prepare FOLDER --config config.json --batch 4 --sequence 256     weights.safetensors and data.safetensors
    gpt2.py train FOLDER --config config.json --steps 8 --threads 2          one JSON line per step: loss, seconds

Weights have Hugging Face's names and layouts (matrices are [in, out]), so that mgc trains from the same file.
"""
import argparse
import json
import pathlib
import struct
import time

import numpy
import torch
import torch.nn.functional as F


def save(path, tensors):
    """name -> numpy array, as safetensors."""
    names = {"float32": "F32", "int32": "I32"}
    header, offset = {}, 0
    for name, array in tensors.items():
        end = offset + array.nbytes
        header[name] = {"dtype": names[str(array.dtype)], "shape": array.shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(array.tobytes())


def load(path):
    """safetensors -> name -> torch tensor."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    types = {"F32": numpy.float32, "I32": numpy.int32}
    tensors = {}
    for name, entry in json.loads(content[8:8 + length]).items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        array = numpy.frombuffer(content[begin:end], types[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = torch.from_numpy(array.copy())
    return tensors


def shapes(config):
    width = config["n_embd"]
    yield "transformer.wte.weight", (config["vocab_size"], width)
    yield "transformer.wpe.weight", (config["n_positions"], width)
    for layer in range(config["n_layer"]):
        for name, shape in (("ln_1.weight", (width,)), ("ln_1.bias", (width,)),
                            ("attn.c_attn.weight", (width, 3 * width)), ("attn.c_attn.bias", (3 * width,)),
                            ("attn.c_proj.weight", (width, width)), ("attn.c_proj.bias", (width,)),
                            ("ln_2.weight", (width,)), ("ln_2.bias", (width,)),
                            ("mlp.c_fc.weight", (width, 4 * width)), ("mlp.c_fc.bias", (4 * width,)),
                            ("mlp.c_proj.weight", (4 * width, width)), ("mlp.c_proj.bias", (width,))):
            yield f"transformer.h.{layer}.{name}", shape
    yield "transformer.ln_f.weight", (width,)
    yield "transformer.ln_f.bias", (width,)


def prepare(folder, config, batch, sequence):
    random = numpy.random.default_rng(1)
    weights = {}
    for name, shape in shapes(config):
        draw = random.standard_normal(shape, numpy.float32) * numpy.float32(0.02)
        is_norm = ".ln_" in name and name.endswith(".weight")
        weights[name] = numpy.ones(shape, numpy.float32) if is_norm else draw
    save(folder / "weights.safetensors", weights)
    stream = random.integers(0, config["vocab_size"], (1, batch, sequence + 1), numpy.int32)
    save(folder / "data.safetensors", {"input_ids": numpy.ascontiguousarray(stream[..., :-1]),
                                       "labels": numpy.ascontiguousarray(stream[..., 1:])})


def linear(x, weights, name):
    return torch.addmm(weights[name + ".bias"], x, weights[name + ".weight"])


def norm(x, weights, name, eps):
    return F.layer_norm(x, x.shape[-1:], weights[name + ".weight"], weights[name + ".bias"], eps)


def loss(weights, config, tokens, labels):
    batch, sequence = tokens.shape
    width, heads, eps = config["n_embd"], config["n_head"], config["layer_norm_epsilon"]
    table = weights["transformer.wte.weight"]
    x = (F.embedding(tokens, table) + weights["transformer.wpe.weight"][:sequence]).view(-1, width)
    for layer in range(config["n_layer"]):
        block = f"transformer.h.{layer}."
        qkv = linear(norm(x, weights, block + "ln_1", eps), weights, block + "attn.c_attn")
        q, k, v = qkv.view(batch, sequence, 3, heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(-1, width)
        x = x + linear(mixed, weights, block + "attn.c_proj")
        inner = F.gelu(linear(norm(x, weights, block + "ln_2", eps), weights, block + "mlp.c_fc"), approximate="tanh")
        x = x + linear(inner, weights, block + "mlp.c_proj")
    return F.cross_entropy(norm(x, weights, "transformer.ln_f", eps) @ table.T, labels.reshape(-1))


def train(folder, config, steps, threads, rate):
    torch.set_num_threads(threads)
    weights = {name: tensor.requires_grad_() for name, tensor in load(folder / "weights.safetensors").items()}
    data = load(folder / "data.safetensors")
    tokens, labels = data["input_ids"][0].long(), data["labels"][0].long()
    groups = [{"params": [w for w in weights.values() if w.dim() >= 2], "weight_decay": 0.01},
              {"params": [w for w in weights.values() if w.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), eps=1e-8, fused=True)
    for step in range(steps):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        value = loss(weights, config, tokens, labels)
        value.backward()
        torch.nn.utils.clip_grad_norm_(list(weights.values()), 1.0)
        optimizer.step()
        print(json.dumps({"step": step, "loss": value.item(), "seconds": time.perf_counter() - begin}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=("prepare", "train"))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--config", type=pathlib.Path, required=True)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--sequence", type=int, default=256)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--lr", type=float, default=1e-4)
    options = parser.parse_args()
    config = json.loads(options.config.read_text())
    if options.command == "prepare":
        prepare(options.folder, config, options.batch, options.sequence)
    else:
        train(options.folder, config, options.steps, options.threads, options.lr)


if __name__ == "__main__":
    main()
