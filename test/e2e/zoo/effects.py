"""Finds the effect of a config.json's fields in transformers: each field of a class, changed one at a time to values that files might
have, and whether losses, logits or gradients change with it. Makes mutations.json. Needs torch (peers.use first)."""
import copy
import re

import torch

from zoo import models

ABSENT = "(absent)"  # in the place of a value: the field is left out
OTHER, SAME, ERROR = "other", "same", "error"  # results; what the class makes of it; it refuses
ROWS = 2  # samples of a batch that are enough to see it
# Relative to the largest number, in float64: rounding is 1e-16, an epsilon that doubles shows as 1e-8 or more.
NOTICED = 1e-11

# Bookkeeping of files; dtype is what a run has, not a file.
LEFT_OUT = {"model_type", "architectures", "transformers_version", "dtype", "_name_or_path"}
ACTIVATIONS = ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "tanh", "no-such-word"]
ROPES = [{"rope_type": "linear", "factor": 4.0}, {"rope_type": "dynamic", "factor": 4.0},
         {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32},
         {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
         {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "mscale": 1.0, "mscale_all_dim": 0.5},
         {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "attention_factor": 0.5},
         {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 3.0, "beta_slow": 0.5,
          "truncate": False},
         {"rope_type": "no-such-word"}]


# --- Values ----------------------------------------------------------------------------------------------------------

def values_of(name, value, kinds):
    """Others that a field may have. `kinds`: types that its class names."""
    if isinstance(value, bool):
        return [not value, None, ABSENT]
    if isinstance(value, int):
        return [value + 1, 2 * value, 0, None, ABSENT]
    if isinstance(value, float):
        return [2 * value, value + 0.25, 0.0, None, ABSENT]
    if isinstance(value, str):
        words = ACTIVATIONS if "act" in name else ["no-such-word"]
        return [word for word in words if word != value] + [None, ABSENT]
    if isinstance(value, list):
        return [value[:-1], value[::-1], value[:1] * len(value), None, ABSENT] if value else [[0], None, ABSENT]
    if isinstance(value, dict):
        return [{}, None, ABSENT]
    guesses = {bool: [True, False], int: [1, 3], float: [0.5, 2.0], str: ["no-such-word"], list: [[1, 0]]}
    return [guess for kind in guesses if kind in kinds for guess in guesses[kind]] + [ABSENT] or [True, 1, 0.5, ABSENT]


def kinds_of(config, name):
    """The types that the class names for a field."""
    field = type(config).__dataclass_fields__.get(name)
    words = set(re.findall(r"\w+", str(field.type))) if field else set()
    return {kind for kind in (bool, int, float, str, list) if kind.__name__ in words}


def changes(config, fields, names):
    """(path, value) for each field of the names; fields of an object have paths of two names."""
    for name in names:
        value = fields[name]
        if isinstance(value, dict) and name in ("rope_parameters", "attn_config", "vision_config"):
            for path, leaf in leaves(value):
                if path[-1] not in LEFT_OUT | {"rope_type"}:
                    yield from (((name, *path), other) for other in values_of(path[-1], leaf, set()))
            if name == "rope_parameters" and "rope_theta" in value:
                yield from (((name,), value | other) for other in ROPES if other["rope_type"] != value["rope_type"])
                yield (name,), value | {"no_such_field": 1.0}
                yield (name,), value | {"partial_rotary_factor": value.get("partial_rotary_factor", 1.0) / 2}
        yield from (((name,), other) for other in values_of(name, value, kinds_of(config, name)))


def leaves(value):
    for name, leaf in value.items():
        if isinstance(leaf, dict):
            yield from (((name, *path), deeper) for path, deeper in leaves(leaf))
        else:
            yield (name,), leaf


def changed(fields, path, value):
    """A copy with another value, or without the field."""
    fields = copy.deepcopy(fields)
    inner = fields
    for name in path[:-1]:
        inner = inner[name]
    if value == ABSENT:
        inner.pop(path[-1], None)
    else:
        inner[path[-1]] = value
    return fields


def value_at(fields, path):
    for name in path:
        fields = fields.get(name, ABSENT)
    return fields


# --- Effects ---------------------------------------------------------------------------------------------------------

class Subject:
    """A tiny model whose fields are all written out."""

    def __init__(self, tiny):
        self.tiny = tiny
        self.config = models.config_of(tiny.config)
        written = {name: value for name, value in self.config.to_dict().items() if name not in LEFT_OUT}
        self.fields = {"model_type": tiny.family.model_type, "architectures": [tiny.family.architecture], **plain(written)}
        start = models.build(tiny, self.config, 1)
        self.state = {name: tensor.double() if tensor.is_floating_point() else tensor
                      for name, tensor in start.state_dict().items()}
        self.batch = {name: tensor[0, :ROWS] for name, tensor in models.make_batch(tiny, self.config, 1).items()}
        self.results = None
        self.results = self.run(self.fields)

    def run(self, fields):
        """Loss, logits and gradients, with the same random numbers; nothing where parameters are others."""
        config = models.config_of(fields)
        with torch.device("meta"):
            shapes = {name: tensor.shape for name, tensor in models.build(self.tiny, config).state_dict().items()}
        alike = {name for name, tensor in self.state.items() if shapes.get(name) == tensor.shape}
        if not self.read() <= alike:
            return None
        with models.in_float64():
            model = models.build(self.tiny, config).double()
            model.load_state_dict({name: self.state[name] for name in alike}, strict=False)
            torch.manual_seed(2)
            inputs = dict(self.batch)
            if fields.get("output_router_logits"):  # then the loss has another term
                loss, logits = self.pooled(model, inputs)
            else:
                loss, logits = models.loss_of(model, self.tiny, inputs)
            loss.backward()
        gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
        if not gradients.keys() <= alike:
            return None
        return {"loss": loss.detach(), "logits": logits.detach()} | gradients

    def read(self):
        """Tensors that the first model reads: the others have no gradient, and may be others or none."""
        return self.state.keys() & self.results.keys() if self.results else self.state.keys()

    def pooled(self, model, inputs):
        labels = inputs["labels"]
        unshifted = torch.nn.functional.pad(labels, (1, 0), value=models.IGNORED)[..., :-1]  # the class shifts them
        out = model(input_ids=inputs["input_ids"], labels=unshifted, use_cache=False)
        return out.loss, out.logits

    def effect(self, path, value):
        try:
            results = self.run(changed(self.fields, path, value))
        except Exception:  # whatever a class raises
            return ERROR
        return OTHER if results is None or differ(self.results, results) else SAME

    def default(self, name):
        """[the value that the class reads where the field is absent], or nothing where it reads no such file."""
        try:
            return [plain(models.config_of(changed(self.fields, (name,), ABSENT)).to_dict()).get(name)]
        except Exception:
            return []


def differ(one, other):
    return one.keys() != other.keys() or any(apart(tensor, other[name]) for name, tensor in one.items())


def apart(one, other):
    if not other.isfinite().all():
        return True
    return one.shape != other.shape or float((one - other).abs().max()) > NOTICED * max(1e-3, float(one.abs().max()))


def plain(value):
    """As JSON has it: keys that are texts."""
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def record(tiny):
    """The model's part of mutations.json. A family's first model has all fields changed, its variants those that they set."""
    subject = Subject(tiny)
    own = tiny.family.variants.get(tiny.variant, {})
    names = [name for name in subject.fields if name not in LEFT_OUT and (not own or name in own)]
    rows, seen = {}, set()
    for path, value in changes(subject.config, subject.fields, names):
        if (path, repr(value)) in seen or repr(value) == repr(value_at(subject.fields, path)):
            continue
        seen.add((path, repr(value)))
        row = [value, subject.effect(path, value)]
        if value == ABSENT and len(path) == 1:
            row += subject.default(path[0])
        rows.setdefault(".".join(path), []).append(row)
    return {"config": subject.fields, "mutations": rows}
