"""Layouts, memory formats and `Size`."""

import copy
import pickle

import pytest

from maquette.core import layout
from maquette.core.size import Size

ALL = (*layout.all_layouts, *layout.all_memory_formats)


@pytest.mark.parametrize("each", ALL, ids=repr)
def test_a_constant_is_one_object(each: layout.layout) -> None:
    assert pickle.loads(pickle.dumps(each)) is copy.deepcopy(each) is copy.copy(each) is each


def test_constants_print_as_users_write_them() -> None:
    assert repr(layout.strided) == "torch.strided"
    assert repr(layout.mkldnn) == "torch._mkldnn"
    assert repr(layout.channels_last) == "torch.channels_last"


def test_codes_are_pytorchs() -> None:
    assert [each.code for each in layout.all_layouts] == list(range(8))
    assert [each.code for each in layout.all_memory_formats] == list(range(4))


def test_a_constant_is_immutable() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        layout.strided.code = 1


def test_T9_a_size_stays_one() -> None:
    size = Size([2, 3, 4])
    for part in (size[1:], size + (5,), (5,) + size, size * 2, 2 * size, copy.deepcopy(size)):
        assert type(part) is Size
    assert size[0] == 2
    assert size == (2, 3, 4)
    assert pickle.loads(pickle.dumps(size)) == size


def test_size_counts_elements_and_prints() -> None:
    assert Size((2, 3)).numel() == 6
    assert Size(()).numel() == 1
    assert repr(Size((2, 3))) == "torch.Size([2, 3])"


def test_size_takes_ints_only() -> None:
    with pytest.raises(TypeError, match=r"item 1 is 'float'"):
        Size((1, 1.5))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Size((1,)) + [2]  # type: ignore[operator]
