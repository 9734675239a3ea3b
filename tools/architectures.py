"""Run architectures of `transformers` at tiny sizes, on maquette and on PyTorch, and compare.

    python tools/architectures.py [--peer PYTHON] [NAME ...]

Needs `transformers` beside maquette, and none of PyTorch: each architecture is built from its own
configuration made small, runs forward and backward and generates four tokens. With ``--peer``, a
Python that has PyTorch and can import `transformers` too, the same programs run there, and what
differs is listed: parameters, loss, gradients, tokens. Exit code 1 if an architecture that runs
there fails or differs here.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

NAMES = """
llama gpt2 mistral qwen2 qwen3 gemma gemma2 phi phi3 gpt_neox gptj opt bloom mixtral qwen2_moe
qwen3_moe olmo olmo2 stablelm starcoder2 codegen mpt cohere granite mamba falcon_mamba rwkv bert
roberta albert electra distilbert deberta deberta-v2 mobilebert mpnet camembert xlm-roberta big_bird
longformer layoutlm ernie convbert squeezebert nystromformer modernbert t5 bart mbart pegasus led
blenderbot m2m_100 marian longt5 umt5 switch_transformers vit deit beit dinov2 vit_mae
data2vec-vision poolformer glm nemotron olmoe persimmon smollm3 ernie4_5 gpt_oss llama4_text
gpt_bigcode biogpt ctrl openai-gpt xglm fsmt rembert yoso fnet megatron-bert ibert splinter mra
""".split()

# What makes a configuration small; an architecture takes those that it has.
SMALL: dict[str, object] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embedding_size"), 32),
    **dict.fromkeys(("word_embed_proj_dim", "moe_intermediate_size", "image_size"), 32),
    **dict.fromkeys(("intermediate_size", "d_ff", "ffn_dim", "hidden_dim"), 48),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 48),
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layer", "n_layers"), 2),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "num_key_value_heads"), 2),
    **dict.fromkeys(("num_attention_heads", "num_heads", "n_head", "n_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("num_local_experts", "num_experts"), 4),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx"), 64),
    **dict.fromkeys(("head_dim", "d_kv", "state_size", "rotary_dim", "patch_size"), 8),
    **dict.fromkeys(("dropout", "attention_dropout", "hidden_dropout_prob"), 0.0),
    "attention_probs_dropout_prob": 0.0,
    "num_experts_per_tok": 2,
    "shared_expert_intermediate_size": 32,
    "num_hidden_groups": 1,
    "attention_window": 8,
    "vocab_size": 99,
    "num_labels": 3,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
TOLERANCE = 2e-4


def run(names: list[str], torch: object) -> dict[str, dict[str, object]]:
    """The aspects of each architecture, by name; "error" where it failed."""
    found: dict[str, dict[str, object]] = {}
    for name in names:
        aspects: dict[str, object] = {}
        try:
            _aspects(name, torch, aspects)
        except Exception as error:  # noqa: BLE001  # whatever a program raises is its answer
            aspects["error"] = f"{type(error).__name__}: {str(error).splitlines()[0][:150]}"
        found[name] = aspects
    return found


def _aspects(name: str, torch: object, aspects: dict[str, object]) -> None:
    tf: Any = importlib.import_module("transformers")
    T: Any = torch
    kind = tf.CONFIG_MAPPING[name]
    has = kind()
    config = kind(**{key: value for key, value in SMALL.items() if hasattr(has, key)})
    T.manual_seed(0)
    model, inputs = _model(tf, config, T)
    aspects["parameters"] = sum(p.numel() for p in model.parameters())
    aspects["weights"] = _size(p.detach() for p in model.parameters())
    model.eval()
    output = model(**inputs)
    loss = getattr(output, "loss", None)
    if loss is None:
        loss = next(v for v in output.values() if hasattr(v, "backward")).float().pow(2).mean()
    aspects["loss"] = float(loss)
    loss.backward()
    aspects["gradients"] = _size(p.grad for p in model.parameters() if p.grad is not None)
    if "input_ids" in inputs and hasattr(model, "generate") and model.can_generate():
        tokens = model.generate(inputs["input_ids"], max_new_tokens=4, do_sample=False)
        aspects["tokens"] = tokens.tolist()


def _model(tf: Any, config: Any, T: Any) -> tuple[Any, dict[str, Any]]:
    if hasattr(config, "image_size") or hasattr(config, "num_channels"):
        side = getattr(config, "image_size", 32)
        return tf.AutoModel.from_config(config), {"pixel_values": T.randn(1, 3, side, side)}
    ids = T.randint(3, 90, (2, 8))
    if getattr(config, "is_encoder_decoder", False):
        model = tf.AutoModelForSeq2SeqLM.from_config(config)
        return model, {"input_ids": ids, "decoder_input_ids": ids, "labels": ids}
    try:
        return tf.AutoModelForCausalLM.from_config(config), {"input_ids": ids, "labels": ids}
    except ValueError:
        return tf.AutoModel.from_config(config), {"input_ids": ids}


def _size(tensors: Iterable[Any]) -> float:
    return float(sum(t.double().abs().sum() for t in tensors))


def differences(ours: dict[str, object], theirs: dict[str, object]) -> list[str]:
    """What differs between the aspects of one architecture."""
    if "error" in theirs:
        return []
    if "error" in ours:
        return [f"fails here: {ours['error']}"]
    found = []
    for aspect, expected in theirs.items():
        given = ours.get(aspect)
        if isinstance(expected, float) and isinstance(given, float):
            if abs(given - expected) <= TOLERANCE * max(1.0, abs(expected)):
                continue
        elif given == expected:
            continue
        found.append(f"{aspect}: {given}, PyTorch {expected}")
    return found


def _peer(python: str, names: list[str]) -> dict[str, dict[str, object]]:
    command = [python, str(Path(__file__).resolve()), "--answers", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    answers: dict[str, dict[str, object]] = json.loads(done.stdout.splitlines()[-1])
    return answers


def main() -> int:
    """Run, compare, and print a line for each architecture that fails or differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME")
    parser.add_argument("--peer", metavar="PYTHON", help="has PyTorch and transformers")
    parser.add_argument("--answers", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.answers:  # in the peer: PyTorch itself
        print(json.dumps(run(given.names, importlib.import_module("torch"))))
        return 0
    import maquette.torch  # noqa: PLC0415  # not in the peer

    maquette.torch.install()
    ours = run(given.names, maquette.torch)
    theirs = _peer(given.peer, given.names) if given.peer else {}
    bad = 0
    for name, aspects in ours.items():
        lines = differences(aspects, theirs[name]) if theirs else []
        if not theirs and "error" in aspects:
            lines = [str(aspects["error"])]
        bad += bool(lines)
        for line in lines:
            print(f"{name:24} {line}")
    print(f"{len(ours) - bad} of {len(ours)} architectures {'agree' if theirs else 'run'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
