"""What `inspect.signature` says of functions and methods that operators give."""

import copy
import inspect
import pickle
from types import FunctionType

import pytest

import maquette as mq
import maquette.torch as torch
from maquette.api.inspection import LateSignature


def parameters(function: object) -> str:
    return str(inspect.signature(function)).replace("Ellipsis", "...")


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (mq.add, "(input, other, alpha=1, *, out=None)"),
        (mq.argmax, "(input, dim=None, keepdim=False, *, out=None, axis=None, keepdims=False)"),
        (mq.where, "(condition, input=..., other=..., *, out=None)"),
        (
            torch.linalg.matrix_rank,
            "(input, tol=..., hermitian=False, *, atol=None, rtol=None, out=None)",
        ),
        (mq.Tensor.view, "(self, *size, dtype=...)"),
        (mq.Tensor.random_, "(self, from_=..., to=..., *, generator=None)"),
    ],
)
def test_the_parameters_of_all_overloads_are_told(function: object, said: str) -> None:
    assert parameters(function) == said


def test_a_parameter_of_one_overload_alone_is_told_by_keyword() -> None:
    other = inspect.signature(mq.max).parameters["other"]
    assert (other.kind, other.default) == (other.KEYWORD_ONLY, ...)


def test_factories_tell_requires_grad_and_sizes_one_by_one() -> None:
    found = inspect.signature(mq.ones).parameters
    assert found["size"].kind is inspect.Parameter.VAR_POSITIONAL
    assert found["requires_grad"].default is False


def test_a_bound_method_does_not_tell_self() -> None:
    assert parameters(mq.ones(2).mul) == "(other)"


def test_every_function_and_method_has_a_signature_that_python_takes() -> None:
    for where in (mq, mq.Tensor, torch.linalg, torch.fft, torch.special):
        for name in dir(where):
            function = getattr(where, name, None)
            if inspect.isfunction(function):
                assert str(inspect.signature(function))


def test_a_signature_is_copied_and_pickled_as_a_plain_one() -> None:
    found = inspect.signature(mq.add)
    assert copy.deepcopy(found) == found == pickle.loads(pickle.dumps(found))


def test_parameters_are_made_when_they_are_first_read() -> None:
    made: list[inspect.Parameter] = []

    def make() -> list[inspect.Parameter]:
        made.append(inspect.Parameter("x", inspect.Parameter.POSITIONAL_ONLY))
        return made

    late = LateSignature.of(make)
    assert not made
    assert str(late) == "(x, /)" == str(late)


def test_it_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        LateSignature.of(list).nothing  # noqa: B018  # raises


def test_methods_pickle_by_their_names() -> None:
    """As `functools.partial` of one does, or a layer that holds one."""
    methods = [getattr(mq.Tensor, name) for name in dir(mq.Tensor)]
    methods = [method for method in methods if isinstance(method, FunctionType)]
    assert len(methods) > 400
    assert all(pickle.loads(pickle.dumps(method)) is method for method in methods)
