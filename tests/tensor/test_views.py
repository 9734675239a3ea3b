"""Views: which operators give them, which strides they get, what versions count."""

from collections.abc import Callable

import pytest

import maquette as mq
from maquette import Tensor

VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "view": lambda x: x.view(-1),
    "view_as": lambda x: x.view_as(mq.zeros(3, 2)),
    "reshape": lambda x: x.reshape(3, 2),
    "flatten": lambda x: x.flatten(),
    "ravel": lambda x: x.ravel(),
    "expand": lambda x: x.expand(4, 2, 3),
    "broadcast_to": lambda x: x.broadcast_to(4, 2, 3),
    "permute": lambda x: x.permute(1, 0),
    "transpose": lambda x: x.transpose(0, 1),
    "t": lambda x: x.t(),
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "movedim": lambda x: x.movedim(0, 1),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "squeeze": lambda x: x.squeeze(),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "select": lambda x: x.select(0, 1),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "slice": lambda x: x[:, 1:],
    "split": lambda x: x.split(1)[0],
    "chunk": lambda x: x.chunk(2)[1],
    "unbind": lambda x: x.unbind(0)[1],
    "unfold": lambda x: x.unfold(1, 2, 1),
    "unflatten": lambda x: x.unflatten(1, (1, 3)),
    "diagonal": lambda x: x.diagonal(),
    "as_strided": lambda x: x.as_strided((2,), (1,)),
    "alias": lambda x: mq.ops.aten.alias(x),
    "ellipsis": lambda x: x[...],
}
COPIES: dict[str, Callable[[Tensor], Tensor]] = {
    "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(1, 0),
    "rot90": lambda x: x.rot90(),
    "repeat": lambda x: x.repeat(2, 1),
    "tril": lambda x: x.tril(),
    "index": lambda x: x[[0, 1]],
}
ALIASES: dict[str, Callable[[Tensor], Tensor]] = {
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "view(dtype)": lambda x: x.view(mq.int32),
}


@pytest.mark.parametrize("make", VIEWS.values(), ids=VIEWS)
def test_T18_views_share_storage_and_version(make: Callable[[Tensor], Tensor]) -> None:
    x = mq.zeros(2, 3)
    v = make(x)
    assert v is not x
    assert v._is_view()
    assert v._base is x
    assert v.untyped_storage() is x.untyped_storage()
    v.zero_()
    assert x._version == v._version == 1


@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
def test_T18_copies_share_nothing(make: Callable[[Tensor], Tensor]) -> None:
    x = mq.zeros(2, 3)
    made = make(x)
    assert not made._is_view()
    assert made.untyped_storage() is not x.untyped_storage()


@pytest.mark.parametrize("make", ALIASES.values(), ids=ALIASES)
def test_T18_aliases_are_not_views(make: Callable[[Tensor], Tensor]) -> None:
    x = mq.zeros(2, 3)
    made = make(x)
    assert not made._is_view()
    assert made.untyped_storage() is x.untyped_storage()


def test_T18_the_base_is_the_root() -> None:
    x = mq.zeros(2, 3)
    assert x.t()[1]._base is x


def test_T18_complex_parts_are_views() -> None:
    z = mq.zeros(2, dtype=mq.complex64)
    views = (z.real, z.imag, z.conj(), mq.view_as_real(z), mq.view_as_complex(mq.zeros(2, 2)))
    assert all(v._is_view() for v in views)


def test_T18_view_of_another_dtype_shares_the_version() -> None:
    x = mq.zeros(2)
    y = x.view(mq.int32)
    x.add_(1)
    assert y._version == 1


def test_T19_self_is_returned() -> None:
    v = mq.zeros(3)
    assert v.flatten() is v
    assert v.contiguous() is v.to(mq.float32) is v
    assert v.real is v
    assert v.conj() is v.positive() is v.resolve_conj() is v.resolve_neg() is v
    assert mq.atleast_1d(v) is v


def test_T19_self_is_never_returned() -> None:
    x = mq.zeros(2, 3)
    made = (x[...], x[:], x.ravel(), x.reshape(2, 3), x.expand(2, 3), x.squeeze())
    assert all(m is not x for m in made)


def test_T20_view_splits_runs_of_dimensions() -> None:
    assert mq.zeros(4, 6).t().view(2, 3, 4).stride() == (3, 1, 6)
    assert mq.zeros(1, 3).expand(4, 3).view(2, 2, 3).stride() == (0, 0, 1)


def test_T20_view_refuses_what_reshape_copies() -> None:
    x = mq.zeros(4, 6).t()
    with pytest.raises(RuntimeError, match="size and stride"):
        x.view(24)
    assert x.reshape(24).untyped_storage() is not x.untyped_storage()


@pytest.mark.parametrize(
    "x, sizes, words",
    [
        (mq.zeros(4), (-1, -1), "one"),
        (mq.zeros(0), (-1, 0), "-1"),
        (mq.zeros(4), (3,), r"\[3\].*4"),
        (mq.zeros(4), (-2, 2), "-2.*0"),
    ],
)
def test_T20_view_errors(x: Tensor, sizes: tuple[int, ...], words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        x.view(sizes)


def test_T20_no_elements() -> None:
    x = mq.empty_strided((0, 2), (7, 5))
    assert x.view(0, 2).stride() == (7, 5)
    assert x.view(2, 0).stride() == (1, 1)


def test_T21_strides_of_views() -> None:
    assert mq.zeros(3, 4, 5).unsqueeze(0).stride() == (60, 20, 5, 1)
    assert mq.zeros(3).unsqueeze(1).stride() == (1, 1)
    assert mq.zeros(3).expand(1, 3).stride() == (3, 1)
    assert mq.zeros(3).expand(2, 3).stride() == (0, 1)


def test_T21_unfold_and_diagonal() -> None:
    u = mq.arange(8).unfold(0, 3, 2)
    assert (u.shape, u.stride()) == ((3, 3), (2, 1))
    assert mq.zeros(3, 4).diagonal().stride() == (5,)
    assert mq.zeros(3, 4).diagonal(9).shape == (0,)


def test_T22_view_as_a_wider_dtype() -> None:
    assert mq.zeros(2, 4).view(mq.float64).shape == (2, 2)
    assert mq.zeros(2, 4).view(mq.float16).shape == (2, 8)


@pytest.mark.parametrize(
    "x, to, words",
    [
        (mq.zeros(2, 3), mq.float64, r"size\(-1\).*2.*3|size\(-1\).*3.*2"),
        (mq.zeros(4, 2).t(), mq.float64, r"stride\(-1\)|stride\[-1\]"),
        (mq.zeros(()), mq.float64, "0-dim|self.dim"),
        (mq.zeros(5)[1:], mq.float64, "storage_offset"),
        (mq.zeros(4, 2).t(), mq.int8, r"stride\(-1\)|stride\[-1\]"),
    ],
)
def test_T22_view_dtype_errors_name_the_quantity(x: Tensor, to: mq.dtype, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        x.view(to)


def test_T22_a_view_of_another_dtype_requires_no_grad() -> None:
    assert not mq.zeros(2, requires_grad=True).view(mq.int32).requires_grad


def test_T23_writes_through_any_alias_count() -> None:
    x = mq.zeros(4)
    v = x[:2]
    x.add_(1)
    assert x._version == v._version == 1
    with mq.no_grad():
        v.mul_(2)
    assert x._version == 2


def test_T23_inference_tensors_have_no_version() -> None:
    with mq.inference_mode():
        x = mq.zeros(2)
    with pytest.raises(RuntimeError, match="version"):
        _ = x._version
