"""Load the agent that a command line names: `module:agent` or `path/to/file.py:agent`."""

import contextlib
import importlib
import importlib.util
import inspect
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType

from callboard.actors.protocol.errors import CallboardError, MisuseError
from callboard.cli.errors import FAILED, Failure, misused, not_found, refuse_if
from callboard.runtime.agent import Agent, roster
from callboard.runtime.failure_text import failure_text
from callboard.runtime.models.fallback import ModelChoice, model_or_name, models_of

_LISTED = 12


def load_agent(spec: str) -> Agent:
    """Load the agent of this name. Raises Failure that lists the names that exist."""
    source, _, attribute = spec.rpartition(":")
    if not source or not attribute:
        source = spec.strip(":")
        raise misused(f"{spec!r} does not name an agent; write {source or 'module'}:agent{_hint(source)}")
    with contextlib.redirect_stdout(sys.stderr):
        module = load_module(source)
        return _agent(module, source, attribute)


def choose_model(agent: Agent, named: ModelChoice | str) -> tuple[Agent, ModelChoice | None]:
    """Return the agent, and the model for agents without one. Raises Failure if the host has no model.

    named: the model of `--model`, or its name, which replaces the host's own; empty for none.
    """
    model = model_or_name(named) if named else None
    if model is not None and agent.model_below is not None:
        agent = agent.with_model(model)
    if agent.model is None and model is None:
        raise misused(
            f"agent {agent.name!r} has no model; name one with --model PROVIDER:NAME "
            "(for example --model anthropic:claude-sonnet-5), or give it Agent(model=...) in its module"
        )
    for other in (*models_of(model), *(own for one in roster(agent).values() for own in one.all_models)):
        # A model without a key or a network fails here, before anything is recorded.
        if callable(check := getattr(other, "check", None)):
            check()
    return agent, model


def load_module(source: str) -> ModuleType:
    """Load the module of this name or file. Raises Failure that lists the modules, or shows its error."""
    is_file = source.endswith(".py") or "/" in source or "\\" in source
    folder = str(Path(source).resolve().parent if is_file else Path.cwd())
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)
    try:
        return _file_module(Path(source)) if is_file else importlib.import_module(source)
    except Failure:
        raise
    except (Exception, SystemExit) as error:
        if not is_file and _is_missing(error, source):
            raise not_found(f"there is no module {source!r}; {_modules_near(Path(source))}") from None
        raise broken(source, error) from error


def _is_missing(error: BaseException, source: str) -> bool:
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    # This module itself, or a package around it, and not one that it imports.
    return name is not None and f"{source}.".startswith(f"{name}.")


def _file_module(path: Path) -> ModuleType:
    if not path.is_file():
        raise not_found(f"there is no file {path}; {_modules_near(path)}")
    name = path.stem
    known = sys.modules.get(name)
    file = getattr(known, "__file__", None) or ""
    if known is not None and file == str(path.resolve()):
        return known
    is_installed = file.startswith(tuple(sysconfig.get_paths().values()))
    refuse_if(is_installed, f"{path}: a module {name!r} is already loaded from {file}; rename the file")
    found = importlib.util.spec_from_file_location(name, path.resolve())
    if found is None or found.loader is None:
        raise misused(f"{path} is not a Python file; name one that ends in .py")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # before it runs: a class looks up its own module while it is defined
    found.loader.exec_module(module)
    return module


def broken(source: str, error: BaseException) -> Failure:
    """Return the failure for a user's module that raised an error."""
    return Failure(f"loading {source} failed: {failure_text(error)}; --debug shows where", FAILED)


def _agent(module: ModuleType, source: str, attribute: str) -> Agent:
    value = value_in(module, source, attribute, _agents_in)
    if isinstance(value, Agent):
        return value
    if not callable(value) or not _takes_nothing(value):
        raise misused(
            f"{source}:{attribute} is of type {type(value).__name__}, neither an Agent nor a function "
            f"without arguments that returns one; {_agents_in(module)}"
        )
    made = _call(value, source, attribute)
    if not isinstance(made, Agent):
        raise misused(
            f"{source}:{attribute}() returned a value of type {type(made).__name__}, not an Agent; "
            f"{_agents_in(module)}"
        )
    return made


def value_in(module: ModuleType, source: str, attribute: str, seen: Callable[[ModuleType], str]) -> object:
    """Return the value of a name in a module; dots are allowed. seen: lists the names for the error."""
    value: object = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            raise not_found(f"{source}{_elsewhere(module, source)} has no {attribute!r}; {seen(module)}")
        value = getattr(value, part)
    return value


def _elsewhere(module: ModuleType, source: str) -> str:
    """Say where a module came from, if an installed one hides a file of that name in this folder."""
    file, here = getattr(module, "__file__", None), Path(f"{source}.py")
    if file is None or not here.is_file() or here.resolve() == Path(file).resolve():
        return ""
    return f" ({file}; rename the file {here} here)"


def _call(make: Callable[[], object], source: str, attribute: str) -> object:
    try:
        return make()
    except MisuseError:
        raise
    except (Exception, SystemExit) as error:
        raise broken(f"{source}:{attribute}()", error) from error


def _takes_nothing(value: Callable[..., object]) -> bool:
    try:
        inspect.signature(value).bind()
    except (TypeError, ValueError):
        return False
    return True


def _agents_in(module: ModuleType) -> str:
    """List the agents of a module, and its functions that are annotated to return one."""
    found = listed(module, Agent, lambda function: function.__annotations__.get("return") in (Agent, "Agent"))
    return found or "no Agent is defined there"


def listed(module: ModuleType, kind: type, makes: Callable[[FunctionType], bool]) -> str:
    """List the first values of a kind in a module, and the functions that make one; empty without any."""
    names = [
        name if isinstance(value, kind) else f"{name} (a function)"
        for name, value in sorted(vars(module).items())
        if isinstance(value, kind) or (inspect.isfunction(value) and makes(value))
    ]
    return f"{kind.__name__.lower()}s there: {', '.join(names[:_LISTED])}" if names else ""


def _hint(source: str) -> str:
    """List the agents of a module that was named without one; empty if it cannot be loaded."""
    with contextlib.redirect_stdout(sys.stderr):
        try:
            return f"; {_agents_in(load_module(source))}"
        except (Failure, CallboardError):
            return ""


def _modules_near(path: Path) -> str:
    return files_near(path, "Python modules", "*.py", "*/__init__.py")


def files_near(path: Path, what: str, *patterns: str) -> str:
    """List the files beside a path that does not exist, or in the current folder without its folder."""
    folder = path.parent if path.parent.is_dir() else Path.cwd()
    paths = [one.relative_to(folder) for pattern in patterns for one in sorted(folder.glob(pattern))]
    names = ", ".join(map(Path.as_posix, paths[:_LISTED])).replace("/__init__.py", "/")
    return f"{what} in {folder.resolve()}: {names or 'none'}"
