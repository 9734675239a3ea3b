"""Refusals of transforms name the function, the argument, the line; the loop can be off."""

from collections.abc import Callable

import pytest

import maquette as mq
from maquette.torch._C import _functorch as levels
from maquette.torch._functorch.vmap import restore_vmap
from maquette.torch.families import linalg
from maquette.transforms import functionalize, grad, jacrev, jvp, vjp, vmap
from maquette.transforms.interpreter import stack
from maquette.transforms.loop import fallback


def takes_item(x):
    return x * x.sum().item()


@pytest.mark.parametrize("transform", [vmap, lambda f: vmap(vmap(f))])
def test_T69_a_refusal_names_the_function_and_the_line(transform):
    with pytest.raises(RuntimeError, match=r"calling \.item") as caught:
        transform(takes_item)(mq.ones(2, 2, 2))
    (note,) = caught.value.__notes__
    assert "vmap(takes_item)" in note
    assert note.endswith("return x * x.sum().item()")


@pytest.mark.parametrize("outputs", [lambda x: x > 0, lambda x: (x, x.to(mq.int64))])
def test_T71_outputs_of_vjp_have_derivatives(outputs):
    for of in (lambda x: vjp(outputs, x), lambda x: jacrev(outputs)(x)):
        with pytest.raises(RuntimeError, match="must be floating-point or complex Tensors, got"):
            of(mq.ones(2))


def test_T70_the_gradient_of_a_complex_number_is_refused():
    for x in (mq.ones(2), mq.ones(2, dtype=mq.complex64)):
        with pytest.raises(RuntimeError, match="only for real scalar outputs"):
            grad(lambda x: (x * 1j).sum())(x)
        with pytest.raises(RuntimeError, match="only for real scalar outputs"):
            grad(lambda x, y: (x * 1j * y).sum(), (0, 1))(x, x)
    assert grad(lambda x: mq.tensor(1j))(mq.ones(2)).tolist() == [0, 0]


def writes_to_captured(x):
    return mq.ones(()).add_(CAPTURED.add_(x)).sum()


CAPTURED = mq.zeros(())


@pytest.mark.parametrize(
    ("api", "call"),
    [
        ("grad", lambda f, x: grad(f)(x)),
        ("vjp", lambda f, x: vjp(f, x)),
        ("jvp", lambda f, x: jvp(f, (x,), (x,))),
    ],
)
def test_T70_refusals_under_derivatives_name_the_function_and_the_line(api, call):
    with pytest.raises(RuntimeError, match="captured Tensor") as caught:
        call(writes_to_captured, mq.ones(()))
    assert f"{api}(writes_to_captured)" in caught.value.__notes__[0]
    assert "CAPTURED.add_(x)" in caught.value.__notes__[0]


def test_T69_errors_of_the_program_itself_have_no_note():
    def fails(x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        vmap(fails)(mq.ones(2))
    assert not hasattr(caught.value, "__notes__")


def test_T69_batch_sizes_that_differ_are_told_by_argument():
    def add(x, others):
        return x + others["w"]

    with pytest.raises(ValueError, match=r"\[2, 3\].*x has size 2 in dimension 0, others"):
        vmap(add)(mq.ones(2), {"w": mq.ones(3)})


@pytest.fixture
def restored_fallback():
    before = fallback.enabled, fallback.warns
    yield
    fallback.enabled, fallback.warns = before
    fallback.warned.clear()


@pytest.fixture(scope="module", autouse=True)
def without_rule():
    with mq.library._scoped_library("refusals", "FRAGMENT") as library:
        library.define("plain(Tensor x) -> Tensor")
        library.impl("plain", lambda x: x + 1, "CPU")
        yield


def looped(x):
    return mq.ops.refusals.plain(x)


@pytest.mark.usefixtures("restored_fallback")
def test_T69_the_loop_can_be_refused():
    levels._set_vmap_fallback_enabled(False)
    with pytest.raises(RuntimeError, match="Batching rule not implemented for refusals::plain"):
        vmap(looped)(mq.ones(2, 3, 3))


@pytest.mark.usefixtures("restored_fallback")
def test_T69_the_loop_is_silent_where_told():
    levels._set_vmap_fallback_warning_enabled(False)
    assert vmap(looped)(mq.ones(2, 3, 3)).shape == (2, 3, 3)


def test_T69_restore_vmap_gives_outputs_as_they_are():
    x = mq.ones(4, 2)
    (twice, free), dims = restore_vmap(lambda t: (2 * t, mq.ones(3)), 1, 2, "error")(x)
    assert dims == (1, None) or dims == (0, None)
    assert sorted(twice.shape) == [2, 4]
    assert free.shape == (3,)


def test_T69_dimensions_are_merged_and_split():
    x = mq.arange(24.0).view(2, 3, 4)
    merged = levels.reshape_dim_into(0, 1, x)
    assert mq.equal(merged, x.movedim(0, 1).reshape(3, 8))
    assert mq.equal(levels.reshape_dim_outof(1, 2, merged), merged.view(3, 2, 4))


def test_functionalize_names_the_function_and_the_line():
    outside = mq.zeros(4)

    def program(x):
        return outside.add_(x)

    with pytest.raises(RuntimeError, match="'self'") as caught:
        functionalize(program)(mq.ones(4))
    (note,) = caught.value.__notes__
    assert "inside of functionalize(program)" in note
    assert "return outside.add_(x)" in note


@pytest.mark.parametrize("transform", [grad, vmap])
@pytest.mark.parametrize("use", [lambda x: mq.cat([x, x]), lambda x: x + x])
def test_a_tensor_of_a_transform_that_waits_is_refused_below_it(transform, use):
    def f(x):
        with stack()[-1].lower():
            return use(x).sum()

    with pytest.raises(RuntimeError, match="inside of a transform that waits"):
        transform(f)(mq.ones(3, 2) if transform is vmap else mq.ones(3))


@pytest.mark.parametrize(
    "name", "svd svdvals qr eig eigh eigvals inv inv_ex det cholesky lu lu_factor pinv".split()
)
def test_a_batch_of_vectors_is_no_matrix(name):
    with pytest.raises(RuntimeError, match="must have at least 2 dimensions"):
        vmap(getattr(linalg, name))(mq.ones(3, 3))


@pytest.mark.parametrize(
    "solve",
    [
        linalg.solve,
        lambda a, b: linalg.solve_triangular(a, b, upper=True),
        mq.cholesky_solve,
        lambda a, b: linalg.lstsq(a, b).solution,
    ],
)
def test_no_batch_of_vectors_is_solved_with(solve):
    with pytest.raises(RuntimeError, match="must have at least 2 dimensions"):
        vmap(solve)(mq.eye(3), mq.ones(3, 3))


def test_what_is_scattered_by_masks_in_a_batch_is_checked_as_alone():
    x, mask = mq.ones(3, 4), mq.ones(3, 4, dtype=mq.bool)
    with pytest.raises(RuntimeError, match="boolean masks"):
        vmap(mq.masked_scatter)(x, mask.float(), x)
    with pytest.raises(RuntimeError, match="same dtypes"):
        vmap(mq.masked_scatter)(x, mask, x.double())


@pytest.mark.parametrize("transform", ["grad", "vjp", "jvp"])
@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.view(6),
        lambda t: t.reshape(3, 2).t(),
        lambda t: t.detach(),
        lambda t: t[0].unsqueeze(0),
    ],
)
def test_a_view_of_a_captured_tensor_is_not_written(
    transform: str, view: Callable[[mq.Tensor], mq.Tensor]
) -> None:
    held = mq.zeros(2, 3)

    def function(x: mq.Tensor) -> mq.Tensor:
        view(held).mul_(x)
        return x

    x = mq.ones(())
    runs = {
        "grad": lambda: mq.func.grad(function)(x),
        "vjp": lambda: mq.func.vjp(function, x),
        "jvp": lambda: mq.func.jvp(function, (x,), (x,)),
    }
    with pytest.raises(RuntimeError, match="mutate a captured Tensor"):
        runs[transform]()


def test_views_of_what_a_function_made_or_got_are_written() -> None:
    def function(x: mq.Tensor) -> mq.Tensor:
        made = mq.tensor([0.0, 0.0])
        made[:1].copy_(x)
        made.view(2, 1)[1].add_(x)
        y = x * 1
        y.view(1).mul_(2)
        return made.sum() + y

    assert mq.func.grad(function)(mq.ones(())).item() == 4
    assert mq.func.jvp(function, (mq.ones(()),), (mq.ones(()),))[1].item() == 4


@pytest.mark.parametrize("transform", ["grad", "jvp", "nested"])
def test_instance_norm_moves_statistics_that_a_function_captured(transform: str) -> None:
    x, mean, var = mq.rand(2, 3, 4), mq.zeros(3), mq.ones(3)

    def norm(x: mq.Tensor) -> mq.Tensor:
        return mq.nn.functional.instance_norm(x, mean, var, use_input_stats=True).square().sum()

    along = norm if transform == "jvp" else mq.func.grad(norm)
    made = along(x) if transform == "grad" else mq.func.jvp(along, (x,), (x,))[1]
    assert made.isfinite().all()
    assert mq.allclose(mean, x.mean((0, 2)) / 10)
