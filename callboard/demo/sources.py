"""The facts of Python files and the values of configuration files. Nothing is run."""

import ast
import configparser
import re
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, repeat
from threading import Lock
from typing import Final, TypeAlias

from callboard.demo.inquiry import Line, PythonFile, Setting

_MAIN: Final = ("__name__ == '__main__'", "'__main__' == __name__")
# Python keeps one warnings filter per process, so only one thread at a time may change it.
_QUIET: Final = Lock()
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def printable(text: str) -> str:
    """Escape every character that could move a cursor."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def one_line(text: str, length: int = 160) -> str:
    """Return a text on one printable line, cut to a length."""
    line = printable(" ".join(text[: 4 * length].split()))
    return line if len(line) <= length else line[: length - 1] + "…"


def python_file(path: str, text: str, problem: str = "") -> PythonFile:
    """Return the facts of a source; the problem of one that was not read or does not parse."""
    try:
        tree = _syntax_tree(text)
    except ValueError as error:
        return PythonFile(path, problem=f"{path} is {error}.")
    imports = _imports(tree)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    bases = {node.name: [ast.unparse(base) for base in node.bases] for node in classes}
    tested = {node.name for node in classes if _tests_in(node.body)}
    # Where unittest is imported, a base may be a test case of the project itself, by any name.
    derived = {name for name in tested if bases[name] and "unittest" in imports}
    derived |= {name for name in bases if any(base.endswith("TestCase") for base in bases[name])}
    # A plain class that others derive from is a mixin.
    mixins = {base for each in bases.values() for base in each}
    plain = {name for name in tested - mixins if name.startswith("Test") and not bases[name]}
    mains = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) in _MAIN]
    calls = [node for main in mains for node in ast.walk(main) if isinstance(node, ast.Call)]
    # A script that calls its own tests has no need of a framework.
    own = [] if any(ast.unparse(call.func).startswith("test") for call in calls) else _tests_in(tree.body)
    style, names = "unittest" if derived else "plain tests", derived or plain
    tests = [*(own if not derived else ()), *(node for node in classes if node.name in names)]
    lines = {node.name[:100]: node.lineno for node in tests[:2]}
    main = mains[0].lineno if mains else 0
    few = dict(islice(imports.items(), 60))
    return PythonFile(path, _first_sentence(tree), few, style, lines, main, problem)


def _syntax_tree(text: str) -> ast.Module:
    """Parse a source without warnings about the code of others. Raises ValueError if it does not parse."""
    try:
        with _QUIET, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"not the syntax of this Python: {one_line(str(error))}") from None


def _imports(tree: ast.Module) -> dict[str, int]:
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found["." * node.level + (node.module or "")[:100]] = node.lineno
        elif isinstance(node, ast.Import):
            found.update((alias.name[:100], node.lineno) for alias in node.names)
    return found


def _tests_in(body: Sequence[ast.stmt]) -> list[_Function]:
    return [node for node in body if isinstance(node, _Function) and node.name.startswith("test")]


def _first_sentence(tree: ast.Module) -> str:
    paragraph = (ast.get_docstring(tree) or "").split("\n\n")[0]
    sentence = one_line(paragraph.partition(". ")[0]).rstrip(".")
    return f"{sentence}." if sentence else ""


def settings_of(path: str, text: str, problem: str = "") -> Iterable[Setting]:
    """Return the values of a file, one for each of their lines; one without a key if there is a problem."""
    if problem:
        return [Setting("", "", Line(path, 0, problem), problem)]
    try:
        pairs = list(_flat(_PARSERS.get(path.rpartition(".")[2], tomllib.loads)(text)))
    except (ValueError, configparser.Error, RecursionError) as error:
        return [Setting("", one_line(f"cannot be parsed: {error}"), Line(path, 0, "cannot be parsed"))]
    # One by one, for an answer has no room for all of many, and the place of each is looked for in the text.
    return (Setting(one_line(key), one_line(each), _place(path, key, each, text)) for key, each in pairs)


def _flat(tree: object, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield every scalar with its dotted key, line by line, and an empty table as an empty value."""
    if isinstance(tree, list | tuple):
        tree = dict(enumerate(tree))
    if isinstance(tree, dict) and tree:
        for name, value in tree.items():
            yield from _flat(value, f"{prefix}{name}.")
    else:
        lines = "" if tree == {} else str(tree).strip()
        yield from zip(repeat(prefix[:-1]), map(str.strip, lines.split("\n")))


def _place(path: str, key: str, value: str, text: str) -> Line:
    """Return the place of a setting. Parsers do not tell its line, so its words are looked for."""
    words = [rf"(?=.*(?<!\w){re.escape(word)}(?!\w))" for word in (key.rpartition(".")[2], value)]
    # A value of several lines stands away from its key.
    for pattern in ("".join(words), words[1]):
        found = re.search(rf"^(?![ \t]*[#;]){pattern}", text, re.MULTILINE)
        if found and value:
            line = text.count("\n", 0, found.start()) + 1
            return Line(path, line, f"{one_line(key)} `{one_line(value)}`")
    return Line(path, 0, one_line(key))


def _ini(text: str) -> dict[str, object]:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True, delimiters=("=", ":"))
    parser.read_string(text)
    return {name: {key: value or "" for key, value in parser.items(name)} for name in parser.sections()}


def _setup_call(text: str) -> dict[str, object]:
    """Return the plain keyword arguments of `setup(...)`."""
    calls = (node for node in ast.walk(_syntax_tree(text)) if isinstance(node, ast.Call))
    setups = [node for node in calls if ast.unparse(node.func) in ("setup", "setuptools.setup")]
    return {str(word.arg): _plain(word.value) for node in setups for word in node.keywords}


def _plain(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError):  # it is worked out at run time
        return ""


# By the ending of a file; others are TOML.
_PARSERS: Final[dict[str, Callable[[str], object]]] = {"py": _setup_call, "ini": _ini, "cfg": _ini}
_PARSERS["txt"] = lambda text: {"requirements": text}
