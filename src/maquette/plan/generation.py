"""Generating tokens: the prompt at once, then one token after another on a growing cache.

Any model that takes ``input_ids``, ``use_cache`` and a cache, and returns logits and the cache, is
run as a greedy loop runs it. Where each layer's cache is a state of one size, or a plain pair of
keys and values that grow by a token, up to a window if it has one, tokens are not run one by one:
as long as no window fills, FLOPs and bytes grow linearly, so the cache is given its last length,
and the first and last steps of such a stretch count for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from maquette.plan.recorder import Recorder
from maquette.tensor.tensor import Tensor

SHORT = 4  # tokens that are always run one by one
_CACHES = ("past_key_values", "cache_params")  # the second of models that keep a state instead
# transformers' names of layers' caches: of one size, and of keys and values that grow.
_STATES = ("LinearAttentionLayer",)
_PLAIN = ("DynamicLayer", "DynamicSlidingWindowLayer", *_STATES)


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
    given = next((name for name in _CACHES if getattr(output, name, None) is not None), "")
    if not given:
        raise TypeError(
            f"--generate needs a model that returns its cache, as transformers' causal models do; "
            f"{type(output).__name__} has no {' or '.join(_CACHES)}"
        )
    cache = getattr(output, given)
    _label(recorder, cache)
    recorder.begin_step()
    step = 0
    with recorder.during("decoding"):
        while step < new_tokens:
            alike = _alike(cache, new_tokens - step)
            first = len(recorder.operations)
            output = model(input_ids=token, **{given: cache}, use_cache=True)
            token = _chosen(output)
            step += 1
            if alike > SHORT:
                _count(recorder, first, alike, 0)
                _grow(recorder, cache, alike - 2)
                last = len(recorder.operations)
                output = model(input_ids=token, **{given: cache}, use_cache=True)
                token = _chosen(output)
                _count(recorder, last, alike, 1)
                step += alike - 1
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


def _alike(cache: Any, left: int) -> int:
    """For how many of the steps that are left each layer of a plain cache grows as in the first."""
    layers = getattr(cache, "layers", ())
    if not layers or any(type(layer).__name__ not in _PLAIN for layer in layers):
        return 1
    for layer in layers:
        window = getattr(layer, "sliding_window", None)
        # The step that fills the window is the first of those that see all of it.
        if window is not None and layer.cumulative_length < window - 1:
            left = min(left, window - 1 - layer.cumulative_length)
    return left


def _grow(recorder: Recorder, cache: Any, by: int) -> None:
    """Make a plain cache ``by`` tokens longer, as steps would."""
    for number, layer in enumerate(cache.layers):
        if type(layer).__name__ in _STATES:
            continue
        window = getattr(layer, "sliding_window", None)
        length = layer.keys.shape[-2] + by
        if window is not None:
            layer.cumulative_length += by
            length = min(layer.cumulative_length, window)
        for name in ("keys", "values"):
            kept = getattr(layer, name)
            *before, _, width = kept.shape
            longer = kept.new_empty(*before, length, width)
            recorder.label(longer._storage, "cache", f"{name} of layer {number}")
            # A window's layer keeps what the next token sees, of a tensor that is one longer.
            setattr(layer, name, longer.narrow(-2, 1, length - 1) if length == window else longer)


def _count(recorder: Recorder, since: int, steps: int, up: int) -> None:
    """Have a step's operators count for half of ``steps``, rounded ``up`` (1) or down (0)."""
    made = recorder.operations
    for number in range(since, len(made)):
        one = made[number]
        flops, moved = ((n * steps + up) // 2 for n in (one.flops, one.bytes_moved))
        # A new one: a block that is run again tells of its operators as they were.
        made[number] = replace(one, flops=flops, bytes_moved=moved)
