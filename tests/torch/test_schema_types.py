"""Classes of schema types, and schemas of all operators."""

import pytest

import maquette.torch as torch


def test_a_type_is_an_instance_of_the_class_of_its_kind():
    self, dim, *_ = torch.ops.aten.sum.dim_IntList._schema.arguments
    assert isinstance(self.type, torch.TensorType)
    assert isinstance(self.type, torch._C.Type)
    assert isinstance(dim.type, torch.OptionalType)
    assert isinstance(dim.type.getElementType(), torch.ListType)
    assert isinstance(dim.type.getElementType().getElementType(), torch.IntType)


def test_classes_of_types_give_types():
    tensor = torch.TensorType.get()
    assert tensor == torch.ops.aten.mm.default._schema.arguments[0].type
    assert tensor.isSubtypeOf(torch.OptionalType(tensor))
    assert torch.ListType.ofInts() == torch.ListType(torch.IntType.get())
    assert str(torch.DictType(torch.StringType.get(), torch.IntType.get())) == "Dict[str, int]"


def test_a_class_without_parameters_says_how_to_get_its_type():
    with pytest.raises(TypeError, match=r"use torch.TensorType.get\(\)"):
        torch.TensorType()


def test_schemas_of_all_operators_hold_those_of_one():
    found = torch._C._jit_get_schemas_for_operator("aten::mm")
    assert torch.ops.aten.mm.default._schema in found
    assert set(found) <= set(torch._C._jit_get_all_schemas())
    assert torch._C._jit_get_schemas_for_operator("aten::no_such") == []
