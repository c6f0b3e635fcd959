"""The fixed values of the core: the defaults that a log leaves out, its numbers, tables and texts.

    python -m tests.actors.fixed      rewrites tests/data/golden/fixed/

A field at its default is not written to the log, an actor begins with the defaults of its state, and numbers
and tables decide what is posted, and models read the texts. So a log that was recorded earlier replays to the
byte only as long as these values stay, and who changes one has to see it in these files. There is one for
each part of `actors/`.
"""

import ast
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Final, get_type_hints

import msgspec

ROOT: Final = Path(__file__).parents[2]
FILES: Final = ROOT / "tests" / "data" / "golden" / "fixed"
PARTS: Final = ("agent", "protocol", "session", "supervisor")


def lines_of(part: str) -> list[str]:
    """Return the fixed values of one part, a line for each."""
    found: set[str] = set()
    for path in sorted((ROOT / "actors" / part).rglob("*.py")):
        module = importlib.import_module(f"callboard.actors.{part}.{path.stem}")
        for name in _defined(ast.parse(path.read_text())):
            value = getattr(module, name)
            if isinstance(value, type):
                found.update(f"{path.stem}.{line}" for line in _defaults(value))
            elif text := plain(value):
                found.add(f"{path.stem}.{name} = {text}")
        found.update(f"{path.stem}.{line}" for line in _texts(module))
    return sorted(found)


def _texts(module: ModuleType) -> Iterator[str]:
    """Yield the texts that the public functions of a module make of plain arguments, a line for each call."""
    for name, made in vars(module).items():
        function = inspect.unwrap(made)
        if name.startswith("_") or not inspect.isfunction(function) or made.__module__ != module.__name__:
            continue
        hints = get_type_hints(function)
        if hints.pop("return", None) is not str or not all(kind in _SAMPLES for kind in hints.values()):
            continue
        for at in range(3):
            given = {key: _SAMPLES[kind](key)[at] for key, kind in hints.items()}
            with suppress(ValueError, KeyError):  # of a function that refuses such arguments
                yield f"{name}({_given(given)}) = {made(**given)!r}"


_SAMPLES: Final[Mapping[object, Callable[[str], tuple[object, object, object]]]] = {
    str: lambda name: (f"the {name}", "", "x" * 130),
    int: lambda name: (12_345_678, 0, 1),
    bool: lambda name: (True, False, False),
    tuple[str, ...]: lambda name: (("a", "b"), (), (name,)),
    list[str]: lambda name: (["a", "b"], [], [name]),
    Iterable[str]: lambda name: (("a", "b"), (), (name,)),
}
"""Three arguments for each kind of parameter: usual, empty, and one more."""


def _given(given: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in given.items())


def _defined(module: ast.Module) -> Iterator[str]:
    """Yield the classes and constants that a module defines itself."""
    for node in module.body:
        match node:
            case ast.ClassDef(name=name):
                yield name
            case (
                ast.Assign(targets=[ast.Name(id=name)])
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr())
            ):
                if name.isupper():
                    yield name
            case _:
                pass


def _defaults(kind: type) -> Iterator[str]:
    if not issubclass(kind, msgspec.Struct):
        return
    for field in msgspec.structs.fields(kind):
        if field.default is not msgspec.NODEFAULT and (text := plain(field.default)):
            yield f"{kind.__name__}.{field.name} = {text}"


def plain(value: object) -> str:
    """Return a value as text, the same in each process; '' for one that is not made of numbers and names."""
    match value:
        case bool() | int() | float() | str() | bytes() | None:
            return repr(value)
        case type():
            return value.__name__
        case frozenset() | set():
            return _all("{}", sorted(map(plain, value)))
        case tuple() | list():
            return _all("()", [plain(one) for one in value])
        case Mapping():
            return _all("[]", [plain(pair) for pair in value.items()])
        case _:
            return ""


def _all(brackets: str, parts: list[str]) -> str:
    return brackets[0] + ", ".join(parts) + brackets[1] if all(parts) else ""


def differences(part: str) -> list[str]:
    """Return the lines of a part that differ from its file: `-` as it was, `+` as it is."""
    was, now = set((FILES / f"{part}.txt").read_text().splitlines()), set(lines_of(part))
    return [*(f"- {line}" for line in sorted(was - now)), *(f"+ {line}" for line in sorted(now - was))]


if __name__ == "__main__":
    FILES.mkdir(exist_ok=True)
    for part in PARTS:
        (FILES / f"{part}.txt").write_text("\n".join(lines_of(part)) + "\n")
