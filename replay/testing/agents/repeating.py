"""The line of Python that repeats a counterexample, with the names of the code that explored.

    explore(host, policy, "A table.", monitors=[one_table], runs=500)
    print(simulate(host, policy, "A table.", monitors=[one_table], schedule="1.5be1a6b2.eNpr"))  # at a.py:3

The arguments are those in the source of the call. Where there is no source, or the call does not stand in
it (`functools.partial`), or it unpacks arguments, the schedule alone is told.
"""

import ast
import inspect
import linecache
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

NO_OPTIONS_OF_A_RUN: Final = frozenset(
    {"runs", "seconds", "scheduler", "seed", "steps", "keeps_going", "check"}
)
"""Options of a campaign; `simulate` does not take them."""

_EXPLORE: Final = "explore"
_SIMULATE: Final = "simulate"


def repeating(frame: FrameType | None, explored: Callable[..., object]) -> Callable[[str], str]:
    """Return a function of a schedule's text that gives the line which repeats its run.

    frame: of the call. explored: the function called there: `explore`, or the method of a scenario.
    """
    written = _written(frame, explored) if frame else None
    if frame is None or written is None:
        return _without_source
    place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
    if _is_method(explored):
        receiver = written.call.func
        assert isinstance(receiver, ast.Attribute)
        return partial(_of_scenario, written.told(receiver.value), place)
    imports = (
        "" if isinstance(written.call.func, ast.Attribute) or _has_simulate(frame, explored) else _IMPORT
    )
    return partial(_of_arguments, f"{imports}print({written.simulate()}", place)


_IMPORT: Final = "from callboard.testing import simulate; "


def _without_source(text: str) -> str:
    return f'schedule {text}  # simulate(..., schedule="...") repeats it, with the arguments of explore'


def _of_scenario(scenario: str, place: str, text: str) -> str:
    return f'print({scenario}.{_SIMULATE}("{text}"))  # at {place}'


def _of_arguments(begun: str, place: str, text: str) -> str:
    return f'{begun}schedule="{text}"))  # at {place}'


class _Written(NamedTuple):
    """A call, and the source that it stands in."""

    call: ast.Call
    source: str

    def told(self, node: ast.expr) -> str:
        """Return an expression as it is written, on one line."""
        text = ast.get_source_segment(self.source, node)
        return ast.unparse(node) if text is None or "\n" in text else text

    def simulate(self) -> str:
        """Return the beginning of the call of `simulate` with the same arguments."""
        func = self.call.func
        name = f"{self.told(func.value)}.{_SIMULATE}" if isinstance(func, ast.Attribute) else _SIMULATE
        given = [self.told(one) for one in self.call.args]
        given += [
            f"{one.arg}={self.told(one.value)}"
            for one in self.call.keywords
            if one.arg not in NO_OPTIONS_OF_A_RUN
        ]
        return f"{name}({''.join(f'{one}, ' for one in given)}"


def _written(frame: FrameType, explored: Callable[..., object]) -> _Written | None:
    """Find the call that a frame is making; None if it cannot be told from others, or unpacks arguments."""
    source = "".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals))
    try:
        calls = [one for one in _calls(ast.parse(source), frame.f_lineno) if _is_of(one, frame, explored)]
    except (SyntaxError, ValueError, RecursionError):
        return None
    # Exact, except where the code was rewritten (asserts by pytest) or has no columns (-X no_debug_ranges).
    exact = [one for one in calls if _span(one) == _position(frame)]
    calls = exact or calls
    if len(calls) != 1 or _unpacks(calls[0]) or (_is_method(explored) and calls[0].args):
        return None  # a method with arguments by position is `Scenario.explore(booking)`
    return _Written(calls[0], source)


def _calls(tree: ast.AST, line: int) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or node.lineno):
            yield node


def _is_of(call: ast.Call, frame: FrameType, explored: Callable[..., object]) -> bool:
    """Return whether a call names the function that was called."""
    func = call.func
    if isinstance(func, ast.Attribute):
        return func.attr == _EXPLORE
    return (
        isinstance(func, ast.Name)
        and not _is_method(explored)
        and _value(frame, func.id) is inspect.unwrap(explored)
    )


def _is_method(function: Callable[..., object]) -> bool:
    return function.__qualname__ != function.__name__


def _value(frame: FrameType, name: str) -> object:
    value = frame.f_locals.get(name, frame.f_globals.get(name))
    return inspect.unwrap(value) if callable(value) else value


def _has_simulate(frame: FrameType, explored: Callable[..., object]) -> bool:
    """Return whether the name `simulate` is there and means ours, which stands beside `explore`."""
    return _value(frame, _SIMULATE) is getattr(inspect.unwrap(explored), "__globals__", {}).get(_SIMULATE)


def _span(node: ast.Call) -> tuple[int | None, ...]:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def _position(frame: FrameType) -> tuple[int | None, ...]:
    """Return the place of the instruction that a frame is making, two bytes each."""
    return [*frame.f_code.co_positions()][frame.f_lasti // 2]


def _unpacks(call: ast.Call) -> bool:
    return any(isinstance(one, ast.Starred) for one in call.args) or any(
        one.arg is None for one in call.keywords
    )
