#!/usr/bin/env python3
"""What mgrun saves is a model that transformers opens: no tensor missing, none left over, the same bits, and logits that
follow from them. Needs torch and transformers, here or in build/peers (test/bench/setup-peers); without them it says so and
ends with 77, which ctest counts as skipped.

    test/e2e/transformers_opens.py --bin build/release/bin
"""
import argparse
import pathlib
import subprocess
import tempfile

from zoo import peers

torch, transformers = peers.use()
from safetensors.numpy import load_file  # noqa: E402

MODELS = ("gpt2", "llama", "llama_tied_rope3", "qwen2", "qwen3")
GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
LAYOUT = "--tp 2 --pp 2 --dp 2 --sp --zero 1 --seq 16 --gbs 8"


def saved_by_mgrun(binaries, name, folder):
    model = GOLDEN / name
    for command in ([binaries / "mgc", "compile", model / "config.json", "-o", "plan", *LAYOUT.split()],
                    [binaries / "mgrun", "plan", "--data", model / "batch.safetensors", "--weights", model / "model.safetensors",
                     "--train-iters", "2", "--save", "saved"]):
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default="build/release/bin")
    options = parser.parse_args()
    for name in MODELS:
        check(options.bin.resolve(), name)
        print(f"{name}: transformers {transformers.__version__} opens it, all tensors equal")


if __name__ == "__main__":
    main()
