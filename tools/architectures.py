"""Run the models of `transformers`, `timm` and `torchvision`, on maquette and on PyTorch; compare.

    python tools/architectures.py [--peer PYTHON] [--library NAME] [--keep FOLDER]
                                  [--tests FOLDER] [--limit SECONDS] [NAME ...]

Needs the library beside maquette, and none of PyTorch: each architecture is built small (its own
configuration made so by `small_configurations.py`, or a small image), runs forward and backward,
generates four tokens, counts operators and FLOPs, and here runs once more with fake tensors of
``cpu`` and ``cuda``. With ``--peer``, a Python that has PyTorch and can import the library too, the
same programs run there, and what differs is listed. Exit code 1 if an architecture that runs there
fails or differs here. An architecture that PyTorch itself cannot run so is counted apart; so is a
run with fake tensors that fails here, where it fails with PyTorch's fake tensors too.

With ``--tests``, the folder of that name in a copy of transformers' repository, every class of
models that its own tests name is built as they build it, with their inputs.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import inspect
import json
import logging
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from model_tests import model_of, names_in
from small_configurations import configurations

TOLERANCE = 2e-4
_CHUNK = 120  # architectures a process: what libraries keep of each adds up
_DEVICES = ("cpu", "cuda")
_FAKE = ("fake cpu", "fake cuda")
_SIDES = ("ours", "theirs", "fakes", "ours precisely", "theirs precisely")
_RUNS = "runs"
_DIED = "the process died"
TESTS: Path | None = None  # of transformers' own tests, from the command line


# --- the models of each library: names, and a model with its inputs ------------------------------


def names_of(library: str) -> list[str]:
    """The architectures of a library; of timm the smallest of each file."""
    module: Any = importlib.import_module(library)
    if library == "transformers":
        return names_in(TESTS) if TESTS else sorted(module.CONFIG_MAPPING.keys())
    if library == "torchvision":
        return [n for n in module.models.list_models() if not n.startswith("quantized")]
    found = (_smallest(module, family) for family in module.list_modules())
    return sorted(name for name in found if name)


def _smallest(timm: Any, family: str) -> str:
    """The shortest name of a family: variants add to it; tiny ones first."""
    names = timm.list_models(module=family)
    marks = ("test_", "nano", "pico", "femto", "atto", "xxs", "tiny", "xs", "_s_", "small")
    rank = {n: next((i for i, mark in enumerate(marks) if mark in n), 99) for n in names}
    return min(names, key=lambda n: (rank[n], len(n), n)) if names else ""


def _model(library: str, name: str, T: Any) -> tuple[Any, dict[str, Any]]:
    if library == "transformers":
        return model_of(TESTS, name) if TESTS else _of_transformers(name, T)
    if library == "timm":
        return _of_timm(name, T)
    return _of_torchvision(name, T)


# What timm's families are made small by, where their classes take it: the first that goes through.
_SHALLOW: tuple[dict[str, Any], ...] = (
    {"img_size": 64, "depth": 2},
    {"img_size": 64, "depths": (1, 1, 1, 1)},
    {"depth": 2},
    {"depths": (1, 1, 1, 1)},
    {"layers": (1, 1, 1, 1)},
    {"img_size": 64},
    {},
)


def _of_timm(name: str, T: Any) -> tuple[Any, dict[str, Any]]:
    """A model of timm, shallow where its class takes that, for the smallest image that it takes."""
    timm: Any = importlib.import_module("timm")
    given = timm.get_pretrained_cfg(name)
    own = given.input_size if given is not None else (3, 224, 224)
    refused: Exception | None = None
    for options in _SHALLOW:
        try:
            model = timm.create_model(name, num_classes=3, **options).eval()
        except Exception as error:  # noqa: BLE001  # the next options, or the first one's error
            refused = refused or error
            continue
        for side in (64, own[-1]):
            image = T.randn(1, own[0], side, side)
            try:
                with T.no_grad():
                    model(image)
            except Exception as error:  # noqa: BLE001  # the next size
                refused = refused or error
                continue
            return model, {"x": image}
    raise refused or ValueError("no size is known")


def _of_torchvision(name: str, T: Any) -> tuple[Any, dict[str, Any]]:
    vision: Any = importlib.import_module("torchvision")
    options: dict[str, Any] = {"weights": None}
    detects = "rcnn" in name or name.startswith(("retinanet", "fcos", "ssd"))
    if detects or name.startswith(("deeplab", "fcn", "lraspp")):
        options["weights_backbone"] = None
    model = vision.models.get_model(name, **options)
    if detects:
        box = T.tensor([[4.0, 4.0, 40.0, 48.0]])
        target = {"boxes": box, "labels": T.tensor([1]), "masks": T.ones(1, 64, 64).byte()}
        target["keypoints"] = T.tensor([[[20.0, 20.0, 1.0]]]).expand(1, 17, 3)
        return model.train(), {"images": [T.rand(3, 64, 64)], "targets": [target]}
    if name.startswith("raft"):
        return model, {"image1": T.rand(1, 3, 128, 128), "image2": T.rand(1, 3, 128, 128)}
    if getattr(vision.models, "video", None) and name in dir(vision.models.video):
        side = 224 if "mvit" in name else 64
        return model, {"x": T.rand(1, 3, 16, side, side)}
    side = 224 if name.startswith(("vit", "maxvit")) else 299 if "inception" in name else 96
    return model, {"x": T.rand(1, 3, side, side)}


_HEADS = (
    "AutoModelForCausalLM",
    "AutoModelForSeq2SeqLM",
    "AutoModelForMaskedLM",
    "AutoModelForImageClassification",
    "AutoModelForAudioClassification",
    "AutoModel",
)


_SOUND_MASKS = ("input_features_mask", "feature_attention_mask", "padding_mask")


def _of_transformers(name: str, T: Any) -> tuple[Any, dict[str, Any]]:
    """The first small model of the type, and the first inputs, that go through its forward."""
    tf: Any = importlib.import_module("transformers")
    refused: Exception | None = None
    for config in configurations(tf.CONFIG_MAPPING[name]):
        try:
            model = _headed(tf, config).eval()
            for inputs in _choices(model, config, T):
                return model, inputs
        except Exception as error:  # noqa: BLE001  # the next choice, or the first one's error
            refused = refused or error
    raise refused or ValueError("no configuration is known")


def _headed(tf: Any, config: Any) -> Any:
    for head in _HEADS:
        kind = getattr(tf, head)
        if type(config) in kind._model_mapping.keys():
            return kind.from_config(config)
    raise ValueError("no class of models takes this configuration")


def _choices(model: Any, config: Any, T: Any) -> Iterator[dict[str, Any]]:
    """The inputs that the model takes: its main one alone, or with the others that it names."""
    main = _inputs(model, config, T)
    named = inspect.signature(model.forward).parameters
    both = {n: make() for n, make in _others(config, T).items() if n in named and n not in main}
    masks = {n: T.ones(1, 128).long() for n in _SOUND_MASKS if n in named}
    refused: Exception | None = None
    for inputs in (main, {**main, **both}, {**main, **masks}):
        try:
            with T.no_grad():
                model(**inputs)
        except Exception as error:  # noqa: BLE001  # the next choice, or the first one's error
            refused = refused or error
            continue
        yield inputs
        return
    raise refused or ValueError("no inputs are known")


def _others(config: Any, T: Any) -> dict[str, Callable[[], Any]]:
    """What models of text, images and sound take besides their main input."""
    seen = getattr(config, "vision_config", None)
    side = getattr(seen, "image_size", None) or getattr(config, "image_size", None) or 32
    height, width = side if isinstance(side, (list, tuple)) else (side, side)
    channels = getattr(seen or config, "num_channels", 3) or 3
    width_of = getattr(config, "hidden_size", 32)
    return {
        "input_ids": lambda: T.randint(3, 90, (2, 8)),
        "decoder_input_ids": lambda: T.randint(3, 90, (2, 8)),
        "pixel_values": lambda: T.randn(2, channels, height, width),
        "query_embeds": lambda: T.randn(2, 8, width_of),
        "bbox": lambda: T.zeros(2, 8, 4).long(),
        "input_features": lambda: T.randn(2, 80, 128),
    }


def _inputs(model: Any, config: Any, T: Any) -> dict[str, Any]:
    """What the model's main input is, small; labels where it takes tokens of both sides."""
    ids = T.randint(3, 90, (2, 8))
    main = model.main_input_name
    side = getattr(config, "image_size", 32) or 32
    height, width = side if isinstance(side, (list, tuple)) else (side, side)
    channels = getattr(config, "num_channels", 3) or 3
    if main == "input_ids":
        given = {"input_ids": ids}
        if getattr(config, "is_encoder_decoder", False):
            given["decoder_input_ids"] = ids
        if "CausalLM" in type(model).__name__ or "Seq2Seq" in type(model).__name__:
            given["labels"] = ids
        return given
    if main == "pixel_values":
        return {main: T.randn(1, channels, height, width)}
    if main == "pixel_values_videos":
        frames = getattr(config, "num_frames", 8)
        return {main: T.randn(1, frames, channels, height, width)}
    if main == "input_values":
        if hasattr(config, "max_length") and hasattr(config, "num_mel_bins"):  # a spectrogram
            return {main: T.randn(1, config.max_length, config.num_mel_bins)}
        return {main: T.randn(1, 1, 3200) if "audio_channels" in vars(config) else T.randn(1, 3200)}
    if main == "input_features":
        bins = getattr(config, "num_mel_bins", None)
        bins = bins or getattr(config, "input_feat_per_channel", 80)
        given = {main: T.randn(1, bins, 128)}
        if getattr(config, "is_encoder_decoder", False):
            given["decoder_input_ids"] = ids[:1]
        return given
    if main == "past_values":
        return _series(config, T)
    if main in ("inputs_embeds", "hidden_states", "embeddings"):
        return {main: T.randn(1, 8, config.hidden_size)}
    raise ValueError(f"no small input is known for {main}")


def _series(config: Any, T: Any) -> dict[str, Any]:
    """Past and future values of a forecaster."""
    length = getattr(config, "context_length", None) or 32
    if not hasattr(config, "lags_sequence"):
        width = getattr(config, "num_input_channels", None)
        return {"past_values": T.randn(1, length, width) if width else T.randn(1, length)}
    past, future = length + max(config.lags_sequence), config.prediction_length
    features = config.num_time_features
    return {
        "past_values": T.randn(1, past),
        "past_time_features": T.randn(1, past, features),
        "past_observed_mask": T.ones(1, past),
        "future_values": T.randn(1, future),
        "future_time_features": T.randn(1, future, features),
    }


# --- what is compared ----------------------------------------------------------------------------


def run(
    library: str, names: Iterable[str], torch: Any, what: str
) -> Iterator[tuple[str, dict[str, object]]]:
    """The aspects of each architecture, by name; "error" where it failed."""
    for name in names:
        aspects: dict[str, object] = {}
        try:
            if what.endswith("precisely"):
                aspects.update(_precise(library, name, torch))
            elif what == "fakes":
                torch.manual_seed(0)
                _model(library, name, torch)  # which settles the inputs, with data
                # Fakes of cuda need a build that has it; what data decides is the same on the cpu.
                there = _DEVICES if torch.backends.cuda.is_built() else ("cpu", "cpu")
                aspects.update(
                    (f"fake {d}", _fake(library, name, torch, on))
                    for d, on in zip(_DEVICES, there, strict=True)
                )
            else:
                _aspects(library, name, torch, aspects)
                if what == "ours":  # PyTorch's are slow, and asked only about what fails here
                    aspects.update((f"fake {d}", _fake(library, name, torch, d)) for d in _DEVICES)
        except Exception as error:  # noqa: BLE001  # whatever a program raises is its answer
            aspects["error"] = f"{type(error).__name__}: {str(error).splitlines()[:1]}"[:240]
        yield name, aspects


def _precise(library: str, name: str, T: Any) -> dict[str, object]:
    """Loss and gradients in float64, for where those of float32 differ by rounding."""
    T.manual_seed(0)
    model, inputs = _model(library, name, T)

    def wide(given: Any) -> Any:
        floats = isinstance(given, T.Tensor) and given.is_floating_point()
        return given.double() if floats else given

    model = model.double()
    inputs = importlib.import_module("torch.utils._pytree").tree_map(wide, inputs)
    if "targets" not in inputs:
        model.eval()
    T.manual_seed(1)
    loss = _loss(model(**inputs))
    loss.backward()
    gradients = _size(p.grad for p in model.parameters() if p.grad is not None)
    return {"loss": float(loss.detach()), "gradients": gradients}


def _aspects(library: str, name: str, T: Any, aspects: dict[str, object]) -> None:
    T.manual_seed(0)
    model, inputs = _model(library, name, T)
    aspects["parameters"] = sum(p.numel() for p in model.parameters())
    aspects["weights"] = _size(p.detach() for p in model.parameters())
    aspects["buffers"] = _size(b for b in model.buffers() if b.is_floating_point())
    if "targets" not in inputs:
        model.eval()
    counted, operators = _counters(T)
    T.manual_seed(1)
    with operators:  # alone: PyTorch's counter of FLOPs makes views of the parameters that it meets
        _loss(model(**inputs))
    aspects["operators"] = {name: n for name, n in sorted(operators.seen.items()) if n}
    T.manual_seed(1)
    with counted:
        loss = _loss(model(**inputs))
        loss.backward()
    aspects["loss"] = float(loss.detach())
    aspects["FLOPs"] = counted.get_total_flops()
    aspects["gradients"] = _size(p.grad for p in model.parameters() if p.grad is not None)
    if "input_ids" in inputs and hasattr(model, "generate") and model.can_generate():
        ids = inputs["input_ids"]
        try:
            tokens = model.generate(ids, max_new_tokens=4, do_sample=False)
            aspects["tokens"] = tokens.tolist()
        except Exception as error:  # noqa: BLE001  # some refuse, and so should we
            aspects["tokens"] = type(error).__name__


def _counters(T: Any) -> tuple[Any, Any]:
    flops = importlib.import_module("torch.utils.flop_counter").FlopCounterMode(display=False)
    modes = importlib.import_module("torch.utils._python_dispatch")

    class Operators(modes.TorchDispatchMode):  # type: ignore[name-defined]
        seen: collections.Counter[str] = collections.Counter()

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            # PyTorch shows the detaching of what it saves for backward, which nobody called.
            self.seen[str(func)] += str(func) != "aten.detach.default"
            return func(*args, **(kwargs or {}))

    mode = Operators()
    mode.seen = collections.Counter()
    return flops, mode


def _fake(library: str, name: str, T: Any, device: str) -> object:
    """The FLOPs of forward and backward with tensors that have no data.

    A model that reads data while it is built, or is built on the cpu whatever the device is, is
    built with data and made fake then; sizes that data decide are symbols.
    """
    fake = importlib.import_module("torch._subclasses.fake_tensor").FakeTensorMode
    symbols = importlib.import_module("torch.fx.experimental.symbolic_shapes")
    try:
        with fake(), T.device(device):
            return _fake_flops(*_model(library, name, T))
    except Exception as error:  # noqa: BLE001  # compared, and listed
        refused = f"{type(error).__name__}: {str(error).splitlines()[:1]}"[:240]
    try:
        model, inputs = _model(library, name, T)
        with fake(shape_env=symbols.ShapeEnv()) as mode:

            def made(given: Any) -> Any:
                if not isinstance(given, T.Tensor):
                    return given
                moved = mode.from_tensor(given, static_shapes=True).detach().to(device)
                if not isinstance(given, T.nn.Parameter):
                    return moved
                return T.nn.Parameter(moved, requires_grad=given.requires_grad)

            _made_fake(model, made)
            tree_map = importlib.import_module("torch.utils._pytree").tree_map
            return _fake_flops(model, tree_map(made, inputs))
    except Exception as error:  # noqa: BLE001  # compared, and listed
        return f"{refused}; {type(error).__name__}: {str(error).splitlines()[:1]}"[:360]


def _fake_flops(model: Any, inputs: dict[str, Any]) -> object:
    flops = importlib.import_module("torch.utils.flop_counter").FlopCounterMode(display=False)
    if "targets" not in inputs:
        model.eval()
    with flops:
        _loss(model(**inputs)).backward()
    counted = flops.get_total_flops()
    return counted if isinstance(counted, int) else f"{_RUNS}, {counted} by sizes in data"


def _made_fake(model: Any, made_fake: Callable[[Any], Any]) -> None:
    """Put fakes in the place of a model's parameters and buffers, shared ones shared."""
    made: dict[int, Any] = {}
    for module in model.modules():
        for name, found in [*module._parameters.items(), *module._buffers.items()]:
            if found is not None:
                if id(found) not in made:
                    made[id(found)] = made_fake(found)
                setattr(module, name, made[id(found)])


def _loss(output: Any) -> Any:
    """The model's own loss, or the mean square of all it gives."""
    given = getattr(output, "loss", None)
    if given is not None:
        return given
    kept = [t for t in _tensors(output) if t.requires_grad]
    losses = [(t if "float64" in str(t.dtype) else t.float()).pow(2).mean() for t in kept]
    if not losses:
        raise ValueError("nothing in the model's output requires a gradient")
    return sum(losses[1:], losses[0])


def _tensors(output: Any) -> Iterator[Any]:
    if hasattr(output, "requires_grad"):
        yield output
    elif isinstance(output, dict) or hasattr(output, "values"):
        for value in output.values():
            yield from _tensors(value)
    elif isinstance(output, (list, tuple)):
        for value in output:
            yield from _tensors(value)


def _size(tensors: Iterable[Any]) -> float:
    return float(sum(t.double().abs().sum() for t in tensors))


def fails_fake(aspects: dict[str, object]) -> list[str]:
    """The devices on whose fake tensors an architecture did not run."""
    said = {aspect: aspects[aspect] for aspect in _FAKE if aspect in aspects}
    return [a for a, v in said.items() if isinstance(v, str) and not v.startswith(_RUNS)]


def differences(ours: dict[str, object], theirs: dict[str, object]) -> list[str]:
    """What differs between the aspects of one architecture; fakes are compared with its FLOPs.

    Where fake tensors fail on both sides nothing is compared.
    """
    if "error" in theirs:
        return []
    if "error" in ours:
        return [f"fails here: {ours['error']}"]
    found = []
    neither = {*fails_fake(ours)} & {*fails_fake(theirs)}
    for aspect, expected in {**theirs, **dict.fromkeys(_FAKE, theirs["FLOPs"])}.items():
        given = ours.get(aspect)
        if aspect in neither:
            continue
        if aspect == "fake cuda" and isinstance(given, int):
            continue  # attention of cuda counts its own products; it ran
        if aspect in _FAKE and str(given).startswith(_RUNS):
            continue
        if _agree(given, expected):
            continue
        if isinstance(expected, dict) and isinstance(given, dict):
            keys = sorted(k for k in {*given, *expected} if given.get(k) != expected.get(k))
            pairs = (f"{k} {given.get(k, 0)} for {expected.get(k, 0)}" for k in keys)
            found.append(f"{aspect}: {', '.join(pairs)}"[:600])
            continue
        found.append(f"{aspect}: {given}, PyTorch {expected}")
    return found


def _agree(given: object, expected: object) -> bool:
    """Whether two answers are one: numbers within the tolerance, lists element by element."""
    if isinstance(expected, list) and isinstance(given, list):  # tokens, or sound that they are for
        return len(given) == len(expected) and all(map(_agree, given, expected))
    if not isinstance(expected, float) or not isinstance(given, float):
        return given == expected
    if given != given or expected != expected or given == expected:  # NaN on both sides
        return given == expected or (given != given and expected != expected)
    return abs(given - expected) <= TOLERANCE * max(1.0, abs(expected))


def _imprecise(ours: dict[str, object], theirs: dict[str, object]) -> bool:
    """Whether loss or gradients differ, so that float64 has to tell whether it is by rounding."""
    said = (line.partition(":")[0] for line in differences(ours, theirs))
    return not {*said}.isdisjoint({"loss", "gradients"})


def _answers(python: str, given: argparse.Namespace, names: list[str], side: str) -> dict[str, Any]:
    """What a Python says of the names, in processes of some each; kept answers are read."""
    kept = (
        Path(given.keep, f"{given.library}{'.tests' if given.tests else ''}.{side}.jsonl")
        if given.keep
        else None
    )
    known: dict[str, Any] = {}
    if kept is not None and kept.exists():
        known = dict(json.loads(line) for line in kept.read_text().splitlines())
    missing = [name for name in names if name not in known]
    while missing:
        flags = ["--answers", side, "--library", given.library]
        flags += ["--tests", given.tests] if given.tests else []
        command = [python, str(Path(__file__).resolve()), *flags, *missing[:_CHUNK]]
        for name, aspects in _answered(command, missing[:_CHUNK], given.limit):
            missing.remove(name)
            known[name] = aspects
            if kept is not None:
                with kept.open("a") as file:
                    file.write(f"{json.dumps([name, aspects])}\n")
    return {name: known[name] for name in names}


def _answered(
    command: list[str], names: list[str], limit: float
) -> Iterator[tuple[str, dict[str, object]]]:
    """The answers of a process as they come, until it ends or takes too long for one."""
    # The order of a set is part of how some models, and their tests' inputs, are made.
    same = {**os.environ, "PYTHONHASHSEED": "0"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=same) as process:
        assert process.stdout is not None
        for name in names:
            timer = threading.Timer(limit, process.kill)
            timer.start()
            line = next((line for line in process.stdout if line.startswith('["')), "")
            late = not timer.is_alive()
            timer.cancel()
            if line:
                yield name, json.loads(line)[1]
                continue
            if late or name is names[0]:  # else it is the first in a process of its own
                yield name, {"error": f"took more than {limit:g} s" if late else _DIED}
            return


def main() -> int:
    """Run, compare, and print a line for each architecture that fails or differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--peer", metavar="PYTHON", help="has PyTorch and the library")
    parser.add_argument(
        "--library", default="transformers", choices=("transformers", "timm", "torchvision")
    )
    parser.add_argument(
        "--tests", metavar="FOLDER", help="the folder tests of transformers' sources"
    )
    parser.add_argument("--keep", metavar="FOLDER", help="keep answers there, and use those kept")
    parser.add_argument("--limit", type=float, default=120, help="seconds for one, 120 unless told")
    parser.add_argument("--answers", choices=_SIDES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ.update(TRANSFORMERS_VERBOSITY="error", HF_HUB_OFFLINE="1")
    global TESTS  # where models come from is asked for once
    TESTS = Path(given.tests) if given.tests else None
    if given.answers:
        return _answer(given)
    names = given.names or _names(given.library)
    ours = _answers(sys.executable, given, names, "ours")
    theirs = _answers(given.peer, given, names, "theirs") if given.peer else {}
    if theirs:  # fake tensors are slow there: only what failed with ours is asked
        failed = [name for name, aspects in ours.items() if fails_fake(aspects)]
        for name, fakes in _answers(given.peer, given, failed, "fakes").items():
            died = fakes.get("error") == _DIED
            theirs[name].update(
                (a, _DIED if died else fakes[a]) for a in _FAKE if died or a in fakes
            )
        rough = [name for name in ours if _imprecise(ours[name], theirs[name])]
        for python, known, side in ((sys.executable, ours, "ours"), (given.peer, theirs, "theirs")):
            for name, found in _answers(python, given, rough, f"{side} precisely").items():
                known[name].update(found)
    return report(ours, theirs)


def _names(library: str) -> list[str]:
    import maquette.torch  # noqa: PLC0415  # not in the peer

    maquette.torch.install()
    return names_of(library)


def _answer(given: argparse.Namespace) -> int:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    if given.answers.startswith("ours"):
        import maquette.torch  # noqa: PLC0415  # not in the peer

        maquette.torch.install()
    torch = importlib.import_module("torch")
    for found in run(given.library, given.names, torch, given.answers):
        print(json.dumps(found), flush=True)
    return 0


def report(ours: dict[str, dict[str, object]], theirs: dict[str, dict[str, object]]) -> int:
    """Print what differs, or fails where there is no peer; 1 if anything does."""
    bad = absent = neither = 0
    aspects = differing = 0
    for name, found in ours.items():
        lines = differences(found, theirs[name]) if theirs else []
        if not theirs and "error" in found:
            lines = [str(found["error"])]
        elif theirs and "error" in theirs[name]:
            absent += 1
            continue
        fails = {*fails_fake(found)} & {*fails_fake(theirs[name])} if theirs else set()
        neither += len(fails)
        compared = {*theirs[name], *_FAKE} - fails if theirs else {*found}
        aspects += len(compared)
        differing += len(compared) if theirs and "error" in found else len(lines)
        bad += bool(lines)
        for line in lines:
            print(f"{name:24} {line}")
    run_there = len(ours) - absent
    said = "agree" if theirs else "run"
    print(f"{run_there - bad} of {run_there} architectures {said}", end="; ")
    print(f"{aspects - differing} of {aspects} aspects; {absent} do not run in PyTorch so", end="")
    print(f"; {neither} runs with fake tensors fail on both sides" if neither else "")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
