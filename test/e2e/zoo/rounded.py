"""Effects of rounding to bf16 on a tiny model, from transformers' own class: a draw is its training with each result
of an op in bf16 rounded at random, as rounded_models.py's is for the models there. prediction.py makes of many draws
what a run may be off by. Needs torch (peers.use first).

Tensors of bf16 are held as float64 and rounded after each op that computes; those that the class casts to float32 (norms,
softmax, angles) are float32, whose rounding is 2^-16 of bf16's. So casts say where a value is rounded, as they do in the class
itself. A run of mgc rounds at fewer places: it fuses norms, rotations and activations. Its predicted error is then rather
too large than too small; the medians of golden.py's report say by how much.
"""
import numpy
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from rounded_models import AdamW
from rounded_ops import Rounding, nearest
from zoo import models

MOST = torch.finfo(torch.bfloat16).max

# Ops of aten that move numbers and make none.
MOVES = {"clone", "cat", "stack", "index", "index_select", "gather", "embedding", "masked_fill", "where", "neg", "abs", "relu",
         "repeat", "roll", "sort", "topk", "slice_backward", "select_backward", "masked_select", "index_put", "scatter", "fill",
         "zero", "zeros_like", "ones_like", "full_like", "new_zeros", "new_full", "new_empty", "empty_like", "constant_pad_nd",
         "max", "amax",
         "threshold_backward", "tril", "triu", "flip", "split", "detach", "lift_fresh", "_unsafe_view", "copy", "empty_strided",
         "new_empty_strided", "zeros", "ones", "empty", "full", "arange", "scalar_tensor", "resize", "_local_scalar_dense"}


class Rounded(TorchDispatchMode):
    def __init__(self, seed):
        super().__init__()
        self.rounding = Rounding(seed)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__.rstrip("_")
        if name == "_to_copy":
            computes = args[0].dtype != torch.float64
        elif name == "copy":
            computes = args[1].dtype != torch.float64
        else:
            computes = name not in MOVES and not function.is_view
        if computes:
            for tensor in result if isinstance(result, (tuple, list)) else [result]:
                if isinstance(tensor, torch.Tensor) and tensor.dtype == torch.float64:
                    # Masks add float64's least number where bf16's would be added, which float32 has too.
                    rounded = numpy.clip(self.rounding(tensor.detach().numpy()), -MOST, MOST)
                    tensor.copy_(torch.from_numpy(rounded))
        return result


def in_bf16(tiny, start):
    """The model of these weights, which float64 holds for bf16."""
    torch.set_default_dtype(torch.float64)
    try:
        model = models.build(tiny, start.config).double()
    finally:
        torch.set_default_dtype(torch.float32)
    model.load_state_dict({name: tensor.double() if tensor.is_floating_point() else tensor
                           for name, tensor in start.state_dict().items()})
    return model


def draw(tiny, expect, seed):
    """Results of all steps, by the names of a prediction."""
    config = models.config_of(tiny.config)
    start = models.build(tiny, config, expect["seed"])
    batches = models.make_batch(tiny, config, expect["seed"])
    model = in_bf16(tiny, start)
    parameters = dict(model.named_parameters())
    masters = {name: p.detach().numpy().copy() for name, p in parameters.items()}
    optimizer, found = AdamW(expect["optimizer"]), {}
    for step, lr in enumerate(expect["lr"]):
        with torch.no_grad():
            for name, p in parameters.items():
                p.copy_(torch.from_numpy(nearest(masters[name])))
        model.zero_grad()
        with Rounded(1000 * seed + step):
            loss, _ = models.loss_of(model, tiny, {name: tensor[step] for name, tensor in batches.items()})
            loss.backward()
        gradients = {name: p.grad.numpy() for name, p in parameters.items() if p.grad is not None}
        norm = sum((g**2).sum() for g in gradients.values()) ** 0.5
        found |= {f"loss of step {step}": torch.tensor([loss.item()]), f"grad_norm of step {step}": torch.tensor([norm])}
        if step == 0:
            tensors = {name: torch.from_numpy(g) for name, g in gradients.items()}
            found |= {f"gradient {name}": tensor for name, tensor in models.as_saved(model, tensors).items()}
        optimizer.update(masters, gradients, lr, norm)
    tensors = {name: torch.from_numpy(masters[name]) for name in gradients}  # but for what is not trained
    found |= {f"weight {name}": tensor for name, tensor in models.as_saved(model, tensors).items()}
    return {name: tensor.numpy().copy() for name, tensor in found.items()}
