"""The values of configuration files, as flat lists of dotted keys."""

import ast
import configparser
import re
import tomllib
from collections.abc import Callable, Iterator
from itertools import repeat

from callboard.demo.facts import Setting
from callboard.demo.python_source import syntax_tree
from callboard.demo.text import one_line


def settings_of(path: str, text: str, problem: str = "") -> list[Setting]:
    """Return the values of a file, one for each of their lines; one without a key if it cannot be parsed."""
    try:
        pairs = list(_flat(_parser_of(path)(text)))
    except (ValueError, configparser.Error, RecursionError) as error:
        return [Setting(path, "", one_line(problem or f"cannot be parsed: {error}"))]
    return [Setting(path, one_line(key), one_line(each), _line_of(key, each, text)) for key, each in pairs]


def _parser_of(path: str) -> Callable[[str], object]:
    if path.endswith(".py"):
        return _setup_call
    return _ini if path.endswith((".ini", ".cfg")) else tomllib.loads


def _flat(tree: object, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield every scalar with its dotted key, line by line, and an empty table as an empty value."""
    if isinstance(tree, list | tuple):
        tree = dict(enumerate(tree))
    if tree == {}:
        tree = ""
    if not isinstance(tree, dict):
        yield from zip(repeat(prefix[:-1]), map(str.strip, str(tree).strip().split("\n")))
        return
    for name, value in tree.items():
        yield from _flat(value, f"{prefix}{name}.")


def _line_of(key: str, value: str, text: str) -> int:
    """Return the line of a setting, or 0. Parsers do not tell it, so its words are looked for."""
    words = [rf"(?=.*(?<!\w){re.escape(word)}(?!\w))" for word in (key.rpartition(".")[2], value)]
    # A value of several lines stands away from its key.
    for pattern in ("".join(words), words[1]):
        found = re.search(rf"^(?![ \t]*[#;]){pattern}", text, re.MULTILINE)
        if found and value:
            return text.count("\n", 0, found.start()) + 1
    return 0


def _ini(text: str) -> dict[str, object]:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True, delimiters=("=", ":"))
    parser.read_string(text)
    return {name: {key: value or "" for key, value in parser.items(name)} for name in parser.sections()}


def _setup_call(text: str) -> object:
    """Return the plain keyword arguments of `setup(...)`, without running the file."""
    calls = (node for node in ast.walk(syntax_tree(text)) if isinstance(node, ast.Call))
    setups = [node for node in calls if ast.unparse(node.func) in ("setup", "setuptools.setup")]
    return {str(word.arg): _plain(word.value) for node in setups for word in node.keywords}


def _plain(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError):  # it is worked out at run time
        return ""
