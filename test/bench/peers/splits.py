"""How the matrices of gpt2.py lie over ranks: whole, or as Megatron-LM splits them (columns, then rows, one all-reduce
at the end of each half block in either direction; the vocabulary over ranks in the embedding and in the loss). Or
whole, each rank with a part of the positions: PyTorch's ring attention."""
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
import torch.nn.functional as F
from torch.distributed.tensor.experimental._context_parallel import _attention as ring


class Whole:
    ranks = 1

    def shard(self, _, tensor):
        return tensor

    def is_split(self, _):
        return False

    def embedding(self, tokens, table):
        return F.embedding(tokens, table)

    def columns(self, x, weights, name):
        return torch.addmm(weights[name + ".bias"], x, weights[name + ".weight"])

    rows = columns

    def positions(self, table, count):
        return table[:count]

    def attention(self, q, k, v):
        """[batch, heads, positions, d] each"""
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def loss(self, x, table, labels):
        return F.cross_entropy(x @ table.T, labels)


def summed(x, operation="sum"):
    return collectives.wait_tensor(collectives.all_reduce(x.contiguous(), operation, dist.group.WORLD))


class Enter(torch.autograd.Function):
    """Into the split part: each rank's gradient is a summand."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return summed(gradient)


class Leave(torch.autograd.Function):
    """Out of the split part: each rank's result is a summand."""

    @staticmethod
    def forward(ctx, x):
        return summed(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class SplitCrossEntropy(torch.autograd.Function):
    """Mean loss of logits [tokens, this rank's part of the vocabulary, which begins at `first`]."""

    @staticmethod
    def forward(ctx, logits, labels, first):
        largest = summed(logits.amax(1), "max")
        powers = (logits - largest[:, None]).exp_()
        local = labels - first
        mine = (local >= 0) & (local < logits.shape[1])
        local = torch.where(mine, local, 0)
        target = torch.where(mine, logits.gather(1, local[:, None])[:, 0] - largest, 0)
        total, target = summed(torch.stack((powers.sum(1), target)))
        ctx.save_for_backward(powers, total, local, mine)
        return (total.log() - target).mean()

    @staticmethod
    def backward(ctx, gradient):
        powers, total, local, mine = ctx.saved_tensors
        scale = gradient / len(total)
        logits = powers * (scale / total)[:, None]
        return logits.scatter_add_(1, local[:, None], (-scale * mine)[:, None]), None, None


class RingAttention(torch.autograd.Function):
    """PyTorch's own ring (K and V in one all-gather, causal blocks balanced, no masked work) over its attention for CPUs:
    context_parallel of torch.distributed.tensor.experimental 2.15 calls the ring for the operators of GPUs alone."""

    @staticmethod
    def forward(ctx, q, k, v):
        operator = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        out, lse = ring._templated_ring_attention(dist.group.WORLD, 2, operator, q, k, v, is_causal=True)
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, gradient):
        def operator(grad_out, query, key, value, out, logsumexp, is_causal):
            return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
                grad_out, query, key, value, out, logsumexp, 0.0, is_causal)
        q, k, v, out, lse = ctx.saved_tensors
        return ring._templated_ring_attention_backward(dist.group.WORLD, 2, operator, gradient, "grad_out", q, k, v, out, lse,
                                                       is_causal=True)


class Context(Whole):
    """Chunks i and 2 n - 1 - i of the positions for rank i of n."""

    def mine(self, tensor, dimension):
        chunks = tensor.chunk(2 * dist.get_world_size(), dimension)
        rank = dist.get_rank()
        return torch.cat((chunks[rank], chunks[-1 - rank]), dimension)

    def positions(self, table, count):
        return self.mine(table[:count * dist.get_world_size()], 0)

    def attention(self, q, k, v):
        return RingAttention.apply(q, k, v)


class Tensor:
    """Over all ranks of the process group. Vocabularies need not divide."""

    def __init__(self, vocabulary):
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        part = -(-vocabulary // self.ranks)
        self.first, self.end = self.rank * part, min((self.rank + 1) * part, vocabulary)

    positions, attention = Whole.positions, Whole.attention

    def is_split(self, name):
        return any(part in name for part in (".wte.", ".c_attn.", ".c_fc.", ".c_proj.weight"))

    def shard(self, name, tensor):
        if ".wte." in name:
            return tensor[self.first:self.end]
        if ".c_attn." in name:  # q, k and v stand next to each other, each split by heads
            parts = tensor.view(*tensor.shape[:-1], 3, -1).chunk(self.ranks, -1)
            return parts[self.rank].reshape(*tensor.shape[:-1], -1)
        if not self.is_split(name):
            return tensor
        return tensor.chunk(self.ranks, 0 if ".c_proj." in name else -1)[self.rank]

    def embedding(self, tokens, table):
        local = tokens - self.first
        mine = (local >= 0) & (local < len(table))
        return Leave.apply(F.embedding(torch.where(mine, local, 0), table) * mine[..., None])

    def columns(self, x, weights, name):
        return torch.addmm(weights[name + ".bias"], Enter.apply(x), weights[name + ".weight"])

    def rows(self, x, weights, name):
        return Leave.apply(x @ weights[name + ".weight"]) + weights[name + ".bias"]

    def loss(self, x, table, labels):
        return SplitCrossEntropy.apply(Enter.apply(x) @ table.T, labels, self.first)
