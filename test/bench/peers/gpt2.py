"""GPT-2 in PyTorch, as lean as it gets: functions over a dictionary of weights with Hugging Face's names and layouts
(matrices are [in, out]). `split` says how a block's matrices, or the positions, lie over ranks: splits.py.
"""
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


def norm(x, weights, name, config):
    return F.layer_norm(x, x.shape[-1:], weights[name + ".weight"], weights[name + ".bias"],
                        config["layer_norm_epsilon"])


def embed(weights, config, split, tokens):
    """tokens [batch, sequence] -> [batch * sequence, width]"""
    x = split.embedding(tokens, weights["transformer.wte.weight"])
    return (x + split.positions(weights["transformer.wpe.weight"], tokens.shape[1])).view(-1, config["n_embd"])


def attention(split, qkv, batch, heads):
    """qkv [batch * sequence, 3 * heads * d] -> [batch * sequence, heads * d]"""
    rows = qkv.shape[0]
    q, k, v = qkv.view(batch, rows // batch, 3, heads, -1).permute(2, 0, 3, 1, 4)
    return split.attention(q, k, v).transpose(1, 2).reshape(rows, -1)


def block(weights, config, split, x, batch, layer):
    prefix = f"transformer.h.{layer}."
    qkv = split.columns(norm(x, weights, prefix + "ln_1", config), weights, prefix + "attn.c_attn")
    mixed = attention(split, qkv, batch, config["n_head"] // split.ranks)
    x = x + split.rows(mixed, weights, prefix + "attn.c_proj")
    inner = split.columns(norm(x, weights, prefix + "ln_2", config), weights, prefix + "mlp.c_fc")
    return x + split.rows(F.gelu(inner, approximate="tanh"), weights, prefix + "mlp.c_proj")


def checkpointed_block(*arguments):
    """The block, which backward runs again: only its input is kept."""
    return checkpoint(block, *arguments, use_reentrant=False)


def blocks(weights, config, split, x, batch, layers, block=block):
    for layer in layers:
        x = block(weights, config, split, x, batch, layer)
    return x


def head(weights, config, split, x, labels):
    return split.loss(norm(x, weights, "transformer.ln_f", config), weights["transformer.wte.weight"],
                      labels.reshape(-1))


def loss(weights, config, split, block, tokens, labels):
    x = embed(weights, config, split, tokens)
    x = blocks(weights, config, split, x, len(tokens), range(config["n_layer"]), block)
    return head(weights, config, split, x, labels)
