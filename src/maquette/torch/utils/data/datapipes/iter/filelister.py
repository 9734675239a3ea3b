"""`FileLister`: the paths of the files in folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from maquette.torch.utils.data.datapipes._decorator import functional_datapipe
from maquette.torch.utils.data.datapipes.datapipe import IterDataPipe
from maquette.torch.utils.data.datapipes.iter.lengths import no_length
from maquette.torch.utils.data.datapipes.iter.utils import IterableWrapperIterDataPipe
from maquette.torch.utils.data.datapipes.utils.common import get_file_pathnames_from_root

__all__ = ["FileListerIterDataPipe"]


@functional_datapipe("list_files")
class FileListerIterDataPipe(IterDataPipe[str]):
    """The paths of the files in one folder, several, or those that a pipe gives.

    masks: shell patterns of the names, all if empty. recursive: of the folders in it, too.
    abspath: from the root of the file system. non_deterministic: as the system lists them, else
    sorted in each folder. length: what ``len`` says; TypeError if it is -1.

    (functional name: ``list_files``)
    """

    def __init__(
        self,
        root: str | Sequence[str] | IterDataPipe[str] = ".",
        masks: str | list[str] = "",
        *,
        recursive: bool = False,
        abspath: bool = False,
        non_deterministic: bool = False,
        length: int = -1,
    ) -> None:
        roots: Any = [root] if isinstance(root, str) else root
        if not isinstance(roots, IterDataPipe):
            roots = IterableWrapperIterDataPipe(roots)
        self.datapipe: IterDataPipe[str] = roots
        self.masks = masks
        self.recursive = recursive
        self.abspath = abspath
        self.non_deterministic = non_deterministic
        self.length = length

    def __iter__(self) -> Iterator[str]:
        for path in self.datapipe:
            yield from get_file_pathnames_from_root(
                path, self.masks, self.recursive, self.abspath, self.non_deterministic
            )

    def __len__(self) -> int:
        if self.length == -1:
            raise no_length(self)
        return self.length
