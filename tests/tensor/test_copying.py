"""Copies and pickles of tensors."""

import copy
import pickle

import pytest

import maquette as mq
from maquette.tensor import Buffer, Parameter
from maquette.tensor.keys import CONJUGATE
from maquette.tensor.tensor import Tensor


def tail(t: Tensor) -> Tensor:
    """All but the first element, a view."""
    return mq.ops.aten.slice.Tensor(t, 0, 1)


def conjugated(t: Tensor) -> Tensor:
    """``t`` with its conjugate bit set."""
    t._keys |= CONJUGATE
    return t


def test_T55_deepcopy_copies_a_storage_once() -> None:
    a = mq.tensor([0.0, 1.0, 2.0, 3.0])
    x, y = copy.deepcopy([a, tail(a)])
    assert x.untyped_storage() is y.untyped_storage()
    assert x.untyped_storage() is not a.untyped_storage()
    assert y.untyped_storage().nbytes() == 16


def test_T55_deepcopied_views_are_no_views_and_keep_strides() -> None:
    view = mq.ones(2, 3).t()
    made = copy.deepcopy(view)
    assert made.stride() == (1, 3)
    assert view._is_view()
    assert not made._is_view()


def test_T55_deepcopy_of_a_result_is_refused() -> None:
    with pytest.raises(RuntimeError, match="leaves"):
        copy.deepcopy(mq.ones(2, requires_grad=True) * 2)


def test_T55_deepcopy_carries_requires_grad_grad_and_attributes() -> None:
    w = mq.ones(2, requires_grad=True)
    w.grad = mq.ones(2)
    w.note = ["kept"]
    made = copy.deepcopy(w)
    assert made.requires_grad
    assert made.grad.tolist() == [1.0, 1.0]
    assert made.note == ["kept"]
    assert made.note is not w.note


def test_T55_a_deepcopied_parameter_drops_its_grad() -> None:
    p = Parameter(mq.ones(2))
    p.grad = mq.ones(2)
    made = copy.deepcopy(p)
    assert type(made) is Parameter
    assert made.grad is None


def test_T55_deepcopy_writes_nothing_to_the_original() -> None:
    a = mq.ones(2)
    copy.deepcopy(a).add_(1)
    assert a.tolist() == [1.0, 1.0]


def test_T55_deepcopy_materialises_conjugates() -> None:
    made = copy.deepcopy(conjugated(mq.tensor([1 + 2j])))
    assert not made.is_conj()
    assert made.numpy().tolist() == [1 - 2j]


def test_T55_an_attribute_may_be_the_tensor_itself() -> None:
    a = mq.ones(2)
    a.me = a
    made = copy.deepcopy(a)
    assert made.me is made


def test_T55_copy_is_an_alias_of_the_same_class() -> None:
    p = Parameter(mq.ones(2))
    made = copy.copy(p)
    assert type(made) is Parameter
    assert made is not p
    assert made.data_ptr() == p.data_ptr()
    assert made.requires_grad


def test_T55_a_copied_buffer_is_a_buffer() -> None:
    made = copy.deepcopy(Buffer(mq.ones(2), persistent=False))
    assert isinstance(made, Buffer)
    assert made.persistent is False


def test_F11_deepcopied_fakes_keep_their_mode_and_aliases() -> None:
    mode = mq.FakeTensorMode()
    x = mode.from_tensor(mq.ones(2, 2))
    a, b = copy.deepcopy([x, x.view(-1)])
    assert type(a) is mq.FakeTensor
    assert a.fake_mode is mode
    assert a.untyped_storage() is b.untyped_storage()
    assert a.untyped_storage() is not x.untyped_storage()


def test_F11_a_deepcopied_fake_parameter_is_one() -> None:
    fake = mq.FakeTensorMode().from_tensor(Parameter(mq.ones(2)))
    assert isinstance(copy.deepcopy(fake), Parameter)


def test_F11_a_known_value_is_copied_and_then_its_own() -> None:
    with mq.FakeTensorMode():
        step = mq.tensor(3.0)
        made = copy.deepcopy(step)
        made.add_(1)
        assert (made.item(), step.item()) == (4.0, 3.0)


def test_T56_pickled_aliases_share_again() -> None:
    a = mq.tensor([0.0, 1.0, 2.0, 3.0])
    x, y = pickle.loads(pickle.dumps([a, tail(a)]))
    assert x.untyped_storage() is y.untyped_storage()
    assert y.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_T56_pickles_keep_geometry_class_and_requires_grad(protocol: int) -> None:
    p = Parameter(mq.ones(2, 3).t())
    made = pickle.loads(pickle.dumps(p, protocol))
    assert type(made) is Parameter
    assert made.stride() == (1, 3)
    assert made.requires_grad


def test_T56_a_pickled_result_comes_back_a_leaf() -> None:
    made = pickle.loads(pickle.dumps(mq.ones(2, requires_grad=True) * 2))
    assert made.is_leaf
    assert made.requires_grad


def test_T56_pickles_keep_the_conjugate_bit() -> None:
    made = pickle.loads(pickle.dumps(conjugated(mq.tensor([1 + 2j]))))
    assert made.is_conj()


def test_T56_meta_tensors_and_bfloat16_are_pickled() -> None:
    there = pickle.loads(pickle.dumps(mq.empty(3, device="meta")))
    assert there.is_meta
    narrow = pickle.loads(pickle.dumps(mq.ones(2, dtype=mq.bfloat16)))
    assert narrow.dtype is mq.bfloat16


def test_T56_attributes_are_pickled() -> None:
    a = mq.ones(2)
    a.note = "kept"
    assert pickle.loads(pickle.dumps(a)).note == "kept"


def test_F12_a_fake_is_not_pickled() -> None:
    fake = mq.FakeTensorMode().from_tensor(mq.ones(2))
    with pytest.raises(TypeError, match="it has no data"):
        pickle.dumps(fake)


def test_F12_placeholders_load_as_real_tensors_of_the_same_meta() -> None:
    fake = mq.FakeTensorMode().from_tensor(Parameter(mq.ones(2, 3)))
    with mq.skip_data(materialize_fake_tensors=True):
        data = pickle.dumps(fake)
    made = pickle.loads(data)
    assert type(made) is Parameter
    assert made.meta is fake.meta
    assert made.detach().tolist() == [[0.0] * 3] * 2


def test_F12_loading_under_a_mode_gives_fakes() -> None:
    data = pickle.dumps([mq.ones(2, 3), mq.ones(1)])
    mode = mq.FakeTensorMode()
    with mode:
        made, _ = pickle.loads(data)
    assert made.fake_mode is mode
    assert made.shape == (2, 3)


def test_sparse_leaves_are_copied_deeply() -> None:
    t = mq.eye(2).to_sparse().requires_grad_()
    made = copy.deepcopy(t)
    made._values().mul_(2)
    assert made.requires_grad
    assert t.to_dense().tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("layout", [mq.sparse_coo, mq.sparse_csr])
def test_sparse_tensors_are_pickled(layout: mq.layout) -> None:
    t = mq.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse(layout=layout).requires_grad_()
    made = pickle.loads(pickle.dumps(t))
    assert (made.layout, made.requires_grad, made.is_leaf) == (layout, True, True)
    assert made.to_dense().tolist() == [[0, 2], [3, 0]]


class WithEmpty(mq.Tensor):
    def new_empty(self, size):
        return mq.empty(size).as_subclass(type(self))


def test_T55_deepcopy_of_a_programs_class_is_made_by_the_class() -> None:
    t = mq.tensor([[1.0, 2.0], [3.0, 4.0]]).t().as_subclass(WithEmpty)
    t.note = [1]
    one, view = copy.deepcopy([t, t[0]])
    assert type(one) is type(view) is WithEmpty
    assert one.tolist() == t.tolist()
    assert (one.stride(), one.note) == ((1, 2), [1])
    assert one.note is not t.note
    assert one.untyped_storage() is view.untyped_storage()


def test_T55_deepcopy_of_a_class_whose_new_empty_gives_another_is_refused() -> None:
    class Plain(mq.Tensor):
        pass

    with pytest.raises(RuntimeError, match=r"new_empty\(\).* that of Plain gives a Tensor"):
        copy.deepcopy(mq.ones(2).as_subclass(Plain))


def test_T55_a_wrapper_is_copied_by_its_clone_and_no_handler_is_asked_for_a_copy() -> None:
    asked = []

    class Wrapping(mq.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            asked.append(func)
            return wrapped() if wrong is None else wrong

    def wrapped():
        return mq.Tensor._make_wrapper_subclass(Wrapping, (2,))

    wrong = None
    assert type(copy.deepcopy(wrapped())) is Wrapping
    assert type(copy.copy(wrapped())) is Wrapping
    assert asked == [mq.ops.aten.clone.default]
    wrong = mq.ones(2)
    with pytest.raises(RuntimeError, match="cloning returns another instance of the same subclass"):
        copy.deepcopy(wrapped())
