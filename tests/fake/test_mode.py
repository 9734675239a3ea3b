"""FakeTensorMode: entering, mixing, converting (F23-F43, F49-F68)."""

from __future__ import annotations

import threading

import pytest

import maquette as mq
from maquette.dispatch.modes import TorchDispatchMode
from maquette.fake import unset_fake_temporarily


@pytest.fixture
def m() -> mq.FakeTensorMode:
    return mq.FakeTensorMode()


class Log(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def test_F23_options_are_keyword_only() -> None:
    with pytest.raises(TypeError):
        mq.FakeTensorMode(True)


def test_F24_modes_nest_and_are_restored() -> None:
    m1, m2 = mq.FakeTensorMode(), mq.FakeTensorMode()
    with m1, m1:
        with m2, m1:
            assert mq.empty(1).fake_mode is m1
        assert mq.empty(1).fake_mode is m1
    assert type(mq.empty(1)) is mq.Tensor


def test_F24_a_mode_is_left_on_error(m: mq.FakeTensorMode) -> None:
    with pytest.raises(ZeroDivisionError), m:
        _ = 1 / 0
    assert type(mq.empty(1)) is mq.Tensor


def test_F25_D137_modes_are_per_thread(m: mq.FakeTensorMode) -> None:
    made: list[mq.Tensor] = []
    with m:
        thread = threading.Thread(target=lambda: made.append(mq.empty(1)))
        thread.start()
        thread.join()
    assert type(made[0]) is mq.Tensor


@pytest.mark.parametrize("outside", [True, False])
def test_F26_a_user_mode_sees_the_program_before_fake(m: mq.FakeTensorMode, outside: bool) -> None:
    log = Log()
    first, second = (log, m) if outside else (m, log)
    with first, second:
        mq.empty(2) + 1
    assert log.seen == ["aten.empty.memory_format", "aten.add.Tensor"]


def test_F28_operators_on_fakes_run_outside_the_mode(m: mq.FakeTensorMode) -> None:
    a = m.from_tensor(mq.ones(2))
    assert (a + a).fake_mode is m


def test_F29_a_real_tensor_is_refused(m: mq.FakeTensorMode) -> None:
    real = mq.ones(3)
    with pytest.raises(AssertionError, match="allow_non_fake_inputs"):
        m.from_tensor(real) + mq.ones(3)
    with m, pytest.raises(AssertionError, match="convert"):
        real + real


def test_F30_real_tensors_may_be_allowed() -> None:
    mode = mq.FakeTensorMode(allow_non_fake_inputs=True)
    a = mode.from_tensor(mq.ones(2))
    assert (a + mq.ones(2)).fake_mode is mode


def test_F30_a_thread_may_overrule_the_modes(m: mq.FakeTensorMode) -> None:
    allowing = mq.FakeTensorMode(allow_non_fake_inputs=True)
    tls = mq.fake.fake_tensor_tls
    a, real = allowing.from_tensor(mq.ones(2)), mq.ones(2)
    try:
        tls.allow_non_fake_inputs_override = False
        with pytest.raises(AssertionError, match="convert all Tensors"):
            a + real
        tls.allow_non_fake_inputs_override = True
        assert (m.from_tensor(real) + mq.ones(2)).fake_mode is m
    finally:
        tls.allow_non_fake_inputs_override = None


def test_F31_metadata_of_a_real_tensor_is_never_changed(m: mq.FakeTensorMode) -> None:
    real = mq.ones(2, 3)
    for mode in (m, mq.FakeTensorMode(allow_non_fake_inputs=True)):
        with mode, pytest.raises(AssertionError, match=r"aten\.t_\.default.*float32\[2, 3\]"):
            real.t_()
    assert real.shape == (2, 3)


def test_F31_nor_that_of_another_modes_fake(m: mq.FakeTensorMode) -> None:
    other = mq.FakeTensorMode(allow_non_fake_inputs=True)
    with other, pytest.raises(AssertionError, match=r"aten\.t_\.default"):
        m.from_tensor(mq.ones(2, 3)).t_()


def test_F32_two_modes_do_not_mix() -> None:
    m1, m2 = mq.FakeTensorMode(), mq.FakeTensorMode()
    with pytest.raises(AssertionError, match="Mixing fake modes"):
        m1.from_tensor(mq.ones(2)) + m2.from_tensor(mq.ones(2))


@pytest.mark.parametrize(
    ("program", "value"),
    [
        (lambda r: r + 1, 4.0),
        (lambda r: r - 1, 2.0),
        (lambda r: r * r, 9.0),
        (lambda r: mq.floor_divide(r, 2), 1.0),
        (lambda r: r.to(mq.float64), 3.0),
        (lambda r: mq.ops.aten.add.Tensor(1, 2), 3),
    ],
)
def test_F33_arithmetic_on_real_scalars_is_known(m: mq.FakeTensorMode, program, value) -> None:
    r = mq.tensor(3.0)
    with m:
        known = program(r)
    assert known.fake_mode is m
    assert known.constant is not r
    assert known.item() == value


def test_F33_a_constant_is_a_clone(m: mq.FakeTensorMode) -> None:
    r = mq.tensor(3.0 + 1j)
    with m:
        known = r.conj()
    r.add_(1)
    assert known.item() == 3.0 - 1j


def test_F33_writing_to_a_real_scalar_gives_it_back(m: mq.FakeTensorMode) -> None:
    r = mq.tensor(3.0)
    with m:
        assert r.add_(1) is r
    assert r.item() == 4.0


@pytest.mark.parametrize(
    "program",
    [
        lambda r, large: -r,
        lambda r, large: large + 1,
        lambda r, large: large.add_(1),
        lambda r, large: r.to("cuda"),
        lambda r, large: mq.empty((), device="meta") + r,
    ],
)
def test_F33_other_operators_and_larger_results_are_refused(m: mq.FakeTensorMode, program) -> None:
    r, large = mq.tensor(3.0), mq.ones(3)
    with m, pytest.raises(AssertionError, match="convert all Tensors"):
        program(r, large)
    assert large.sum().item() == 3


class Declining(mq.Tensor):
    """Answers no operator."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


class Scaled(mq.nn.Parameter):
    """A parameter of another name, with PyTorch's own handlers."""


def test_F34_who_was_asked_in_vain_is_named(m: mq.FakeTensorMode) -> None:
    sub = mq.ones(2).as_subclass(Declining)
    with pytest.raises(TypeError, match=r"Declining.*FakeTensor"):
        sub + m.from_tensor(mq.ones(2))


def test_F34_modes_asked_in_vain_are_named(m: mq.FakeTensorMode) -> None:
    class Refusing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    sub, fake = mq.ones(2).as_subclass(Declining), m.from_tensor(mq.ones(2))
    with Refusing(), pytest.raises(TypeError, match=r"Refusing.*Declining.*FakeTensor"):
        sub + fake


def test_F34_a_subclass_decides_before_fakes_do(m: mq.FakeTensorMode) -> None:
    class First(mq.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return args[1]

    fake = m.from_tensor(mq.ones(2))
    assert mq.ones(3).as_subclass(First) + fake is fake


def test_F34_a_subclass_of_parameter_without_a_handler_is_plain(m: mq.FakeTensorMode) -> None:
    fake = m.from_tensor(Scaled(mq.ones(2)))
    assert isinstance(fake, mq.nn.Parameter)
    assert type(fake + 1) is mq.FakeTensor


def test_F35_static_shapes_and_a_symbolic_context_contradict(m: mq.FakeTensorMode) -> None:
    for given in ({"static_shapes": True}, {}):
        with pytest.raises(AssertionError, match="symbolic context"):
            m.from_tensor(mq.ones(2), symbolic_context=object(), **given)
    assert m.from_tensor(mq.ones(2), static_shapes=True, source="x", trace=False).shape == (2,)


def test_F35_only_tensors_convert_and_never_to_constants(m: mq.FakeTensorMode) -> None:
    with pytest.raises(TypeError, match="int"):
        m.from_tensor(3)
    assert m.from_tensor(mq.tensor(3)).constant is None


def test_F38_unset_temporarily(m: mq.FakeTensorMode) -> None:
    with m:
        with unset_fake_temporarily() as removed:
            assert type(mq.empty(1)) is mq.Tensor
        assert removed is m
        assert type(mq.empty(1)) is mq.FakeTensor


def test_F42_conversion_is_remembered(m: mq.FakeTensorMode) -> None:
    x = mq.ones(2)
    assert m.from_tensor(x) is m.from_tensor(x)


def test_F43_shared_storage_stays_shared(m: mq.FakeTensorMode) -> None:
    y = mq.ones(4)
    v = y[1:3]
    assert m.from_tensor(v)._base is m.from_tensor(y)
    assert m.from_tensor(v).storage_offset() == 1


def test_F44_leafness_is_carried(m: mq.FakeTensorMode) -> None:
    q = mq.ones(2, requires_grad=True)
    fake = m.from_tensor(q * 2)
    assert fake.requires_grad
    assert not fake.is_leaf


def test_F49_a_scalar_on_cpu_decides_no_device(m: mq.FakeTensorMode) -> None:
    with m:
        c, s = mq.empty(2, device="cuda"), mq.empty(())
        assert [str((a + b).device) for a, b in ((c, s), (s, c))] == ["cuda:0", "cuda:0"]


def test_F50_the_error_holds_the_operator_and_both_devices(m: mq.FakeTensorMode) -> None:
    with m:
        first, second = mq.empty(2, device="cuda:0"), mq.empty(2, device="cuda:1")
    with pytest.raises(mq.fake.FakeTensorDeviceMismatchError, match=r"cuda:0.*cuda:1") as caught:
        first + second
    error = caught.value
    assert error.func is mq.ops.aten.add.Tensor
    assert (str(error.common_device), str(error.device)) == ("cuda:0", "cuda:1")


@pytest.mark.parametrize(
    "program",
    [
        lambda c, h: mq.cat([c, h]),
        lambda c, h: c @ h.t(),
        lambda c, h: mq.gather(c, 0, h.long()),
        lambda c, h: mq.index_select(c, 0, h[0].long()),
        lambda c, h: c.scatter(0, h.long(), c),
        lambda c, h: mq.select_scatter(c, h[0], 0, 0),
        lambda c, h: c.masked_fill(h > 0, 0),
        lambda c, h: c.set_(h),
        lambda c, h: mq.add(c, c, out=h),
        lambda c, h: mq.nn.functional.conv2d(c.view(1, 1, 4, 5), h.view(1, 1, 4, 5)),
    ],
)
def test_F50_so_do_other_operators(m: mq.FakeTensorMode, program) -> None:
    with m:
        c, h = mq.empty(4, 5, device="cuda"), mq.empty(4, 5)
        with pytest.raises(mq.fake.FakeTensorDeviceMismatchError):
            program(c, h)


def test_F50_devices_that_differ_are_refused(m: mq.FakeTensorMode) -> None:
    with m:
        a, b = mq.empty(2, device="cuda:0"), mq.empty(2, device="cuda:1")
        with pytest.raises(mq.fake.FakeTensorDeviceMismatchError, match=r"cuda:0.*cuda:1"):
            a + b


def test_F54_factories_of_a_likeness_keep_its_device(m: mq.FakeTensorMode) -> None:
    with m:
        c = mq.empty(2, device="cuda")
        found = [mq.zeros_like(c), c.new_empty(2), mq.zeros_like(c, device="cpu")]
    assert [str(t.device) for t in found] == ["cuda:0", "cuda:0", "cpu"]


def test_F55_moving_needs_no_hardware_and_to_its_own_place_is_self(m: mq.FakeTensorMode) -> None:
    with m:
        c = mq.empty(2).cuda()
        assert str(c.device) == "cuda:0"
        assert c.to("cuda:0") is c


def test_F64_small_literals_are_constants(m: mq.FakeTensorMode) -> None:
    with m:
        known = [mq.tensor(3), mq.tensor([5]), mq.tensor([])]
        unknown = [mq.tensor([1, 2]), mq.ones(1)]
    assert all(t.constant is not None for t in known)
    assert all(t.constant is None for t in unknown)


def test_F65_views_and_writes_of_constants_are_known(m: mq.FakeTensorMode) -> None:
    with m:
        b = mq.tensor(1.0)
        v = b.view(1)
        b.add_(2)
        assert v.item() == 3


def test_F65_a_conjugated_constant_is_known(m: mq.FakeTensorMode) -> None:
    with m:
        z = mq.tensor(3.0 + 1j)
        w = z.conj()
        found = [t.item() for t in (w, w.view(1), w.conj(), w + 1)]
    assert found == [3 - 1j, 3 - 1j, 3 + 1j, 4 - 1j]


def test_F66_an_output_too_large_forgets_its_constants(m: mq.FakeTensorMode) -> None:
    with m:
        c = mq.tensor(1.0)
        v = c.view(1)
        c.expand(3)
    assert (c.constant, v.constant) == (None, None)


def test_F67_an_unknown_write_forgets_the_constant_and_its_aliases(m: mq.FakeTensorMode) -> None:
    with m:
        b = mq.tensor(1.0)
        v = b.view(1)
        b.add_(mq.empty(()))
    assert (b.constant, v.constant) == (None, None)


def test_F69_shapes_that_depend_on_data_are_refused(m: mq.FakeTensorMode) -> None:
    x = m.from_tensor(mq.ones(3))
    for program in (lambda: x.nonzero(), lambda: x[x > 0], lambda: x.masked_select(x > 0)):
        with pytest.raises(mq.fake.DynamicOutputShapeException):
            program()


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x[0].item(),
        lambda x: mq.equal(x, x),
        lambda x: mq.allclose(x, x),
        lambda x: x.is_nonzero(),
    ],
)
def test_F70_numbers_that_only_data_has_are_refused(m: mq.FakeTensorMode, program) -> None:
    x = m.from_tensor(mq.ones(1))
    with pytest.raises(mq.fake.DataDependentOutputException) as error:
        program(x)
    assert str(error.value) == str(error.value.func)


@pytest.mark.parametrize(
    ("tag", "error"),
    [
        (mq.Tag.data_dependent_output, mq.fake.DataDependentOutputException),
        (mq.Tag.dynamic_output_shape, mq.fake.DynamicOutputShapeException),
    ],
)
def test_F70_users_operators_are_refused_by_their_tags(m: mq.FakeTensorMode, tag, error) -> None:
    with mq.library._scoped_library("f70", "DEF") as lib:
        lib.define("reads(Tensor x) -> Tensor", tags=(tag,))
        with pytest.raises(error, match=r"f70\.reads\.default"):
            mq.ops.f70.reads(m.from_tensor(mq.ones(2)))


def test_F90_grad_mode_does_not_stick_in_the_cache(m: mq.FakeTensorMode) -> None:
    y, z = m.from_tensor(mq.ones(2)), m.from_tensor(mq.ones(2, requires_grad=True))
    assert (z + y).requires_grad
    with mq.no_grad():
        assert not (z + y).requires_grad
    assert (z + y).requires_grad


def test_FX1_equal_metas_are_one_object(m: mq.FakeTensorMode) -> None:
    assert m.from_tensor(mq.ones(2)).meta is m.from_tensor(mq.zeros(2)).meta


def test_FX3_shape_rules_are_pure_functions_of_metas() -> None:
    a = mq.TensorMeta.of(mq.float32, (2, 3))
    b = mq.TensorMeta.of(mq.float32, (3, 4))
    assert str(mq.ops.aten.mm.default.shape_rule(a, b)) == "float32[2, 4]"


def test_FX6_FX7_allocations_are_seen_alike_with_the_cache_cold_or_warm(
    m: mq.FakeTensorMode,
) -> None:
    def events() -> list[tuple[str, int]]:
        seen: list[tuple[str, int]] = []

        class Observer:
            def allocated(self, storage, nbytes):
                seen.append(("alloc", nbytes))

            def resized(self, storage_id, old, new):
                seen.append(("resize", new - old))

            def released(self, storage_id):
                seen.append(("free", 0))

        from maquette.tensor.storage import observe_allocations

        with m, observe_allocations(Observer()):
            x = mq.ones(7, 3)
            y = x + 1
            z = y.view(-1)
            del y
            del z
        return seen[:]

    cold = events()
    assert cold == events() == [("alloc", 84), ("alloc", 84), ("free", 0)]
