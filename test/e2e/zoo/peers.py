"""torch and transformers, of this interpreter or of build/peers (test/bench/setup-peers)."""
import os
import pathlib
import sys

SKIPPED = 77  # ctest counts this exit code as skipped


def use():
    """Imports both; goes on in build/peers where this interpreter lacks them, and ends with SKIPPED where that does too."""
    try:
        import torch
        import transformers
    except ImportError as missing:
        peers = pathlib.Path(__file__).resolve().parents[3] / "build/peers/bin/python"
        if peers.exists() and not os.path.samefile(sys.prefix, peers.parent.parent):
            os.execv(peers, [peers, *sys.argv])
        print(f"skipped: {missing}; test/bench/setup-peers installs it")
        sys.exit(SKIPPED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return torch, transformers
