"""The settings: defaults, then a file, then the environment, then arguments, the last one wins."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec

Given = Mapping[str, Any]
Name = Literal["table", "search", "reference", "discovery"]
NAMES: tuple[Name, ...] = get_args(Name)


class SettingsError(Exception):
    """A setting that cannot be used. Its text names the setting and its place."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of the reader."""

    index: str = "regreader.db"  # the file of the index
    model: str = ""  # such as "anthropic:claude-sonnet-5"; "" for the offline policies
    enable_orchestrator: bool = False  # or ask one agent with all tools
    enabled_subagents: tuple[Name, ...] = ("table", "search", "reference")
    subagent_max_iterations: Annotated[int, msgspec.Meta(ge=1)] = 6  # model calls of each
    orchestrator_mode: Literal["sequential", "parallel"] = "sequential"


def load(arguments: Given, environment: Given = os.environ, file: Path | None = None) -> Settings:
    """Return the settings: arguments but None win over the environment, and that over a file."""
    path, found, settings = file or Path("regreader.toml"), dict[str, Any](), Settings()
    try:
        of_file = tomllib.loads(path.read_text(encoding="utf-8-sig")) if file or path.exists() else {}
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path}: {error}") from None
    named = {key.lower(): value for key, value in environment.items() if key.startswith("REGREADER_")}
    named.pop("regreader_config", None)
    of_environment = {key.removeprefix("regreader_"): value for key, value in named.items()}
    for place, given in ((path, of_file), ("environment", of_environment), ("arguments", arguments)):
        found |= {name: value for name, value in given.items() if value is not None}
        if isinstance(names := found.get("enabled_subagents"), str):
            found["enabled_subagents"] = names.replace(",", " ").split()
        try:
            settings = msgspec.convert(found, Settings, strict=False)
        except msgspec.ValidationError as error:
            known = ", ".join(Settings.__struct_fields__)
            raise SettingsError(f"{place}: {error}; settings are {known}") from None
    return settings
