"""Generating tokens: the prompt at once, then one token after another on a growing cache.

Any model that takes ``input_ids``, ``past_key_values`` and ``use_cache`` and returns logits and
the cache is run as a greedy loop runs it. Where each layer's cache is a plain pair of keys and
values that grow by a token, the tokens between the first and the last are not run one by one: the
cache is given its last length, and the first and last steps count for all, since FLOPs and bytes
grow linearly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from maquette.plan.recorder import Recorder
from maquette.tensor.tensor import Tensor

SHORT = 4  # tokens that are always run one by one


def generate(
    recorder: Recorder, model: Callable[..., Any], kwargs: Mapping[str, object], new_tokens: int
) -> None:
    """Run the prompt of ``kwargs`` and ``new_tokens`` steps under ``recorder``, without grad.

    Raises TypeError where the model gives no cache back.
    """
    recorder.begin_step()
    with recorder.during("prompt"):
        output = model(**kwargs, use_cache=True)
        token = _chosen(output)
    cache = getattr(output, "past_key_values", None)
    if cache is None:
        raise TypeError(
            f"--generate needs a model that returns past_key_values, as transformers' causal "
            f"models do; {type(output).__name__} has none"
        )
    _label(recorder, cache)
    recorder.begin_step()
    step = 0
    with recorder.during("decoding"):
        while step < new_tokens:
            left = new_tokens - step
            first = len(recorder.operations)
            output = model(input_ids=token, past_key_values=cache, use_cache=True)
            token = _chosen(output)
            if step == 0 and left > SHORT and _grown(recorder, cache, left - 2):
                _count(recorder, first, left)
                step = new_tokens - 1
                last = len(recorder.operations)
                output = model(input_ids=token, past_key_values=cache, use_cache=True)
                token = _chosen(output)
                _count(recorder, last, left)
            step += 1
            _label(recorder, cache)


def _chosen(output: Any) -> Any:
    logits = getattr(output, "logits", None)
    if logits is None:
        raise TypeError(f"generating needs a model with logits, not {type(output).__name__}")
    return logits[:, -1:].argmax(-1)


def _label(recorder: Recorder, cache: Any) -> None:
    for number, layer in enumerate(getattr(cache, "layers", ())):
        for name in ("keys", "values"):
            kept = getattr(layer, name, None)
            if isinstance(kept, Tensor):
                recorder.label(kept._storage, "cache", f"{name} of layer {number}")


def _grown(recorder: Recorder, cache: Any, by: int) -> bool:
    """Make a cache of plain layers ``by`` tokens longer; whether it is one."""
    layers = getattr(cache, "layers", ())
    if not layers or any(type(layer).__name__ != "DynamicLayer" for layer in layers):
        return False
    for number, layer in enumerate(layers):
        for name in ("keys", "values"):
            kept = getattr(layer, name)
            *before, length, width = kept.shape
            setattr(layer, name, kept.new_empty(*before, length + by, width))
            recorder.label(getattr(layer, name)._storage, "cache", f"{name} of layer {number}")
    return True


def _count(recorder: Recorder, since: int, steps: int) -> None:
    """Have the operators of a step count for half of ``steps``: the first and last are the ends."""
    for operation in recorder.operations[since:]:
        operation.flops = operation.flops * steps // 2
        operation.bytes_moved = operation.bytes_moved * steps // 2
