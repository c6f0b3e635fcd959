"""Loading the scenario that a command line names: `module:scenario` or `path/to/file.py:scenario`.

As with agents the module is looked for from the current folder, and what it prints goes to stderr.
"""

import contextlib
import inspect
import multiprocessing
import sys
from collections.abc import Iterator
from types import ModuleType

from callboard.actors.protocol.errors import MisuseError
from callboard.cli.errors import Failure, misused
from callboard.cli.loading import broken, load_module, value_in
from callboard.runtime.agent import Agent
from callboard.testing.runs import Scenario
from callboard.testing.subject import Parts, Subject, subject_of

_LISTED = 12


def load_subject(spec: str) -> Subject:
    """The scenario of this name. Fails, always as a mistake of usage, with what is there instead.

    What a campaign found has the exit code 1; so a build can tell the one from the other.
    """
    try:
        return _load(spec)
    except Failure as failure:
        raise misused(failure.message) from failure


def _load(spec: str) -> Subject:
    source, colon, attribute = spec.rpartition(":")
    if not colon or not source or not attribute:
        raise misused(f"{spec!r} does not name a scenario; write {source or spec.strip(':')}:scenario")
    with contextlib.redirect_stdout(sys.stderr):
        module = load_module(source)
        value = value_in(module, source, attribute, _scenarios_in)
        if isinstance(value, Agent):
            raise misused(
                f"{spec} is an Agent: say what its models answer and what it is asked, in "
                f"scenario = callboard.testing.Scenario({attribute}, policy, prompt); {_scenarios_in(module)}"
            )
        try:
            return subject_of(value, spec)
        except MisuseError as error:
            raise misused(f"{error}; {_scenarios_in(module)}") from error
        except (Exception, SystemExit) as error:
            raise broken(f"{spec}()", error) from error


class Named:
    """A scenario by its name on the command line, to be made anew in another process."""

    def __init__(self, spec: str) -> None:
        self.spec = spec

    def __call__(self) -> Parts:
        """How a world is made, and the rules. Raises what `load_subject` does, as plain MisuseError."""
        if multiprocessing.parent_process() is not None:
            sys.stdout = sys.stderr  # results are printed by the process that was started first
        try:
            return load_subject(self.spec)()
        except Failure as failure:
            raise MisuseError(failure.message) from failure


def _scenarios_in(module: ModuleType) -> str:
    names = sorted(_names(module))[:_LISTED]
    return f"scenarios there: {', '.join(names)}" if names else "no scenario is defined there"


def _names(module: ModuleType) -> Iterator[str]:
    """Scenarios, and functions of the module itself that could make one: without arguments, with a result."""
    for name, value in list(vars(module).items()):
        if isinstance(value, Scenario):
            yield name
        elif inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_"):
            signature = inspect.signature(value)
            if not signature.parameters and signature.return_annotation not in (None, "None"):
                yield f"{name} (a function)"
