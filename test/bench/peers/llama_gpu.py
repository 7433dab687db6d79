"""A Llama of a few layers trained on one GPU in PyTorch, written to be as fast as it gets.

    llama_gpu.py --config config.json --layers 16 --batch 1 --microbatches 8 --sequence 4096 --steps 8      a JSON line per step

Compiled whole, with fused attention and optimizer, gradient clipping without a pass of its own, and numbers as in mgc's
`--dtype bf16`: f32 weights and moments, bf16 products. `--precision bf16` has bf16 weights and moments, as some train; it is
less exact than what it is compared with.
"""
import argparse
import contextlib
import json
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

ATTENTION = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


def rotary(sequence, width, theta, device):
    frequencies = theta ** -(torch.arange(0, width, 2, device=device, dtype=torch.float32) / width)
    angles = torch.outer(torch.arange(sequence, device=device, dtype=torch.float32), frequencies)
    return torch.cat((angles.cos(), angles.cos()), -1), torch.cat((angles.sin(), angles.sin()), -1)


def rotate(x, cosine, sine):
    first, second = x.chunk(2, -1)
    return (x.float() * cosine + torch.cat((-second, first), -1).float() * sine).to(x.dtype)


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden, inner = config["hidden_size"], config["intermediate_size"]
        self.heads, self.groups = config["num_attention_heads"], config["num_key_value_heads"]
        self.width = hidden // self.heads
        self.epsilon = config["rms_norm_eps"]
        self.norm_1, self.norm_2 = nn.Parameter(torch.ones(hidden)), nn.Parameter(torch.ones(hidden))
        self.qkv = nn.Linear(hidden, (self.heads + 2 * self.groups) * self.width, bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)
        self.gate_up = nn.Linear(hidden, 2 * inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)

    def norm(self, x, weight):
        return F.rms_norm(x.float(), (x.shape[-1],), weight.float(), self.epsilon).to(torch.bfloat16)

    def forward(self, x, cosine, sine):
        batch, sequence, hidden = x.shape
        qkv = self.qkv(self.norm(x, self.norm_1)).view(batch, sequence, -1, self.width).transpose(1, 2)
        q, k, v = qkv.split((self.heads, self.groups, self.groups), 1)
        attention = F.scaled_dot_product_attention(rotate(q, cosine, sine), rotate(k, cosine, sine), v, is_causal=True,
                                                   enable_gqa=True)
        x = x + self.out(attention.transpose(1, 2).reshape(batch, sequence, hidden))
        gate, up = self.gate_up(self.norm(x, self.norm_2)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, config, layers):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.layers = nn.ModuleList(Layer(config) for _ in range(layers))
        self.norm = nn.Parameter(torch.ones(config["hidden_size"]))
        self.head = nn.Linear(config["hidden_size"], config["vocab_size"], bias=False)

    def forward(self, tokens, labels, cosine, sine):
        x = self.embedding(tokens).to(torch.bfloat16)
        for layer in self.layers:
            x = layer(x, cosine, sine)
        x = self.layers[0].norm(x, self.norm)
        return F.cross_entropy(self.head(x).float().flatten(0, 1), labels.flatten())


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=argparse.FileType(), required=True)
    parser.add_argument("--layers", type=int, required=True)
    parser.add_argument("--batch", type=int, default=1, help="sequences of a microbatch")
    parser.add_argument("--microbatches", type=int, default=1)
    parser.add_argument("--sequence", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--precision", choices=("master", "bf16"), default="master")
    parser.add_argument("--attention", choices=ATTENTION, default="cudnn")
    parser.add_argument("--compile", default="max-autotune-no-cudagraphs", help="mode of torch.compile")
    return parser.parse_args()


def make_optimizer(model):
    groups = [{"params": [w for w in model.parameters() if w.dim() >= 2], "weight_decay": 0.1},
              {"params": [w for w in model.parameters() if w.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)
    optimizer.found_inf = torch.zeros((), device="cuda", dtype=torch.float32)
    return optimizer


def main():
    options = parse_arguments()
    config = json.load(options.config)
    torch.manual_seed(1)
    torch.set_default_device("cuda")
    is_mixed = options.precision == "master"
    torch.set_default_dtype(torch.float32 if is_mixed else torch.bfloat16)
    model = Llama(config, options.layers)
    optimizer = make_optimizer(model)
    stream = torch.randint(config["vocab_size"], (options.microbatches, options.batch, options.sequence + 1))
    tables = rotary(options.sequence, config["hidden_size"] // config["num_attention_heads"], config["rope_theta"], "cuda")
    loss_of = torch.compile(model, mode=options.compile)
    mixed = torch.autocast("cuda", torch.bfloat16) if is_mixed else contextlib.nullcontext()
    for step in range(options.steps):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        for tokens in stream:
            with sdpa_kernel(ATTENTION[options.attention]), mixed:
                loss = loss_of(tokens[:, :-1], tokens[:, 1:], *tables) / options.microbatches
            loss.backward()
        norm = torch.nn.utils.get_total_norm([w.grad for w in model.parameters()], foreach=True)
        optimizer.grad_scale = norm.float().clamp(min=1.0)
        optimizer.step()
        value = loss.item()
        print(json.dumps({"step": step, "loss": value, "seconds": time.perf_counter() - begin,
                          "bytes": torch.cuda.max_memory_allocated()}), flush=True)


if __name__ == "__main__":
    main()
