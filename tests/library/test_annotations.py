"""Out overloads of functional operators, and arguments that want symmetric memory."""

import logging

import pytest

import maquette as mq
from maquette.library import Library
from maquette.library.out_variant import to_out_variant
from maquette.library.symm_mem import symm_mem_args

aten = mq.ops.aten


def test_L109_the_out_overload_is_found():
    assert to_out_variant(aten.sin.default) is aten.sin.out


def test_L109_the_other_arguments_are_equal():
    assert to_out_variant(aten.add.Tensor) is aten.add.out
    assert to_out_variant(aten.topk.default) is aten.topk.values


def test_L109_an_operator_that_writes_is_refused():
    with pytest.raises(RuntimeError, match="sin_"):
        to_out_variant(aten.sin_.default)


def test_L109_none_where_no_overload_fits(lib, ns):
    lib.define("f(Tensor x, int n) -> Tensor")
    lib.define("f.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", tags=mq.Tag.out)
    assert to_out_variant(getattr(mq.ops, ns).f.default) is None


@pytest.fixture
def f(lib, ns):
    lib.define("f(Tensor x, Tensor y) -> Tensor")
    return f"{ns}::f"


def test_L35_names_are_kept_as_a_set(lib, f):
    lib.register_symm_mem_args("f", ["x", "x"])
    assert symm_mem_args(f) == {"x"}


def test_L35_no_names_are_refused(lib, f):
    with pytest.raises(ValueError, match="got none"):
        lib.register_symm_mem_args("f", [])


def test_L35_a_name_that_the_schema_has_not_is_refused(lib, f):
    with pytest.raises(ValueError, match="'z'"):
        lib.register_symm_mem_args("f", ["z"])


def test_L35_a_repeat_replaces_and_logs(lib, f, caplog):
    lib.register_symm_mem_args("f", ["x"])
    with caplog.at_level(logging.WARNING):
        lib.register_symm_mem_args("f", ["y"])
    assert symm_mem_args(f) == {"y"}
    assert "replaced" in caplog.text


def test_L35_it_is_gone_when_the_library_is(ns, f):
    other = Library(ns, "FRAGMENT")
    other.register_symm_mem_args("f", ["x"])
    other._destroy()
    assert symm_mem_args(f) is None
