#!/usr/bin/env python3
"""What mgrun saves is a model that transformers opens: no tensor missing, none left over, the same bits, and logits that
follow from them. Beside it stands a checkpoint whose shards PyTorch's own reader puts together. Needs torch and transformers, here or in build/peers (test/bench/setup-peers); without them it says so and
ends with 77, which ctest counts as skipped.

    test/e2e/transformers_opens.py --bin build/release/bin
"""
import argparse
import pathlib
import subprocess
import tempfile

from zoo import peers

torch, transformers = peers.use()
import torch.distributed.checkpoint as dcp  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402

MODELS = ("gpt2", "llama", "llama_tied_rope3", "qwen2", "qwen3")
GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
LAYOUT = "--tp 2 --pp 2 --dp 2 --sp --zero 1 --seq 16 --gbs 8"


def saved_by_mgrun(binaries, name, folder):
    model = GOLDEN / name
    for command in ([binaries / "mgc", "compile", model / "config.json", "-o", "plan", *LAYOUT.split()],
                    [binaries / "mgrun", "plan", "--data", model / "batch.safetensors", "--load", model / "model.safetensors",
                     "--train-iters", "1", "--clip-grad", "0", "--lr-decay-style", "constant", "--adam-beta2", "0.96", "--save", "saved",
                     "--save-gradients", "gradients.safetensors"]):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return pathlib.Path(folder) / "saved"


def check(binaries, name):
    with tempfile.TemporaryDirectory(prefix="mgc-open-") as folder:
        saved = saved_by_mgrun(binaries, name, folder)
        model, report = transformers.AutoModelForCausalLM.from_pretrained(saved, output_loading_info=True)
        assert not any(report.values()), f"{name}: {report}"
        state = model.state_dict()
        for tensor, values in load_file(saved / "model.safetensors").items():
            assert torch.equal(state[tensor], torch.from_numpy(values.copy())), f"{name}: {tensor} differs"
        tokens = torch.from_numpy(load_file(GOLDEN / name / "batch.safetensors")["input_ids"][0].copy())
        with torch.no_grad():
            assert model(input_ids=tokens).logits.isfinite().all(), name
        check_state(name, saved, load_file(saved.parent / "gradients.safetensors"))


def check_state(name, saved, gradients):
    """After one step from moments of zero these are the gradient and its square, times 1 - beta: in all tensors, at all places."""
    reader = dcp.HuggingFaceStorageReader(str(saved / "iter_0000001"))
    known = reader.read_metadata().state_dict_metadata
    state = {tensor: torch.full(meta.size, torch.nan, dtype=meta.properties.dtype) for tensor, meta in known.items()}
    dcp.load(state, storage_reader=reader, no_dist=True)
    weights = load_file(saved / "model.safetensors")
    assert set(state) == {key for tensor in weights for key in (tensor, f"state.{tensor}.exp_avg", f"state.{tensor}.exp_avg_sq")}, name
    for tensor, values in weights.items():
        gradient = torch.from_numpy(gradients[tensor].copy())
        assert torch.equal(state[tensor], torch.from_numpy(values.copy())), f"{name}: {tensor}"
        for key, expected in (("exp_avg", 0.1 * gradient), ("exp_avg_sq", 0.04 * gradient**2)):
            torch.testing.assert_close(state[f"state.{tensor}.{key}"], expected, rtol=1e-5, atol=1e-12, msg=f"{name}: {tensor}.{key}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default="build/release/bin")
    options = parser.parse_args()
    for name in MODELS:
        check(options.bin.resolve(), name)
        print(f"{name}: transformers {transformers.__version__} opens it, PyTorch {torch.__version__} reads the state, all tensors equal")


if __name__ == "__main__":
    main()
