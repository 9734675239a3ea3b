"""What ``maquette plan`` may be told: its arguments, and what they say once they are checked."""

from __future__ import annotations

import argparse
import ast
from typing import TYPE_CHECKING

from maquette.cli.errors import CommandError
from maquette.core import dtype as dtypes
from maquette.core.device import device
from maquette.plan.fit import parse_bytes
from maquette.plan.recipe import BACKENDS, OPTIMIZER_CLASSES

if TYPE_CHECKING:
    Parsers = argparse._SubParsersAction[argparse.ArgumentParser]

_DESCRIPTION = """Plan one step of a model. Without --model and --args, the functions model() and
args() of FILE are called. SOURCE may be a Python file, hf:FOLDER or hf:CONFIG.json or hf:KIND (a
configuration of transformers: no weights, no network), or timm:NAME."""

_CHUNK_LOSS = "with --train: the last linear and its cross_entropy in N chunks, each run again"
_ATTENTION_HELP = "the one kernel of scaled_dot_product_attention; hf: its implementation"
_IMPLEMENTATIONS = ("eager", "sdpa")  # of transformers
ATTENTION = sorted([*BACKENDS, *_IMPLEMENTATIONS])


def add_parser(commands: Parsers) -> argparse.ArgumentParser:
    """Add ``plan`` to the commands of ``maquette``."""
    parser = commands.add_parser(
        "plan",
        help="memory, FLOPs and operators of a model, without data or accelerator",
        description=_DESCRIPTION,
    )
    _add_program(parser.add_argument_group("the program"))
    _add_step(parser.add_argument_group("the step"))
    _add_answers(parser.add_argument_group("answers"))
    return parser


def _add_program(group: argparse._ArgumentGroup) -> None:
    group.add_argument("file", nargs="?", metavar="SOURCE", help="FILE.py, hf:CONFIG, timm:NAME")
    group.add_argument("-m", dest="module", metavar="MODULE", help="a module instead of a file")
    group.add_argument(
        "--script",
        nargs=argparse.REMAINDER,
        metavar="FILE [ARGS]",
        help="watch a training script until its steps repeat; what follows is the script's own",
    )
    group.add_argument("--model", metavar="EXPR", help="the model, in the names of the file")
    group.add_argument("--args", metavar="EXPR", help="its arguments: a tuple, or one tensor")
    group.add_argument("--kwargs", metavar="EXPR", help="its keyword arguments: a dict")
    group.add_argument("--batch", type=int, default=1, metavar="N", help="hf:, timm: batch (1)")
    group.add_argument("--seq", type=int, metavar="N", help="hf: tokens (at most 2048)")
    group.add_argument(
        "--symbolic", metavar="B=8,S=1024", help="names for --args; --fit varies the first"
    )


def _add_step(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--device", default="cpu", metavar="D", help="cpu, cuda, ... (no hardware)")
    group.add_argument("--dtype", metavar="T", help="cast the model and floating inputs to T")
    group.add_argument("--train", action="store_true", help="forward and backward")
    group.add_argument("--loss", metavar="EXPR", help="the loss, in the file's names and output")
    group.add_argument(
        "--optimizer",
        choices=sorted(OPTIMIZER_CLASSES),
        metavar="NAME",
        help=f"with --train: its step too ({', '.join(sorted(OPTIMIZER_CLASSES))})",
    )
    group.add_argument(
        "--optimizer-args", metavar="K=V,...", default="", help="such as lr=1e-4,foreach=False"
    )
    group.add_argument("--autocast", metavar="T", help="mixed precision: bf16 or fp16")
    group.add_argument("--checkpoint", metavar="PATTERN", help="modules to run again, as blocks.*")
    group.add_argument("--chunk-loss", type=int, default=1, metavar="N", help=_CHUNK_LOSS)
    group.add_argument("--attention", choices=ATTENTION, help=_ATTENTION_HELP)
    group.add_argument("--lora", metavar="r=16", help="train adapters alone, made by peft")
    group.add_argument("--generate", type=int, metavar="N", help="hf: N tokens after the prompt")
    group.add_argument("--accumulate", type=int, default=1, metavar="N", help="backwards a step")
    group.add_argument(
        "--steps", type=int, metavar="N", help="steps; each is told (1; of a script at most 32)"
    )


def _add_answers(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--fit", metavar="80GiB", help="the largest batch (or --vary) that fits")
    group.add_argument(
        "--vary",
        metavar="NAME",
        help="with --fit: batch, seq, a name of --symbolic, or devices (the fewest, fully sharded)",
    )
    group.add_argument("--advise", action="store_true", help="plan other ways that need less")
    group.add_argument("--fail-over", metavar="80GiB", help="exit code 3 if the peak is larger")
    group.add_argument("--on", metavar="GPU", help="its allocator's memory, and time by roofline")
    group.add_argument("--price", type=float, metavar="P", help="of an hour of --on: cost a step")
    group.add_argument("--devices", metavar="FILE", help="a table of devices for --on, as JSON")
    group.add_argument("--expandable", action="store_true", help="expandable_segments:True")
    group.add_argument("--diff", metavar="OLD.json", help="what changed since a plan was written")
    group.add_argument("--trace", metavar="OUT", help="Perfetto's JSON, or memory_viz's .pickle")
    group.add_argument("--depth", type=int, default=3, help="levels of the module tree (3)")
    group.add_argument("--json", metavar="OUT", help="write the plan as JSON; - for stdout")
    group.add_argument("--html", metavar="OUT", help="write the plan as one page for a browser")
    group.add_argument("--csv", metavar="OUT", help="write every operator as a line of CSV")


def check(options: argparse.Namespace) -> None:
    """Refuse options that do not go together; CommandError says which."""
    if options.optimizer and not options.train:
        raise CommandError("--optimizer needs --train", 2)
    if options.optimizer_args and not options.optimizer:
        raise CommandError("--optimizer-args needs --optimizer", 2)
    if options.loss and not options.train:
        raise CommandError("--loss needs --train", 2)
    if options.depth < 0:
        raise CommandError(f"--depth is a number of levels from 0 on, not {options.depth}", 2)
    for name in ("batch", "seq", "accumulate", "steps", "generate", "chunk_loss"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise CommandError(f"--{name.replace('_', '-')} is a number from 1 on, not {value}", 2)
    if options.generate and options.train:
        raise CommandError("--generate and --train do not go together", 2)
    if options.checkpoint and not options.train:
        raise CommandError("--checkpoint needs --train", 2)
    if options.chunk_loss > 1 and not options.train:
        raise CommandError("--chunk-loss needs --train", 2)
    if options.attention in _IMPLEMENTATIONS and not str(options.file).startswith("hf:"):
        raise CommandError(f"--attention {options.attention} is of hf: models, not of others", 2)
    if options.lora and not options.train:
        raise CommandError("--lora needs --train", 2)
    if options.vary and not options.fit:
        raise CommandError("--vary needs --fit SIZE", 2)
    if options.accumulate > 1 and not options.train:
        raise CommandError("--accumulate needs --train", 2)
    if options.on is None and (options.price or options.devices or options.expandable):
        raise CommandError("--price, --devices and --expandable need --on GPU", 2)
    if options.price is not None and options.price <= 0:
        raise CommandError(f"--price is of an hour, more than 0, not {options.price:g}", 2)
    if options.batch != 1 and not str(options.file).startswith(("hf:", "timm:")):
        raise CommandError("--batch is of hf: and timm: models; of others --args says it", 2)
    if options.script is not None:
        _check_script(options)
        return
    if options.seq is not None and not str(options.file).startswith("hf:"):
        raise CommandError("--seq is of hf: models; of others --args says it", 2)
    if options.file is not None and options.module is not None:
        raise CommandError(f"give {options.file} or -m {options.module}, not both", 2)
    if options.file is None and options.module is None:
        raise CommandError("give a FILE, -m MODULE, hf:CONFIG, timm:NAME or --script FILE", 2)


# What a script decides itself.
_OF_A_MODEL = (
    "file module model args kwargs seq symbolic dtype train loss optimizer optimizer_args autocast "
    "checkpoint attention lora generate fit vary advise"
)


def _check_script(options: argparse.Namespace) -> None:
    if not options.script:
        raise CommandError("--script needs a FILE, and its arguments after it", 2)
    for name in _OF_A_MODEL.split():
        if getattr(options, name):
            option = {"file": "SOURCE", "module": "-m"}.get(name, f"--{name.replace('_', '-')}")
            raise CommandError(f"{option} and --script do not go together: the script decides", 2)


def device_of(text: str) -> device:
    """The device of ``--device``."""
    try:
        return device(text)
    except RuntimeError as error:
        raise CommandError(f"--device {text!r}: {error}", 2) from None


def dtype_of(text: str | None) -> dtypes.dtype | None:
    """The floating or complex dtype of ``--dtype``."""
    if text is None:
        return None
    for kind in dtypes.all_dtypes:
        if kind.name == text.removeprefix("torch.") and kind.category >= 2:
            return kind
    names = ", ".join(d.name for d in dtypes.all_dtypes if d.is_floating_point)
    raise CommandError(f"--dtype {text!r} is unknown: expected one of {names}", 2)


def autocast_of(text: str | None) -> dtypes.dtype | None:
    """The dtype of ``--autocast``."""
    if text is None:
        return None
    kinds = {"bf16": dtypes.bfloat16, "bfloat16": dtypes.bfloat16}
    kinds |= {"fp16": dtypes.float16, "float16": dtypes.float16, "half": dtypes.float16}
    if text not in kinds:
        raise CommandError(f"--autocast {text!r} is unknown: expected bf16 or fp16", 2)
    return kinds[text]


def bytes_of(option: str, text: str) -> int:
    """The bytes of an option like ``--fit 80GiB``."""
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise CommandError(f"{option}: {error}", 2) from None


def pairs_of(option: str, text: str) -> dict[str, object]:
    """The values of ``K=V,K=V``, each V a Python literal or a word."""
    if not text:
        return {}
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        assert isinstance(call, ast.Call)
        assert not call.args
        return {str(k.arg): _literal(k.value) for k in call.keywords}
    except (SyntaxError, AssertionError, ValueError):
        raise CommandError(f"{option} takes NAME=VALUE,NAME=VALUE, not {text!r}", 2) from None


def _literal(node: ast.expr) -> object:
    return node.id if isinstance(node, ast.Name) else ast.literal_eval(node)


def symbols_of(options: argparse.Namespace) -> dict[str, int]:
    """The names and values of ``--symbolic``."""
    named = pairs_of("--symbolic", options.symbolic or "")
    for name, value in named.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise CommandError(f"--symbolic {name}={value}: a size is a number from 1 on", 2)
    return {name: int(str(value)) for name, value in named.items()}
