"""The models of train.py as modules, for what wraps them: forward returns the loss, `layers` are the transformer
layers; compile_parts compiles each layer and the head with the loss, so that a wrapper's hooks run between them."""
import torch
import torch.nn.functional as F

import gpt2


class Part(torch.nn.Module):
    """Holds parameters, whose names have dots."""

    def __init__(self, weights):
        super().__init__()
        for name, weight in weights.items():
            self.register_parameter(name.replace(".", "/"), torch.nn.Parameter(weight))

    def weights(self):
        return {name.replace("/", "."): weight for name, weight in self._parameters.items()}


class Layer(Part):
    """Its weights have layer 0's names, so that all layers are one compiled function."""

    def __init__(self, weights, config, split, layer):
        prefix = f"transformer.h.{layer}."
        super().__init__({name.replace(prefix, "transformer.h.0."): weight for name, weight in weights.items()
                          if name.startswith(prefix)})
        self.block, self.config, self.split = gpt2.block, config, split

    def forward(self, x, batch):
        return self.block(self.weights(), self.config, self.split, x, batch, 0)


class Gpt2(Part):
    def __init__(self, weights, config, split):
        super().__init__({name: weight for name, weight in weights.items() if ".h." not in name})
        self.head, self.config, self.split = gpt2.head, config, split
        self.layers = torch.nn.ModuleList(Layer(weights, config, split, layer) for layer in range(config["n_layer"]))

    def forward(self, tokens, labels):
        weights = self.weights()
        x = gpt2.embed(weights, self.config, self.split, tokens)
        for layer in self.layers:
            x = layer(x, len(tokens))
        return self.head(weights, self.config, self.split, x, labels)

    def compile_parts(self, backend):
        block = torch.compile(gpt2.block, backend=backend)
        for layer in self.layers:
            layer.block = block
        self.head = torch.compile(self.head, backend=backend)


def head(x, table, labels):
    logits = F.linear(x, table)
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))


class Transformers(torch.nn.Module):
    """Hugging Face's model."""

    def __init__(self, hub):
        import transformers
        super().__init__()
        self.model = transformers.AutoModelForCausalLM.from_pretrained(hub, attn_implementation="sdpa",
                                                                       dtype=torch.float32)
        self.model.train()
        self.head = head

    @property
    def layers(self):
        return self.model.base_model.layers

    def forward(self, tokens, labels):
        x = self.model.base_model(input_ids=tokens, use_cache=False).last_hidden_state
        return self.head(x, self.model.get_output_embeddings().weight, labels)

    def compile_parts(self, backend):
        for layer in self.layers:
            layer.forward = torch.compile(layer.forward, backend=backend)
        self.head = torch.compile(head, backend=backend)
