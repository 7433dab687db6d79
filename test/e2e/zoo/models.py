"""The tiny models in transformers: made, filled with numbers, fed. Needs torch (peers.use first)."""
import contextlib
import copy

import torch
import torch.nn.functional as F
import transformers
from torch.overrides import TorchFunctionMode
from transformers.core_model_loading import revert_weight_conversion
from transformers.pytorch_utils import Conv1D

from zoo import CAUSAL, IMAGES, MASKED, SEQ2SEQ

STEPS, BATCH, LENGTH, TARGET = 3, 8, 16, 16  # TARGET: tokens of the decoder of a SEQ2SEQ model
IGNORED = -100


def config_of(fields):
    """The class's own, with what it makes of the fields."""
    fields = copy.deepcopy(fields)
    return transformers.AutoConfig.for_model(**fields)


def build(tiny, config, seed=None):
    """The model of a config, in float32 and in training mode; its numbers drawn, unless there is no seed."""
    torch.manual_seed(0)
    model = getattr(transformers, tiny.family.architecture)._from_config(
        copy.deepcopy(config), attn_implementation=tiny.family.attention, experts_implementation="eager", dtype=torch.get_default_dtype())
    if seed is not None:
        draw(model, seed)
    return model.train()


# --- Weights ---------------------------------------------------------------------------------------------------------

@torch.no_grad()
def draw(model, seed):
    """Numbers that make a bias, norm or transposition that is forgotten visible, for every parameter and for the buffers that
    checkpoints hold (biases that choose experts)."""
    generator = torch.Generator().manual_seed(seed)
    saved, seen = model.state_dict().keys(), set()
    for prefix, module in model.named_modules():
        own = dict(module.named_parameters(recurse=False))
        own |= {n: b for n, b in module.named_buffers(recurse=False) if f"{prefix}.{n}" in saved and b.is_floating_point()}
        for name, tensor in own.items():
            if tensor.data_ptr() not in seen:
                seen.add(tensor.data_ptr())
                tensor.copy_(drawn(module, name, tensor, torch.randn(tensor.shape, generator=generator)))


def drawn(module, name, tensor, normal):
    """Norms about what their class begins with: 1, or 0 where it multiplies by 1 + weight."""
    if "Norm" in type(module).__name__ and name == "weight":
        return tensor.mean().round() + 0.2 * normal
    if isinstance(module, torch.nn.Embedding) or "Router" in type(module).__name__ and name == "weight":
        return 0.5 * normal
    if name == "sinks":
        return normal
    if tensor.ndim == 1 or "bias" in name:
        return 0.1 * normal
    is_stored_in_out = isinstance(module, Conv1D) or getattr(module, "is_transposed", False)
    return normal * 0.8 / tensor.shape[-2 if is_stored_in_out else -1] ** 0.5


def as_saved(model, tensors):
    """By the names and shapes of a checkpoint: experts as matrices of their own."""
    return {name: tensor.contiguous() for name, tensor in revert_weight_conversion(model, tensors).items()}


# --- Batches ---------------------------------------------------------------------------------------------------------

def make_batch(tiny, config, seed):
    """All steps; labels are shifted already, as many or as few in each sample."""
    generator = torch.Generator().manual_seed(1000 + seed)
    kinds = {CAUSAL: causal_batch, MASKED: masked_batch, SEQ2SEQ: seq2seq_batch, IMAGES: image_batch}
    return kinds[tiny.family.kind](config, generator)


def tokens_of(config, length, generator, first=0):
    return torch.randint(first, config.get_text_config().vocab_size, (STEPS, BATCH, length), generator=generator)


def sparse_row(labels):
    """In each step one sample has two labels: a mean over samples' means is another loss."""
    for step in range(STEPS):
        labels[step, (3 + step) % BATCH, 2:] = IGNORED
    return labels


def causal_batch(config, generator):
    tokens = tokens_of(config, LENGTH + 1, generator)
    labels = tokens[..., 1:].clone()
    lost = torch.rand(labels.shape, generator=generator) < torch.rand((STEPS, BATCH, 1), generator=generator) / 4
    return {"input_ids": tokens[..., :-1].contiguous(), "labels": sparse_row(labels.masked_fill(lost, IGNORED))}


def real_tokens(length, generator):
    """1 for the first tokens of a sample, 0 for padding behind them; half of the samples are full."""
    shape = (STEPS, BATCH, 1)
    lengths = torch.randint(length // 2, length + 1, shape, generator=generator)
    lengths = lengths.masked_fill(torch.rand(shape, generator=generator) < 0.5, length)
    return (torch.arange(length) < lengths).long()


def masked_batch(config, generator):
    """A quarter of the real tokens have a label: most are hidden by the last token of the vocabulary, some by any, some not. The
    padding is pad_token_id, which no real token is."""
    padding = config.pad_token_id or 0
    tokens, real = tokens_of(config, LENGTH, generator, padding + 1), real_tokens(LENGTH, generator)
    chosen = (torch.rand(tokens.shape, generator=generator) < 0.25) & (real == 1)
    chosen[..., 1] = True  # at least one per sample
    fate = torch.rand(tokens.shape, generator=generator)
    shown = tokens.masked_fill(chosen & (fate < 0.8), config.vocab_size - 1)
    shown = torch.where(chosen & (fate > 0.9), tokens_of(config, LENGTH, generator, padding + 1), shown)
    batch = {"input_ids": torch.where(real == 1, shown, padding), "attention_mask": real,
             "labels": sparse_row(tokens.masked_fill(~chosen, IGNORED))}
    if getattr(config, "type_vocab_size", 1) > 1:
        segments = torch.arange(LENGTH) * config.type_vocab_size // LENGTH
        batch["token_type_ids"] = segments.expand(tokens.shape).contiguous() * real
    return batch


def seq2seq_batch(config, generator):
    """The decoder's tokens are its labels, one place later, behind decoder_start_token_id."""
    padding = config.pad_token_id or 0
    real, wanted = real_tokens(LENGTH, generator), real_tokens(TARGET, generator)
    target = tokens_of(config, TARGET, generator, padding + 1)
    shifted = F.pad(target, (1, 0), value=config.decoder_start_token_id)[..., :-1]
    return {"input_ids": torch.where(real == 1, tokens_of(config, LENGTH, generator, padding + 1), padding),
            "attention_mask": real, "decoder_input_ids": shifted.contiguous(),
            "labels": sparse_row(target.masked_fill(wanted == 0, IGNORED))}


def image_batch(config, generator):
    """Image tokens for each feature of an image, not all behind each other, in all samples but one. Image tokens are not predicted."""
    vision, image = config.vision_config, config.image_token_index
    features = (vision.image_size // vision.patch_size) ** 2 + (vision.model_type == "clip_vision_model")
    features -= config.vision_feature_select_strategy == "default"
    tokens = torch.randint(0, image, (STEPS, BATCH, LENGTH + 1), generator=generator)
    for step in range(STEPS):
        for sample in set(range(BATCH)) - {2 + step}:
            tokens[step, sample, torch.randperm(LENGTH, generator=generator)[:features]] = image
    labels = tokens[..., 1:].clone()
    pixels = torch.randn((STEPS, BATCH - 1, 3, vision.image_size, vision.image_size), generator=generator)
    return {"input_ids": tokens[..., :-1].contiguous(), "labels": labels.masked_fill(labels == image, IGNORED), "pixel_values": pixels}


# --- Losses ----------------------------------------------------------------------------------------------------------

def loss_of(model, tiny, batch):
    """The mean over the labels of the whole batch, and logits."""
    inputs = {name: tensor for name, tensor in batch.items() if name != "labels"}
    cached = {} if tiny.family.kind == MASKED else {"use_cache": False}
    logits = model(**inputs, **cached).logits
    labels = batch["labels"].flatten()
    total = F.cross_entropy(logits.flatten(0, 1).float(), labels, ignore_index=IGNORED, reduction="sum")
    return total / (labels != IGNORED).sum(), logits


class Choices:
    """Records the choice of each router in the last forward: {layer: experts of each token, in ascending order}."""

    def __init__(self, model):
        self.chosen, self.modules = {}, []
        for name, module in model.named_modules():
            if type(module).__name__.lower().endswith("topkrouter"):
                self.modules.append(module)
                layer = int(name.split(".layers.")[1].split(".")[0])
                keep = lambda _, __, out, layer=layer: self.chosen.__setitem__(layer, out[-1].sort(-1)[0])
                module.register_forward_hook(keep)


# --- float64 ---------------------------------------------------------------------------------------------------------

class WideCasts(TorchFunctionMode):
    """Classes cast to float32 inside, for norms, softmax and angles: here to float64."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        widened = lambda value: torch.float64 if value is torch.float32 else value
        if function is torch.Tensor.float:
            function = torch.Tensor.double
        return function(*map(widened, args), **{key: widened(value) for key, value in (kwargs or {}).items()})


@contextlib.contextmanager
def in_float64():
    torch.set_default_dtype(torch.float64)
    try:
        with WideCasts():
            yield
    finally:
        torch.set_default_dtype(torch.float32)


def widened(tiny, model):
    """The same model in float64, its angles and the like computed anew. Call it in_float64."""
    twin = build(tiny, model.config).double()
    twin.load_state_dict({name: tensor.double() if tensor.is_floating_point() else tensor
                          for name, tensor in model.state_dict().items()})
    return twin
