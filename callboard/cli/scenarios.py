"""Load the scenario that a command line names: `module:scenario` or `path/to/file.py:scenario`."""

import contextlib
import inspect
import multiprocessing
import sys
from types import FunctionType, ModuleType

from callboard.actors.protocol.errors import MisuseError
from callboard.cli.errors import Failure, misused
from callboard.cli.loading import broken, listed, load_module, value_in
from callboard.replay.testing.agents.runs import Scenario
from callboard.replay.testing.agents.subject import Parts, Subject, subject_of
from callboard.runtime.agent import Agent


def load_subject(spec: str) -> Subject:
    """Load the scenario of this name. Raises Failure that lists the scenarios that exist."""
    try:
        return _load(spec)
    except Failure as failure:
        # Always exit code 2: code 1 means that the campaign broke a rule, and builds tell them apart.
        raise misused(failure.message) from failure


def _load(spec: str) -> Subject:
    source, _, attribute = spec.rpartition(":")
    if not source or not attribute:
        raise misused(f"{spec!r} does not name a scenario; write {source or spec.strip(':')}:scenario")
    with contextlib.redirect_stdout(sys.stderr):
        module = load_module(source)
        value = value_in(module, source, attribute, _scenarios_in)
        if isinstance(value, Agent):
            raise misused(
                f"{spec} is an Agent; define its answers and its prompt in a scenario: "
                f"scenario = callboard.testing.Scenario({attribute}, policy, prompt); {_scenarios_in(module)}"
            )
        try:
            return subject_of(value, spec)
        except MisuseError as error:
            raise misused(f"{error}; {_scenarios_in(module)}") from error
        except (Exception, SystemExit) as error:
            raise broken(f"{spec}()", error) from error


def load_parts(spec: str) -> Parts:
    """Load a scenario in any process. Raises MisuseError where `load_subject` raises Failure."""
    if multiprocessing.parent_process() is not None:
        sys.stdout = sys.stderr  # the first process prints the results
    try:
        return load_subject(spec)()
    except Failure as failure:
        raise MisuseError(failure.message) from failure


def _scenarios_in(module: ModuleType) -> str:
    """List the scenarios of a module, and its own functions that may return one."""

    def may_make(function: FunctionType) -> bool:
        signature = inspect.signature(function)
        is_own = function.__module__ == module.__name__ and not function.__name__.startswith("_")
        return is_own and not signature.parameters and signature.return_annotation not in (None, "None")

    return listed(module, Scenario, may_make) or "no scenario is defined there"
