"""The settings, each an argument, a variable of the environment, or a value of a file; the first one wins."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import click
import msgspec


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of the reader.

    index: the file of the index. model: such as "anthropic:claude-sonnet-5"; "" for the offline policies.
    enable_orchestrator: False asks one agent with all tools. enabled_subagents: the specialists.
    subagent_max_iterations: the model calls of each. orchestrator_mode: sequential or parallel.
    """

    index: str = "regreader.db"
    model: str = ""
    enable_orchestrator: bool = False
    enabled_subagents: tuple[str, ...] = ("search", "table", "reference")
    subagent_max_iterations: int = 6
    orchestrator_mode: Literal["sequential", "parallel"] = "sequential"


def setting(name: str, *flags: str, **given: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option of a setting, which the environment and the file can give, too."""
    default = getattr(Settings(), name)
    known: dict[str, Any] = {"envvar": f"REGREADER_{name.upper()}", "show_envvar": True}
    return click.option(*flags, name, default=default, show_default=default != "", **known, **given)


class Names(click.ParamType[tuple[str, ...]]):
    """Names with commas or blanks between them."""

    name = "names"

    def convert(self, value: Any, param: object, ctx: object) -> tuple[str, ...]:
        """Return the names of a text, or of a list in a file."""
        return tuple(value.replace(",", " ").split() if isinstance(value, str) else map(str, value))


def take_file(context: click.Context, parameter: object, path: Path) -> None:
    """Make the settings of a TOML file the defaults of all options. Raises click.UsageError."""
    if not path.exists() and context.get_parameter_source("config") is click.core.ParameterSource.DEFAULT:
        return
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        msgspec.convert(found, Settings, strict=False)
    except (OSError, ValueError, msgspec.ValidationError) as error:
        known = ", ".join(Settings.__struct_fields__)
        raise click.UsageError(f"{path}: {error}; settings are {known}") from None
    context.default_map = {**found, "ask": found, "chat": found}
