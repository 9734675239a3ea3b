"""Where a model comes from: a Python file, a module, a configuration of transformers, a timm name.

Each source makes a `Program`: the model with its arguments, as fake tensors, and what to call it.
transformers and timm are the user's; they are imported with maquette in the place of torch.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from maquette.cli.errors import CommandError, failure
from maquette.cli.inputs import inputs_of
from maquette.cli.program import evaluate, load, load_module
from maquette.nn import Module
from maquette.plan.recipe import BACKENDS, Loss
from maquette.tensor.tensor import Tensor
from maquette.torch import install


@dataclass
class Program:
    """A model, what it is called with, and its name in the report."""

    model: Module
    args: tuple[object, ...]
    kwargs: dict[str, object]
    name: str
    loss: Loss | None = None
    notes: list[str] = field(default_factory=list)


def program(options: argparse.Namespace, symbols: Mapping[str, int]) -> Program:
    """The program that a command line names; CommandError where there is none.

    symbols: sizes that expressions name; of hf: and timm:, B is the batch and S the sequence.
    """
    if symbols and str(options.file).startswith(("hf:", "timm:")):
        batch, seq = symbols.get("B", options.batch), symbols.get("S", options.seq)
        options = argparse.Namespace(**{**vars(options), "batch": batch, "seq": seq})
    source: str | None = options.file
    if source is not None and source.startswith("hf:"):
        return _from_transformers(options, source.removeprefix("hf:"))
    if source is not None and source.startswith("timm:"):
        return _from_timm(options, source.removeprefix("timm:"))
    if options.module is not None:
        return _from_python(options, load_module(options.module), options.module, symbols)
    if source is None:
        raise CommandError("give a FILE, -m MODULE, hf:CONFIG or timm:NAME", 2)
    return _from_python(options, load(source), source, symbols)


# --- a file or a module ---------------------------------------------------------------


def _from_python(
    options: argparse.Namespace, module: ModuleType, name: str, symbols: Mapping[str, int]
) -> Program:
    names = module.__dict__
    names.update(symbols)
    made = evaluate(module, options.model, "model", "--model")
    if not isinstance(made, Module):
        raise CommandError(f"--model must give an nn.Module, got {type(made).__name__}", 2)
    needs_args = options.args is not None or "args" in names or options.kwargs is None
    args = evaluate(module, options.args, "args", "--args") if needs_args else ()
    kwargs: object = {}
    if options.kwargs is not None or "kwargs" in names:
        kwargs = evaluate(module, options.kwargs, "kwargs", "--kwargs")
    if isinstance(args, Tensor):
        args = (args,)
    if not isinstance(args, (tuple, list)):
        raise CommandError(
            f"--args must give a tuple of arguments or one tensor, got {type(args).__name__}", 2
        )
    if not isinstance(kwargs, Mapping) or not all(isinstance(k, str) for k in kwargs):
        raise CommandError(f"--kwargs must give a dict with names, got {type(kwargs).__name__}", 2)
    what = options.model or "model()"
    return Program(made, tuple(args), dict(kwargs), f"{name}: {what}", _loss(options, module))


def _loss(options: argparse.Namespace, module: ModuleType) -> Loss | None:
    """The function that ``--loss`` gives, or that its expression in ``output`` is."""
    if options.loss is None:
        return None
    names = {**module.__dict__}
    try:
        code = compile(options.loss, "<--loss>", "eval")
    except SyntaxError as error:
        raise CommandError(f"--loss {options.loss!r} is no expression: {error.msg}", 2) from None

    def loss(output: object) -> Any:
        value = eval(code, {**names, "output": output})  # the user's own expression
        return value(output) if callable(value) and not isinstance(value, Tensor) else value

    return loss


# --- transformers ---------------------------------------------------------------------


def _from_transformers(options: argparse.Namespace, source: str) -> Program:
    tf = _library("transformers", "hf:")
    config = _config(tf, source)
    if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = getattr(config, "pad_token_id", None) or 0
    try:
        how = {"attn_implementation": "sdpa"} if options.attention in BACKENDS else {}
        if options.attention in ("eager", "sdpa"):
            how = {"attn_implementation": options.attention}
        model = _class_of(tf, config)._from_config(config, **how)
    except Exception as error:
        raise failure(f"hf:{source}: cannot build the model", error) from error
    made = inputs_of(model, config, options.batch, options.seq, labels=options.train)
    name = f"hf:{source}: {type(model).__name__}, {made.text}"
    return Program(model, (), made.kwargs, name, _loss(options, tf), made.notes)


def _config(tf: Any, source: str) -> Any:
    """The configuration of a file, a folder, or (its default) a kind of model, like ``llama``."""
    path = pathlib.Path(source)
    if path.is_dir():
        path = path / "config.json"
    if not path.is_file():
        if source in tf.CONFIG_MAPPING:
            return tf.CONFIG_MAPPING[source]()
        raise CommandError(
            f"hf:{source}: there is no such file, folder with a config.json, or kind of model of "
            f"transformers; nothing is fetched from a network",
            2,
        )
    try:
        fields = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise CommandError(f"hf:{source}: {path} is not JSON: {error}", 2) from None
    kind = fields.pop("model_type", None) if isinstance(fields, dict) else None
    if kind not in tf.CONFIG_MAPPING:
        raise CommandError(f"hf:{source}: its model_type {kind!r} is none of transformers'", 2)
    try:
        return tf.CONFIG_MAPPING[kind].from_dict(fields)
    except Exception as error:
        raise failure(f"hf:{source}: its configuration cannot be read", error) from error


_ENCODER_DECODER = ("SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ", "IMAGE_TEXT_TO_TEXT")
# An encoder that could be made a decoder is an encoder: masked models come first. What compares
# images with texts is told by both, not by its images alone.
_FAMILIES = (
    "MASKED_LM", "CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "ZERO_SHOT_IMAGE_CLASSIFICATION",
    "IMAGE_CLASSIFICATION", "CTC",
)  # fmt: skip


def _class_of(tf: Any, config: Any) -> Any:
    """The class that a configuration names, or the one that generates or, last, encodes."""
    for name in config.architectures or ():
        made = getattr(tf, name, None)
        if made is not None:
            return made
    families = importlib.import_module("transformers.models.auto.modeling_auto")
    for family in _ENCODER_DECODER if config.is_encoder_decoder else _FAMILIES:
        mapping = getattr(families, f"MODEL_FOR_{family}_MAPPING", {})
        if type(config) in mapping:
            return _first(mapping[type(config)])
    mapping = families.MODEL_MAPPING
    if type(config) in mapping:
        return _first(mapping[type(config)])
    raise CommandError(f"transformers has no model for {type(config).__name__}", 2)


def _first(found: Any) -> Any:
    return found[0] if isinstance(found, (tuple, list)) else found


# --- timm -----------------------------------------------------------------------------


def _from_timm(options: argparse.Namespace, name: str) -> Program:
    timm = _library("timm", "timm:")
    torch = importlib.import_module("maquette.torch")
    try:
        model = timm.create_model(name, pretrained=False)
    except Exception as error:
        raise failure(f"timm:{name}: cannot build the model", error) from error
    size = model.pretrained_cfg.get("input_size", (3, 224, 224))
    image = torch.empty(options.batch, *size)
    text = f"batch {options.batch}, {' x '.join(map(str, size))}"
    return Program(model, (image,), {}, f"timm:{name}, {text}", _loss(options, timm))


# --- adapters -------------------------------------------------------------------------

_LORA = {"alpha": "lora_alpha", "dropout": "lora_dropout", "target": "target_modules"}


def adapted(model: Module, options: Mapping[str, object]) -> Module:
    """The model with peft's adapters, which alone are trained.

    options: of its ``LoraConfig``, also by the short names alpha, dropout and target, a module's
    own name or several.
    """
    peft = _library("peft", "--lora")
    given = {_LORA.get(name, name): value for name, value in options.items()}
    target = given.get("target_modules", "all-linear")
    if isinstance(target, str) and target != "all-linear":
        given["target_modules"] = [target]
    try:
        made = peft.get_peft_model(model, peft.LoraConfig(**given))
    except Exception as error:
        raise failure("--lora: peft refuses the model or its options", error) from error
    assert isinstance(made, Module)
    return made


def _library(name: str, prefix: str) -> Any:
    install()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise failure(f"{name} cannot be imported", error) from error
        raise CommandError(
            f"{prefix} needs {name}: pip install --no-deps {name}, and what it asks for but torch",
            2,
        ) from None
