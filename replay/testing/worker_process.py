"""Starting a process that makes runs for a campaign, for a scenario that is found there by its name."""

import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from callboard.actors.protocol.errors import MisuseError


def start(
    target: Callable[..., None],
    scenario: object,
    *about: object,
    environment: Mapping[str, str] | None = None,
) -> tuple[BaseProcess, Connection]:
    """Start `target(connection, scenario, *about)` in a new process; return the process and the other end.
    environment: additional variables for it. Raises MisuseError for a scenario that it cannot find.
    """
    _check_named(scenario)
    context = get_context("spawn")  # not fork: the child gets its arguments and no other state
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, scenario, *about), daemon=True)
    with _environment(environment or {}), _deaf():
        process.start()
    theirs.close()
    return process, ours


def _check_named(scenario: object) -> None:
    """Raise MisuseError for a scenario that another process cannot find."""
    try:
        pickle.dumps(scenario)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        name = getattr(scenario, "__qualname__", type(scenario).__name__)
        raise MisuseError(
            f"{name} is not at the top of a module, where other processes find it; move it there ({error})"
        ) from None


@contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ[name] for name in more if name in os.environ}
    os.environ.update(more)
    try:
        yield
    finally:
        for name in more:
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def _deaf() -> Iterator[None]:
    """Ignore Ctrl-C, which is for the campaign alone, in the processes that start here."""
    # A new process ignores what its parent ignored, from its first moment on.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: Any = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
