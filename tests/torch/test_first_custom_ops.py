"""`torch._custom_ops` and `torch._custom_op.impl`, PyTorch's first interface to operators."""

import pytest

import maquette.torch as torch
from maquette.torch._custom_op import by_name, impl
from maquette.torch._library import infer_schema, simple_registry, utils

Tensor = torch.Tensor


@pytest.fixture
def scaled():
    """An operator ``(x, scale)`` with an implementation for cpu."""

    def scaled(x: Tensor, scale: float) -> Tensor:
        raise NotImplementedError

    by_name.custom_op("first_ops::scaled", scaled)
    by_name.impl("first_ops::scaled", device_types="cpu", func=lambda x, scale: x * scale)
    yield impl.get_op("first_ops::scaled")
    by_name._destroy("first_ops::scaled")


def differentiate(gradients):
    by_name.impl_save_for_backward("first_ops::scaled", func=lambda inputs, out: inputs.scale)
    by_name.impl_backward("first_ops::scaled", func=lambda ctx, scale, grad: gradients(scale, grad))


def test_an_operator_is_found_by_its_name_and_taken_away(scaled):
    assert scaled(torch.ones(2), 3.0).tolist() == [3, 3]
    assert list(impl.global_registry) == ["first_ops::scaled"]
    with pytest.raises(ValueError, match="no operator first_ops::other"):
        impl.get_op("first_ops::other")


def test_gradients_come_by_the_names_of_inputs(scaled):
    differentiate(lambda scale, grad: {"x": grad * scale})
    x = torch.ones(2, requires_grad=True)
    out = scaled(x, 3.0)
    out.sum().backward()
    assert (x.grad.tolist(), type(out.grad_fn).__name__) == ([3, 3], "scaled_customopBackward")


@pytest.mark.parametrize(
    "found, message",
    [
        (lambda g: g, "to be a dict"),
        (lambda g: {"x": g, "scale": None}, "to have keys {'x'}"),
        (lambda g: {"x": 1}, "either None or a Tensor"),
    ],
)
def test_what_backward_gives_is_checked(scaled, found, message):
    differentiate(lambda scale, grad: found(grad))
    with pytest.raises(RuntimeError, match=message):
        scaled(torch.ones(2, requires_grad=True), 3.0).sum().backward()


def test_a_gradient_that_nobody_registered_is_refused(scaled):
    with pytest.raises(RuntimeError, match="Autograd has not been implemented"):
        scaled(torch.ones(2, requires_grad=True), 3.0)
    by_name.impl_backward("first_ops::scaled", func=lambda ctx, saved, grad: {"x": grad})
    with pytest.raises(RuntimeError, match="unable to find a 'save_for_backward'"):
        scaled(torch.ones(2, requires_grad=True), 3.0)


def test_outputs_without_gradient_are_told():
    by_name.custom_op("first_ops::two", "(Tensor x) -> (Tensor, Tensor)")
    by_name.impl("first_ops::two", func=lambda x: (x * 2, x * 3))
    by_name.impl_save_for_backward("first_ops::two", func=lambda inputs, out: None)
    by_name.impl_backward("first_ops::two", [True, False], func=lambda ctx, saved, a, b: {"x": a})
    a, b = impl.get_op("first_ops::two")(torch.ones(1, requires_grad=True))
    by_name._destroy("first_ops::two")
    assert (a.requires_grad, b.requires_grad) == (True, False)


@pytest.mark.parametrize(
    "schema", ["(Tensor(a!) x) -> Tensor(a!)", "(Tensor(a) x) -> Tensor(a)", "(Tensor x) -> ()"]
)
def test_operators_are_functional(schema):
    with pytest.raises(ValueError, match="only supports functional"):
        by_name.custom_op("first_ops::bad", schema)
    assert not utils.is_functional_schema(f"bad{schema}")


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda y: y, "signature to match"),
        (lambda *x: x, "not supported"),
        (lambda x=1: x, "default arguments"),
    ],
)
def test_a_function_fits_the_schema_it_is_given_with(function, message):
    function.__name__ = "fits"
    with pytest.warns(DeprecationWarning, match="torch.library.custom_op"):
        decorate = impl.custom_op("first_ops::fits", "(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match=message):
        decorate(function)


def test_pytorchs_own_namespaces_are_reserved():
    for namespace in impl.RESERVED_NS:
        with pytest.raises(ValueError, match="reserved namespace"):
            by_name.custom_op(f"{namespace}::f", "(Tensor x) -> Tensor")


# --- torch._library --------------------------------------------------------------------


def test_annotations_that_are_taken_make_schemas():
    for annotation, text in infer_schema.SUPPORTED_PARAM_TYPES.items():

        def f(x: annotation) -> Tensor: ...

        assert torch.library.infer_schema(f, mutates_args=()) == f"({text} x) -> Tensor"


def test_the_fake_of_an_operator_says_where_it_was_registered():
    with torch.library._scoped_library("first_ops", "FRAGMENT") as lib:
        lib.define("faked(Tensor x) -> Tensor")
        torch.library.register_fake("first_ops::faked", lambda x: x, lib=lib)
        found = simple_registry.singleton.find("first_ops::faked").fake_impl.kernel
        assert "test_first_custom_ops.py" in found.source


def test_a_schema_has_no_types_that_there_are_not():
    with torch.library._scoped_library("first_ops", "FRAGMENT") as lib:
        for schema, hint in {"f(tensor x) -> ()": "unknown", "f(int64_t n) -> ()": "`int`"}.items():
            with pytest.raises(RuntimeError, match=hint):
                lib.define(schema)


def test_defaults_are_filled_in():
    schema = torch._C.parse_schema("f(Tensor x, int n=2, *, bool b=True) -> Tensor")
    assert utils.fill_defaults(schema, (1,), {}) == ((1, 2), {"b": True})
    assert [(a.name, v) for a, v in utils.zip_schema(schema, (1,), {"b": 0})] == [
        ("x", 1),
        ("b", 0),
    ]
    assert utils.mutated_args_kwargs(torch.ops.aten.add.out._schema) == ([], ["out"])
