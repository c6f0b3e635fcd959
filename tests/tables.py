"""Tables whose rows are checked in one test, for rows that take less than a test does.

    @table("text, length", [("", 0), ("abc", 3)])
    def test_a_text_has_its_length(text: str, length: int) -> None: ...

The decorator reads like `pytest.mark.parametrize`. A test of its own costs 1.3 ms of CPU, most of it in
collecting it twice and in sending its reports to the process that prints them; a row here costs nothing.
Each row is checked even if an earlier one fails, and all that fail are reported together. Rows share the
fixtures of their test, so use `parametrize` for rows that change `tmp_path`, `monkeypatch` and the like,
and for rows that may be skipped: here a skip is a failure, because it would hide the rows after it.
"""

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import pytest

Ids = Iterable[str | None] | Callable[..., object] | None
_PARAM: Final = type(pytest.param())  # pytest has no public name for it


def table(
    names: str | Sequence[str], rows: Iterable[object], *, ids: Ids = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a test all rows, one after the other.

    names: of the parameters that a row fills, with commas between them or as a sequence.
    rows: a tuple for each row, or a value if there is one name; `pytest.param` names a row.
    ids: the names of the rows, or a function of a value.

    Raises: ValueError if there is no row, or if a row does not fill the names.
    """
    parameters = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    filled = [_filled(parameters, row) for row in rows]
    given = list(ids) if isinstance(ids, Iterable) else ids
    if not filled:
        raise ValueError("a table without rows checks nothing: give it at least one row")

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def check_all(*args: object, **fixtures: object) -> None:
            failures = []
            for number, (id_, row) in enumerate(filled):
                try:
                    test(*args, **fixtures, **row)
                except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
                    error.add_note(f"in row {_label(number, id_, row, given)}")
                    failures.append(error)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(filled)} rows fail", failures)

        signature = inspect.signature(test)
        others = [each for name, each in signature.parameters.items() if name not in parameters]
        check_all.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]  # pytest reads it
        return check_all

    return decorate


def _filled(names: Sequence[str], row: object) -> tuple[object, Mapping[str, object]]:
    """Return the name of a row, or None, and its values by parameter."""
    if isinstance(row, _PARAM):
        if row.marks:
            raise ValueError("a row cannot have marks: use pytest.mark.parametrize")
        values, id_ = row.values, row.id
    else:
        values, id_ = _values(row, len(names)), None
    if len(values) != len(names):
        raise ValueError(f"a row has {len(values)} values for {', '.join(names)}: {reprlib.repr(row)}")
    return id_, dict(zip(names, values, strict=True))


def _values(row: object, count: int) -> tuple[object, ...]:
    """Return the values of a row, which is its only value if there is one name."""
    return tuple(row) if count > 1 and isinstance(row, Iterable) else (row,)


def _label(
    number: int,
    id_: object,
    row: Mapping[str, object],
    ids: Sequence[str | None] | Callable[..., object] | None,
) -> str:
    """Name a row by its id, or by its number and values."""
    if id_ is None and callable(ids):
        id_ = "-".join(str(ids(value)) for value in row.values())
    elif id_ is None and isinstance(ids, Sequence):
        id_ = ids[number]
    if id_ is not None:
        return str(id_)
    return f"{number}: " + ", ".join(f"{name}={reprlib.repr(value)}" for name, value in row.items())
