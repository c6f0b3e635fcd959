"""A mutant: a wrong line in the core or in the orchestrator, as data; and the hook that inserts it before
compilation.

Rules
  - A process has at most one mutant, inserted before anything of callboard is imported. So the order of
    imports does not matter, and nothing on disk changes: no cache is read or written for the changed module.
  - The old text occurs exactly once in the module's source. A mutant that no longer fits is an error, so a
    mutant never silently changes nothing.
"""

import importlib.machinery
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import CodeType, ModuleType
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Mutant(NamedTuple):
    """One seeded fault.

    what: its effect, in one sentence. module: dotted, below `folder`. old, new: source text.
    note: for a mutant that is not found: the reason, and the consequence.
    """

    name: str
    what: str
    module: str
    old: str
    new: str
    note: str = ""
    folder: str = "actors"

    @property
    def path(self) -> Path:
        """Return the path of the changed file."""
        return ROOT / self.folder / f"{self.module.replace('.', '/')}.py"

    def applied(self, source: str) -> str:
        """Return the source with the fault in it. Raises ValueError if the fault does not fit."""
        count = source.count(self.old)
        if count != 1 or self.old == self.new:
            raise ValueError(f"{self.name}: its old text occurs {count} times in {self.module}.py")
        return source.replace(self.old, self.new)


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the changed source without caches."""

    def __init__(self, fullname: str, path: str, mutant: Mutant) -> None:
        super().__init__(fullname, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        """Compile the module with the fault in it."""
        source = self._mutant.applied(self.get_data(self.path).decode())
        return compile(source, self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self._fullname = f"callboard.{mutant.folder}.{mutant.module}"

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of the changed module; None for any other module."""
        if fullname != self._fullname:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or spec.origin is None:
            return None
        spec.loader = _Loader(fullname, spec.origin, self._mutant)
        return spec


def install(mutant: Mutant) -> None:
    """Insert the fault into this process. Raises RuntimeError if callboard is already imported."""
    if loaded := [name for name in sys.modules if name.split(".")[0] == "callboard"]:
        raise RuntimeError(f"too late for {mutant.name}: {loaded[0]} is imported already")
    sys.meta_path.insert(0, _Finder(mutant))
