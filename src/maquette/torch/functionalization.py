"""torch's private functions of functionalization, under the names that tracers call them by."""

from __future__ import annotations

from maquette.transforms import functional
from maquette.transforms.functional import inspection

_disable_functionalization = functional.disable_functionalization
_enable_functionalization = functional.enable_functionalization
_freeze_functional_tensor = functional.freeze_functional_tensor
_from_functional_tensor = functional.from_functional_tensor
_functionalize_are_all_mutations_hidden_from_autograd = (
    inspection.are_all_mutations_hidden_from_autograd
)
_functionalize_commit_update = inspection.commit_update
_functionalize_enable_reapply_views = functional.reapply_views
_functionalize_get_storage_size = inspection.get_storage_size
_functionalize_has_data_mutation = inspection.has_data_mutation
_functionalize_has_metadata_mutation = inspection.has_metadata_mutation
_functionalize_is_multi_output_view = inspection.is_multi_output_view
_functionalize_mark_mutation_hidden_from_autograd = inspection.mark_mutation_hidden_from_autograd
_functionalize_replace = inspection.replace
_functionalize_set_storage_changed = inspection.set_storage_changed
_functionalize_sync = functional.sync
_functionalize_was_storage_changed = inspection.was_storage_changed
_is_functional_tensor = functional.is_functional_tensor
_mirror_autograd_meta_to = functional.mirror_autograd_meta_to
_sync = functional.sync
_to_functional_tensor = functional.to_functional_tensor

__all__ = [
    "_disable_functionalization",
    "_enable_functionalization",
    "_freeze_functional_tensor",
    "_from_functional_tensor",
    "_functionalize_are_all_mutations_hidden_from_autograd",
    "_functionalize_commit_update",
    "_functionalize_enable_reapply_views",
    "_functionalize_get_storage_size",
    "_functionalize_has_data_mutation",
    "_functionalize_has_metadata_mutation",
    "_functionalize_is_multi_output_view",
    "_functionalize_mark_mutation_hidden_from_autograd",
    "_functionalize_replace",
    "_functionalize_set_storage_changed",
    "_functionalize_sync",
    "_functionalize_was_storage_changed",
    "_is_functional_tensor",
    "_mirror_autograd_meta_to",
    "_sync",
    "_to_functional_tensor",
]
