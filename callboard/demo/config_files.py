"""The values of configuration files, as flat lists of dotted keys, with the lines they stand on.

TOML, INI and JSON by their parsers; the keyword arguments of `setup()` in a setup.py from its syntax tree,
without running it; `Name: value` lines of a Procfile.
"""

import ast
import configparser
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from callboard.demo.bounds import fitting
from callboard.demo.facts import Setting, Settings
from callboard.demo.names import clipped, printable
from callboard.demo.patterns import any_glob
from callboard.demo.python_source import dotted, syntax_tree
from callboard.demo.texts import decoded

CONFIG_BYTES_MAX: Final = 1_000_000
SETTINGS_MAX: Final = 150
SETTINGS_CHARS_MAX: Final = 30_000
VALUE_CHARS_MAX: Final = 300
KEY_CHARS_MAX: Final = 200
_DEPTH_MAX: Final = 12
_NEAR_LINES: Final = 300
"""How far below its key a value is looked for."""

_LOCATED_LINES_MAX: Final = 5_000
"""In longer files the lines of settings are not looked for."""

Tree: TypeAlias = object
"""What a parser made of a file: dicts and lists of scalars."""


def settings_of(path: str, data: bytes, keys: list[str]) -> Settings:
    """The settings whose keys are one of these or below one of them; all if none are named.

    Raises ValueError for a file of no known format, or one that breaks the rules of its format.
    """
    if len(data) > CONFIG_BYTES_MAX:
        raise ValueError(f"{path}: {len(data)} bytes are too many; at most {CONFIG_BYTES_MAX} are read.")
    text = decoded(data)
    flat = [pair for pair in _flat(_parsed(path, text)) if not keys or _is_under(pair[0], keys)]
    lines = text.split("\n")
    settings = [_setting(key, value, lines) for key, value in flat[:SETTINGS_MAX]]
    shown = fitting(settings, lambda setting: setting.key + setting.value, SETTINGS_CHARS_MAX)
    return Settings(path, shown, len(flat) - len(shown))


def _setting(key: str, value: str, lines: list[str]) -> Setting:
    clean = clipped(printable(value, keep="\n"), VALUE_CHARS_MAX)
    return Setting(clipped(printable(key), KEY_CHARS_MAX), clean, line_of(key, value, lines))


def _is_under(key: str, keys: list[str]) -> bool:
    return any(key == wanted or key.startswith(f"{wanted}.") for wanted in keys)


def _parsed(path: str, text: str) -> Tree:
    name = path.rpartition("/")[2]
    for glob, parse in _FORMATS.items():
        if any_glob((glob,)).search(name.encode()):
            try:
                return parse(text)
            except (ValueError, SyntaxError, configparser.Error, RecursionError, MemoryError) as error:
                why = printable(str(error).split("\n")[0])
                raise ValueError(f"{path} cannot be parsed: {clipped(why, 200)}") from None
    raise ValueError(f"{path}: read as settings are {', '.join(_FORMATS)}.")


def _ini(text: str) -> Tree:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True, delimiters=("=", ":"))
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keys as they are written
    parser.read_string(text)
    return {name: {key: value or "" for key, value in parser.items(name)} for name in parser.sections()}


def _procfile(text: str) -> Tree:
    found = (re.match(r"([\w-]+)\s*:\s*(.+)", line) for line in text.split("\n"))
    return {match[1]: match[2].strip() for match in found if match}


def _setup_call(text: str) -> Tree:
    """The keyword arguments of `setup(...)` whose values are plain."""
    calls = (node for node in ast.walk(syntax_tree(text.encode())) if isinstance(node, ast.Call))
    setup = next((call for call in calls if dotted(call.func).rpartition(".")[2] == "setup"), None)
    if setup is None:
        return {}
    return {word.arg: _literal(word.value) for word in setup.keywords if word.arg}


def _literal(node: ast.expr) -> Tree:
    """A plain value. What is worked out when it runs is left out."""
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {str(key.value): _literal(value) for key, value in pairs if isinstance(key, ast.Constant)}
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [_literal(item) for item in node.elts]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _sections(node.value) if node.value.lstrip().startswith("[") else node.value
    return node.value if isinstance(node, ast.Constant) else None


def _sections(text: str) -> Tree:
    """Entry points may be given as the text of an INI file."""
    try:
        return _ini("\n".join(line.strip() for line in text.split("\n")))
    except configparser.Error:
        return text


_FORMATS: Final[dict[str, Callable[[str], Tree]]] = {
    "{*.toml,Pipfile}": tomllib.loads,
    "{*.json,.mocharc,composer.lock}": json.loads,
    "{*.ini,*.cfg,.coveragerc}": _ini,
    "setup.py": _setup_call,
    "Procfile": _procfile,
}


def _flat(tree: Tree) -> Iterator[tuple[str, str]]:
    """Every scalar with its dotted key, in the order of the file; an empty table as `{}`."""
    waiting: list[tuple[str, Tree, int]] = [("", tree, 0)]
    while waiting:
        key, value, depth = waiting.pop()
        inner = _inner(value)
        if inner is None or depth >= _DEPTH_MAX:
            if value is not None:
                yield key, _scalar(value)
        elif not inner and key:
            yield key, "{}" if isinstance(value, dict) else "[]"
        else:
            prefix = f"{key}." if key else ""
            waiting.extend((f"{prefix}{name}", part, depth + 1) for name, part in reversed(inner))


def _inner(value: Tree) -> list[tuple[str, Tree]] | None:
    if isinstance(value, dict):
        return [(str(name), part) for name, part in value.items()]
    if isinstance(value, list):
        return [(str(number), part) for number, part in enumerate(value)]
    return None


def _scalar(value: Tree) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)[: 10 * VALUE_CHARS_MAX]


def line_of(key: str, value: str, lines: list[str]) -> int:
    """On which line a setting stands, or 0. A search for its words: parsers do not tell.

    The names in the key are looked for one after the other, each from where the one before was found;
    then the value, from there.
    """
    if len(lines) > _LOCATED_LINES_MAX:
        return 0
    at = 0
    for name in _names(key):
        found = _next_with(name, _word(name), lines, at, len(lines))
        if found < 0:
            return 0
        at = found
    head = re.match(r"[^\n\"'\\]{1,40}", value.strip())
    first = head[0].strip() if head else ""
    found = _next_with(first, re.compile(re.escape(first)), lines, at, at + _NEAR_LINES)
    return (found if found >= 0 else at) + 1


def _names(key: str) -> list[str]:
    return [name for name in key.split(".") if name and not name.isdecimal()]


def _word(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")


def _next_with(text: str, pattern: re.Pattern[str], lines: list[str], begin: int, end: int) -> int:
    for at in range(begin, min(end, len(lines))):
        if text in lines[at] and pattern.search(lines[at][:2_000]):
            return at
    return -1
