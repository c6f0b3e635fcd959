"""The settings: defaults, then a file, then the environment, then arguments, the last one wins."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec


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
    orchestrator_mode: Literal["sequential", "parallel"] = "sequential"


def load(
    arguments: Mapping[str, Any], environment: Mapping[str, str] = os.environ, file: Path | None = None
) -> Settings:
    """Return the settings of arguments, over those of the environment, over those of a TOML file.

    arguments: None for a value means "not given". file: by default `regreader.toml`, if it is there.
    Raises SettingsError.
    """
    path = file or Path(environment.get("REGREADER_CONFIG", "regreader.toml"))
    found: dict[str, Any] = {}
    try:
        if file is not None or path.exists():
            found = tomllib.loads(path.read_text())
        for name in Settings.__struct_fields__:
            if (text := environment.get(f"REGREADER_{name.upper()}")) is not None:
                found[name] = text.replace(",", " ").split() if name == "enabled_subagents" else text
        found |= {name: value for name, value in arguments.items() if value is not None}
        return msgspec.convert(found, Settings, strict=False)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from None
    except msgspec.ValidationError as error:
        raise SettingsError(f"{error}; settings are {', '.join(Settings.__struct_fields__)}") from None
