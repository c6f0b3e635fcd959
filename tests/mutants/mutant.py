"""A mutant: a wrong line in the core, as data; and the hook that puts it there before it is compiled.

Rules
  - A process lives with one mutant at most, from before anything of callboard is imported. So it does not
    matter who has imported what from where, and nothing on disk is touched: no cache is read or written for
    the module that is changed.
  - The old text occurs exactly once in the module's source. A mutant that no longer fits is an error, never
    a mutant that silently changes nothing.
"""

import importlib.machinery
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import CodeType, ModuleType
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = "callboard.actors"


class Mutant(NamedTuple):
    """One seeded fault. what: its effect, in one sentence. old, new: source text.

    module: dotted, below `actors`.

    note: for one that is not found: why, and what follows from that.
    """

    name: str
    what: str
    module: str
    old: str
    new: str
    note: str = ""

    @property
    def path(self) -> Path:
        """The file that is changed."""
        return ROOT / "actors" / f"{self.module.replace('.', '/')}.py"

    def applied(self, source: str) -> str:
        """The source with the fault in it. Raises ValueError if it does not fit."""
        count = source.count(self.old)
        if count != 1 or self.old == self.new:
            raise ValueError(f"{self.name}: its old text occurs {count} times in {self.module}.py")
        return source.replace(self.old, self.new)


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the changed source, and leaves caches alone."""

    def __init__(self, fullname: str, path: str, mutant: Mutant) -> None:
        super().__init__(fullname, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        """The code of the module with the fault in it."""
        source = self._mutant.applied(self.get_data(self.path).decode())
        return compile(source, self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self._fullname = f"{PACKAGE}.{mutant.module}"

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of the one module that is changed."""
        if fullname != self._fullname:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or spec.origin is None:
            return None
        spec.loader = _Loader(fullname, spec.origin, self._mutant)
        return spec


def install(mutant: Mutant) -> None:
    """Put the fault into this process. Raises RuntimeError if callboard is there already."""
    if loaded := [name for name in sys.modules if name.split(".")[0] == "callboard"]:
        raise RuntimeError(f"too late for {mutant.name}: {loaded[0]} is imported already")
    sys.meta_path.insert(0, _Finder(mutant))
