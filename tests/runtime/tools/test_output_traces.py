"""Tracebacks for the log: whose frames they show, their length, no secrets, no exception of their own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callboard.actors.protocol.errors import ToolError
from callboard.runtime.secrets.registry import NO_SECRETS, Secrets
from callboard.runtime.tools.output import TRACE_CHARS_MAX, trace_of

PLAIN = NO_SECRETS.redactor


def raised(error: BaseException) -> BaseException:
    """Raise an exception here, and return it with its traceback."""
    try:
        raise error
    except BaseException as caught:
        return caught


class Hostile(Exception):
    def __str__(self) -> str:
        raise SystemExit("no text")


def test_a_trace_shows_the_users_lines_and_ends_with_the_exception() -> None:
    told = trace_of(raised(KeyError("town")), PLAIN)
    assert "test_output_traces.py" in told
    assert told.endswith("KeyError: 'town'")


def test_a_trace_names_no_folder_above_a_package_and_shows_the_line() -> None:
    told = trace_of(raised(KeyError("town")), PLAIN)
    assert 'File "tools/test_output_traces.py", line' in told
    assert "raise error" in told
    assert str(Path(__file__).parent.parent) not in told


def test_a_trace_shows_the_cause_too() -> None:
    error = KeyError("town")
    error.__cause__ = raised(OSError("no disk"))
    assert "OSError: no disk" in trace_of(raised(error), PLAIN)


def test_frames_of_callboard_are_left_out() -> None:
    own = trace_of.__code__.co_filename
    scope: dict[str, object] = {}
    exec(compile("def inside():\n    raise ValueError('x')\n", own, "exec"), scope)
    inside = scope["inside"]
    assert callable(inside)
    with pytest.raises(ValueError, match="x") as caught:
        inside()
    told = trace_of(caught.value, PLAIN)
    assert own not in told
    assert "test_output_traces.py" in told


def test_frames_of_callboard_are_left_out_of_a_cause_and_of_an_error_before_too() -> None:
    own = trace_of.__code__.co_filename
    scope: dict[str, Any] = {}
    exec(compile("def inside():\n    raise ValueError('x')\n", own, "exec"), scope)

    def after(cause: bool) -> None:
        try:
            scope["inside"]()
        except ValueError as error:
            raise KeyError("town") from (error if cause else error.__cause__)

    def handled() -> None:
        try:
            scope["inside"]()
        except ValueError:
            raise KeyError("town")  # noqa: B904  # the error before is its context

    acts: list[Callable[[], None]] = [lambda: after(cause=True), handled]
    for act in acts:
        with pytest.raises(KeyError) as caught:
            act()
        told = trace_of(caught.value, PLAIN)
        assert "ValueError: x" in told
        assert "traces.py" not in told.replace("test_output_traces.py", "")


def test_an_error_whose_own_text_fails_has_no_trace() -> None:
    class Redacts:
        def text(self, text: str) -> str:
            raise RuntimeError("no text")

    odd: Any = Redacts()
    assert trace_of(raised(ValueError("x")), odd) == ""


def test_the_end_of_a_long_trace_is_kept() -> None:
    told = trace_of(raised(ValueError("a" * 10**6 + "the end")), PLAIN)
    assert len(told) <= TRACE_CHARS_MAX
    assert told.endswith("the end")


def test_a_trace_holds_no_secret_and_no_control_characters() -> None:
    secrets = Secrets(["swordfish-1234"])
    told = trace_of(raised(ValueError("with swordfish-1234 and \0")), secrets.redactor)
    assert "swordfish" not in told
    assert "\0" not in told


def test_a_tools_own_error_has_no_trace() -> None:
    assert trace_of(raised(ToolError("no such file; list them first")), PLAIN) == ""


def test_an_exception_without_text_has_a_trace_all_the_same() -> None:
    assert "Hostile" in trace_of(raised(Hostile()), PLAIN)
