"""The settings: defaults, then a file, then the environment, then arguments, the last one wins."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast, get_args

import msgspec

Mode = Literal["sequential", "parallel"]
PREFIX = "REGREADER_"


class SettingsError(Exception):
    """A setting that cannot be used. Its text names the setting and its place."""


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
    orchestrator_mode: Mode = "sequential"


def load(
    arguments: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Settings:
    """Return the settings of arguments, over those of the environment, over those of a TOML file.

    arguments: None for a value means "not given". file: by default `regreader.toml`, if it is there.
    Raises SettingsError.
    """
    environment = os.environ if environment is None else environment
    path = file or Path(environment.get(f"{PREFIX}CONFIG", "regreader.toml"))
    found: dict[str, Any] = {}
    if path.exists():
        try:
            found |= tomllib.loads(path.read_text())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SettingsError(f"{path}: {error}") from None
    elif file is not None:
        raise SettingsError(f"{path}: no such file")
    for name in Settings.__struct_fields__:
        if (text := environment.get(PREFIX + name.upper())) is not None:
            found[name] = _from_text(name, text)
    found |= {name: value for name, value in (arguments or {}).items() if value is not None}
    try:
        return msgspec.convert(found, Settings)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{error}; settings are {', '.join(Settings.__struct_fields__)}") from None


def _from_text(name: str, text: str) -> object:
    """Return a value of the environment in the type of its setting."""
    if name == "enabled_subagents":
        return [one.strip() for one in text.split(",") if one.strip()]
    if name == "enable_orchestrator":
        return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}.get(
            text.lower(), text
        )
    return int(text) if name == "subagent_max_iterations" and text.isdigit() else text


def mode_of(text: str) -> Mode:
    """Return a mode. Raises SettingsError for another text."""
    if text not in get_args(Mode):
        raise SettingsError(f"mode is {text!r}; write sequential or parallel")
    return cast(Mode, text)
