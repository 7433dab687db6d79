"""Training in PyTorch, written to be as fast as it gets.

    train.py prepare FOLDER --config config.json --batch 4 --sequence 256    weights.safetensors and data.safetensors
    train.py lean FOLDER --config config.json --steps 8 --threads 2          gpt2.py; a JSON line per step
    train.py transformers FOLDER ...                                         the same with Hugging Face's model
    torchrun --nproc-per-node 2 train.py dp|tp|cp|pp FOLDER ...              gpt2.py on two ranks, a core each
    torchrun --nproc-per-node 2 train.py fsdp|fsdp-no-reshard FOLDER ...     the same with fully_shard; dp and these
                                                                             train other models too: Hugging Face's

--checkpoint recomputes each layer in backward (torch.utils.checkpoint).

Weights have Hugging Face's names and layouts, so that mgc trains from the same file.
"""
import argparse
import functools
import json
import os
import pathlib
import time

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint

import gpt2
import modules
import splits


def huggingface(config):
    import transformers
    made = transformers.AutoConfig.for_model(**config)
    return transformers.AutoModelForCausalLM.from_config(made, attn_implementation="sdpa")


def fill(parameters, weights):
    with torch.no_grad():
        for name, tensor in weights.items():
            parameters[name].copy_(tensor)


def prepare(options, config):
    torch.manual_seed(1)
    with torch.device("meta"):
        parameters = dict(huggingface(config).named_parameters())
    weights = {}
    for name, parameter in parameters.items():
        is_norm = parameter.dim() == 1 and name.endswith(".weight")
        weights[name] = torch.ones(parameter.shape) if is_norm else torch.randn(parameter.shape) * 0.02
    # In a checkpoint each expert has tensors of its own, which the model has as one.
    model = huggingface(config)
    fill(dict(model.named_parameters()), weights)
    model.save_pretrained(options.folder / "hub", max_shard_size="100GB")
    os.link(options.folder / "hub/model.safetensors", options.folder / "weights.safetensors")
    stream = torch.randint(config["vocab_size"], (1, options.batch, options.sequence + 1), dtype=torch.int32)
    save_file({"input_ids": stream[..., :-1].clone(), "labels": stream[..., 1:].clone()},
              options.folder / "data.safetensors")


class Model:
    """Weights by name, and what makes their gradients. A subclass says what differs from one process with one model."""

    def __init__(self, options, config):
        self.options, self.config = options, config
        self.split = self.make_split()
        self.weights = self.load()
        data = load_file(options.folder / "data.safetensors")
        self.tokens, self.labels = (self.part(data[name][0].long()) for name in ("input_ids", "labels"))
        self.loss = self.compiled(self.loss_function())

    def make_split(self):
        return splits.Whole()

    def load(self):
        whole = load_file(self.options.folder / "weights.safetensors")
        return {name: self.split.shard(name, tensor).clone(memory_format=torch.contiguous_format).requires_grad_()
                for name, tensor in whole.items() if self.holds(name)}

    def holds(self, _):
        return True

    def part(self, batch):
        return batch

    def compiled(self, function):
        backend = self.options.compile
        return torch.compile(function, backend=backend) if backend else function

    def loss_function(self):
        block = gpt2.checkpointed_block if self.options.checkpoint else gpt2.block
        return functools.partial(gpt2.loss, self.weights, self.config, self.split, block)

    def checkpoint_layers(self):
        for layer in self.module.layers if self.options.checkpoint else ():
            layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=False)

    def gradients(self):
        """Returns the loss."""
        value = self.loss(self.tokens, self.labels)
        value.backward()
        return value.detach()

    def norm(self):
        return torch.nn.utils.get_total_norm([weight.grad for weight in self.weights.values()], foreach=True)

    def speaks(self):
        return True


class Transformers(Model):
    def load(self):
        self.module = modules.Transformers(self.options.folder / "hub")
        self.checkpoint_layers()
        return dict(self.module.named_parameters())

    def loss_function(self):
        return self.module


class Parallel(Model):
    """One of several ranks, each on a core of its own."""

    def __init__(self, options, config):
        rank = int(os.environ["RANK"])
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})
        dist.init_process_group("gloo")
        super().__init__(options, config)

    def counts(self, _):
        """Whether a weight's gradient is this rank's to add to the norm."""
        return True

    def norm(self):
        parts = [weight.grad for name, weight in self.weights.items() if self.counts(name)]
        squares = torch.nn.utils.get_total_norm(parts, foreach=True).square()
        dist.all_reduce(squares)
        return squares.sqrt()

    def speaks(self):
        return dist.get_rank() == dist.get_world_size() - 1


class DataParallel(Parallel):
    """A module, Hugging Face's if the model is no GPT-2, in DistributedDataParallel."""

    def load(self):
        if self.config["model_type"] == "gpt2":
            self.module = modules.Gpt2(super().load(), self.config, self.split)
        else:
            self.module = modules.Transformers(self.options.folder / "hub")
        return dict(self.module.named_parameters())

    def part(self, batch):
        return batch.chunk(dist.get_world_size())[dist.get_rank()].contiguous()

    def loss_function(self):
        return self.module

    def compiled(self, module):
        return torch.nn.parallel.DistributedDataParallel(super().compiled(module), gradient_as_bucket_view=True)

    def gradients(self):
        value = super().gradients()
        dist.all_reduce(value)
        return value / dist.get_world_size()

    norm = Model.norm  # all ranks hold all gradients


class FullyShardedDataParallel(DataParallel):
    """Each layer is a unit of fully_shard, the root all else. Norm and optimizer take this rank's slices as tensors,
    which is less work than as DTensors."""
    reshard = None  # fully_shard's default: all units but the root

    def compiled(self, module):
        if self.options.compile:
            module.compile_parts(self.options.compile)
        self.checkpoint_layers()
        for unit in (*module.layers, module):
            fully_shard(unit, reshard_after_forward=self.reshard)
        self.sharded = dict(module.named_parameters())
        self.weights = {name: tensor.detach().to_local() for name, tensor in self.sharded.items()}
        return module

    def gradients(self):
        for tensor in self.sharded.values():
            tensor.grad = None
        value = super().gradients()
        for name, tensor in self.sharded.items():
            self.weights[name].grad = tensor.grad.to_local()
        return value

    norm = Parallel.norm


class FullyShardedWithoutReshard(FullyShardedDataParallel):
    reshard = False


class ContextParallel(DataParallel):
    """Whole weights, whose gradients DistributedDataParallel averages; each rank has half of all positions."""

    def make_split(self):
        return splits.Context()

    def part(self, batch):
        return self.split.mine(batch, 1).contiguous()


class TensorParallel(Parallel):
    def make_split(self):
        return splits.Tensor(self.config["vocab_size"])

    def counts(self, name):
        return self.split.is_split(name) or dist.get_rank() == 0


class Pipeline(Parallel):
    """Two stages under 1F1B, microbatches of one sequence. The table of the embedding is tied over both."""
    TIED = "transformer.wte.weight"

    def __init__(self, options, config):
        super().__init__(options, config)
        self.shape = (self.tokens.shape[1], config["n_embd"])

    def first_layers(self):
        """As many layers as half of all work; the head weighs as much as its matrix."""
        layers, width = self.config["n_layer"], self.config["n_embd"]
        head = self.config["vocab_size"] / (12 * width)
        return max(1, min(layers - 1, round((layers + head) / 2)))

    def holds(self, name):
        if name == self.TIED:
            return True
        parts = name.split(".")
        is_first = ".wpe." in name or parts[1] == "h" and int(parts[2]) < self.first_layers()
        return is_first == (dist.get_rank() == 0)

    def loss_function(self):
        shared = (self.weights, self.config, self.split)

        def first(tokens):
            return gpt2.blocks(*shared, gpt2.embed(*shared, tokens), 1, range(self.first_layers()))

        def second(x, labels):
            x = gpt2.blocks(*shared, x, 1, range(self.first_layers(), self.config["n_layer"]))
            return gpt2.head(*shared, x, labels) / len(self.tokens)
        return first if dist.get_rank() == 0 else second

    def gradients(self):
        value = self.first_stage() if dist.get_rank() == 0 else self.second_stage()
        dist.all_reduce(self.weights[self.TIED].grad)
        return value

    def first_stage(self):
        waiting, sends = [], []

        def backward():
            gradient = torch.empty(self.shape)
            dist.recv(gradient, 1)
            waiting.pop(0).backward(gradient)
        for number, tokens in enumerate(self.tokens.split(1)):
            waiting.append(self.loss(tokens))
            sends.append(dist.isend(waiting[-1].detach(), 1))
            if number > 0:
                backward()
        backward()
        for send in sends:
            send.wait()
        return None

    def second_stage(self):
        sends, total = [], torch.zeros(())
        inputs = [torch.empty(self.shape) for _ in self.tokens]
        receives = [dist.irecv(x, 0) for x in inputs]
        for x, receive, labels in zip(inputs, receives, self.labels.split(1), strict=True):
            receive.wait()
            value = self.loss(x.requires_grad_(), labels)
            value.backward()
            sends.append((dist.isend(x.grad, 0), x))
            total += value.detach()
        for send, _ in sends:
            send.wait()
        return total

    def counts(self, name):
        return name != self.TIED or dist.get_rank() == 0


def adamw(weights, rate):
    groups = [{"params": [w for w in weights if w.dim() >= 2], "weight_decay": 0.01},
              {"params": [w for w in weights if w.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), eps=1e-8, fused=True)
    # With grad_scale the optimizer's one pass over the gradients divides them too: clipping costs no pass of its own.
    optimizer.found_inf = torch.zeros(())
    return optimizer


def train(model, options):
    optimizer = adamw(model.weights.values(), options.lr)
    for step in range(options.steps):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        value = model.gradients()
        optimizer.grad_scale = model.norm().clamp(min=1.0)
        optimizer.step()
        if model.speaks():
            print(json.dumps({"step": step, "loss": value.item(), "seconds": time.perf_counter() - begin}), flush=True)


MODELS = {"lean": Model, "transformers": Transformers, "dp": DataParallel, "fsdp": FullyShardedDataParallel,
          "fsdp-no-reshard": FullyShardedWithoutReshard, "cp": ContextParallel, "tp": TensorParallel, "pp": Pipeline}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=("prepare", *MODELS))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--config", type=pathlib.Path, required=True)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--sequence", type=int, default=256)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--compile", metavar="BACKEND", help="of torch.compile: inductor")
    parser.add_argument("--checkpoint", action="store_true")
    parser.add_argument("--lr", type=float, default=1e-4)
    options = parser.parse_args()
    config = json.loads(options.config.read_text())
    if options.command == "prepare":
        return prepare(options, config)
    torch.set_num_threads(options.threads)
    train(MODELS[options.command](options, config), options)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
