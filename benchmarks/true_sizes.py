"""Models of true size from typed-in configurations: forward and backward on fakes, beside PyTorch.

    python benchmarks/true_sizes.py [--torch PYTHON] [--tokens N] [--repeat N] [NAME ...]

Each model (Llama-3.1-70B, Mixtral-8x7B, Qwen2.5-VL-7B's text, DeepSeek-V3; no weights are fetched)
is built by transformers in a `FakeTensorMode`, in a process of its own, and runs its loss and
backward there. Printed: CPU seconds to build it, of the first step and of the fastest of
``--repeat`` later ones, the process's peak of resident memory, and what the libraries alone take of
it. With ``--torch``, a Python that has PyTorch and the same transformers, the same is run there in
PyTorch's `FakeTensorMode`, and the ratios are printed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

_PUBLISHED = Path(__file__).parent.parent / "tools" / "verify" / "configurations.json"
_FROM_PUBLISHED = {
    "Llama-3.1-70B": "meta-llama/Llama-3.1-70B",
    "Mixtral-8x7B": "mistralai/Mixtral-8x7B-v0.1",
    "DeepSeek-V3": "deepseek-ai/DeepSeek-V3",
}
_QWEN_TEXT: dict[str, Any] = {
    "vocab_size": 152064,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "max_position_embeddings": 128000,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 1000000.0,
        "mrope_section": [16, 24, 24],
    },
    "tie_word_embeddings": False,
}
_QWEN_VISION: dict[str, Any] = {
    "depth": 32,
    "hidden_size": 1280,
    "intermediate_size": 3420,
    "num_heads": 16,
    "out_hidden_size": 3584,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "window_size": 112,
    "fullatt_block_indexes": [7, 15, 23, 31],
}
NAMES = (*_FROM_PUBLISHED, "Qwen2.5-VL-7B")


def _configuration(name: str) -> dict[str, Any]:
    if name == "Qwen2.5-VL-7B":
        parts = {"text_config": dict(_QWEN_TEXT), "vision_config": dict(_QWEN_VISION)}
        return {"model_type": "qwen2_5_vl", **parts, "tie_word_embeddings": False}
    known = {one["name"]: one["config"] for one in json.loads(_PUBLISHED.read_text())}
    return dict(known[_FROM_PUBLISHED[name]])


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(name: str, tokens: int, repeat: int) -> dict[str, float]:
    """The figures of one model on this side; seconds are of the CPU, memory is in MiB."""
    torch: Any = importlib.import_module("torch")
    tf: Any = importlib.import_module("transformers")
    fake = importlib.import_module("torch._subclasses.fake_tensor").FakeTensorMode
    given = _configuration(name)
    kind = tf.CONFIG_MAPPING[given.pop("model_type")]
    importlib.import_module(kind.__module__.replace("configuration_", "modeling_"))
    vision = name == "Qwen2.5-VL-7B"
    auto = tf.AutoModelForImageTextToText if vision else tf.AutoModelForCausalLM
    found = {"libraries": _peak_mib()}
    with fake():
        started = time.process_time()
        # As published; and PyTorch's fakes take `_grouped_mm`, the experts', of no other dtype.
        model = auto.from_config(kind(**given), dtype=torch.bfloat16)
        found["build"] = time.process_time() - started
        ids = torch.ones(1, tokens, dtype=torch.long)
        seconds = []
        for _ in range(1 + repeat):
            started = time.process_time()
            model.zero_grad()
            model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
            seconds.append(time.process_time() - started)
    found["parameters"] = float(sum(p.numel() for p in model.parameters()))
    found["first"], found["later"] = seconds[0], min(seconds[1:] or seconds)
    found["peak"] = _peak_mib()
    return found


def _asked(python: str, given: argparse.Namespace, name: str, side: str) -> dict[str, float]:
    command = [python, __file__, "--side", side, "--tokens", str(given.tokens)]
    command += ["--repeat", str(given.repeat), name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        raise SystemExit(f"{name} on {side} failed:\n{done.stderr[-2000:]}")
    return dict(json.loads(lines[-1]))


def main() -> int:
    """Measure each model that is named, and print a line for it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--torch", metavar="PYTHON", help="has PyTorch and transformers")
    parser.add_argument("--tokens", type=int, default=512, help="of the sequence, 512 unless told")
    parser.add_argument("--repeat", type=int, default=2, help="later steps, 2 unless told")
    parser.add_argument("--side", choices=("maquette", "torch"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ.update(TRANSFORMERS_VERBOSITY="error", HF_HUB_OFFLINE="1")
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    if given.side == "maquette":
        import maquette.torch  # not in the peer

        maquette.torch.install()
    if given.side:
        print(json.dumps(measured(given.names[0], given.tokens, given.repeat)))
        return 0
    print(f"{'':16}{'build s':>9}{'first s':>9}{'later s':>9}{'peak MiB':>10}{'libraries':>11}")
    for name in given.names or NAMES:
        ours = _asked(sys.executable, given, name, "maquette")
        _print(name, ours)
        if given.torch:
            theirs = _asked(given.torch, given, name, "torch")
            _print("  PyTorch", theirs)
            ratios = [theirs[part] / ours[part] for part in ("build", "first", "later")]
            print(f"{'  ratio':16}" + "".join(f"{ratio:9.1f}" for ratio in ratios))
    return 0


def _print(name: str, found: dict[str, float]) -> None:
    seconds = "".join(f"{found[part]:9.3f}" for part in ("build", "first", "later"))
    print(f"{name:16}{seconds}{found['peak']:10.0f}{found['libraries']:11.0f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
