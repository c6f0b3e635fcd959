"""What a Python file holds, read from its syntax tree, or line by line where it has none."""

import ast
import re
import warnings
from collections.abc import Iterator
from threading import Lock
from typing import Final

from callboard.demo.facts import Class, Function, Imported, PythonFacts
from callboard.demo.names import clipped, printable
from callboard.demo.texts import decoded, lines_in

PARSED_BYTES_MAX: Final = 500_000
LISTED_MAX: Final = 40
NAME_CHARS_MAX: Final = 80
DOCSTRING_CHARS_MAX: Final = 300

_LINE: Final = re.compile(
    r"(?P<import>import[ \t]+(?P<module>[\w.]+)"
    r"|from[ \t]+(?P<source>[\w.]+)[ \t]+import[ \t]+(?P<names>[\w, \t]*))"
    r"|(?:async[ \t]+)?def[ \t]+(?P<function>\w+)"
    r"|class[ \t]+(?P<class>\w+)[ \t]*(?:\((?P<bases>[^)]{0,200})\))?"
)
_quiet = Lock()
"""Python's filter of warnings is one for the process: only one thread at a time turns it down."""


def python_facts(path: str, data: bytes) -> PythonFacts:
    """The facts of a file. A file that does not parse is read line by line, and `problem` says why."""
    lines = lines_in(data)
    if len(data) > PARSED_BYTES_MAX:
        problem = f"{len(data)} bytes are too many to parse; the first {PARSED_BYTES_MAX} were read by line"
        return _by_line(path, decoded(data[:PARSED_BYTES_MAX]), lines, problem)
    try:
        tree = syntax_tree(data)
    except SyntaxError as error:
        where = f" in line {error.lineno}" if error.lineno else ""
        problem = f"no syntax of this Python: {printable(error.msg)}{where}"
        return _by_line(path, decoded(data), lines, problem)
    except (ValueError, RecursionError, MemoryError) as error:
        return _by_line(path, decoded(data), lines, f"cannot be parsed: {type(error).__name__}")
    return _by_tree(path, tree, lines)


def syntax_tree(data: bytes) -> ast.Module:
    """The syntax tree, without warnings about the code of others. Raises what `ast.parse` raises."""
    with _quiet, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(data)


def _by_tree(path: str, tree: ast.Module, lines: int) -> PythonFacts:
    imports = list(_imports(tree))
    top = list(_top(tree.body))
    functions = [_function(node) for node in top if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    classes = [_class(node) for node in top if isinstance(node, ast.ClassDef)]
    main = next((node for node in tree.body if isinstance(node, ast.If) and _is_main(node.test)), None)
    return PythonFacts(
        path=path,
        lines=lines,
        docstring=clipped(printable(ast.get_docstring(tree) or "", keep="\n"), DOCSTRING_CHARS_MAX),
        imports=tuple(imports[:LISTED_MAX]),
        functions=tuple(functions[:LISTED_MAX]),
        classes=tuple(classes[:LISTED_MAX]),
        main_line=main.lineno if main else 0,
        main_calls=tuple(_called(main))[:10] if main else (),
        examples=sum(_examples(node) for node in ast.walk(tree)),
        is_cut=max(len(imports), len(functions), len(classes)) > LISTED_MAX,
    )


def _top(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, those under its `if` and `try` included."""
    waiting = list(reversed(body))
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.If | ast.Try):
            inner = [*node.body, *node.orelse]
            if isinstance(node, ast.Try):
                inner += [line for handler in node.handlers for line in handler.body]
            waiting.extend(reversed(inner))


def _imports(tree: ast.Module) -> Iterator[Imported]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (Imported(clipped(name.name, NAME_CHARS_MAX), node.lineno) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            names = tuple(clipped(name.name, 40) for name in node.names[:6])
            yield Imported(clipped(module, NAME_CHARS_MAX), node.lineno, names)


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Function:
    decorators = tuple(dotted(decorator) for decorator in node.decorator_list[:3])
    return Function(clipped(node.name, NAME_CHARS_MAX), node.lineno, decorators)


def _class(node: ast.ClassDef) -> Class:
    methods = [line.name for line in node.body if isinstance(line, ast.FunctionDef | ast.AsyncFunctionDef)]
    bases = tuple(dotted(base) for base in node.bases[:4])
    tests = sum(name.startswith("test") for name in methods)
    return Class(clipped(node.name, NAME_CHARS_MAX), node.lineno, bases, len(methods), tests)


def dotted(node: ast.expr) -> str:
    """The dotted name in an expression, calls and subscripts taken off; `?` for anything else."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    names.append(node.id if isinstance(node, ast.Name) else "?")
    return clipped(".".join(reversed(names)), NAME_CHARS_MAX)


def _is_main(test: ast.expr) -> bool:
    """Whether this is `__name__ == "__main__"`, either way round."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return False
    sides = (test.left, test.comparators[0])
    is_named = any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides)
    return is_named and any(isinstance(side, ast.Constant) and side.value == "__main__" for side in sides)


def _called(main: ast.If) -> Iterator[str]:
    for statement in main.body:
        yield from (dotted(node.func) for node in ast.walk(statement) if isinstance(node, ast.Call))


def _examples(node: ast.AST) -> int:
    """How many lines of this node's docstring begin with the interpreter's prompt."""
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return 0
    text = ast.get_docstring(node, clean=False) or ""
    return sum(line.lstrip().startswith(">>>") for line in text.splitlines()) if ">>>" in text else 0


def _by_line(path: str, text: str, lines: int, problem: str) -> PythonFacts:
    """What can be told without a syntax tree: lines that begin like an import or a definition."""
    imports: list[Imported] = []
    functions: list[Function] = []
    classes: list[Class] = []
    for number, line in enumerate(text.split("\n"), 1):
        found = _LINE.match(line[:400])
        if not found:
            continue
        if found["import"]:
            names = tuple((found["names"] or "").replace(",", " ").split()[:6])
            imports.append(Imported(found["module"] or found["source"], number, names))
        elif found["function"]:
            functions.append(Function(found["function"], number))
        else:
            bases = tuple(base.strip() for base in (found["bases"] or "").split(",") if base.strip())
            classes.append(Class(found["class"], number, bases[:4]))
    return PythonFacts(
        path=path,
        lines=lines,
        imports=tuple(imports[:LISTED_MAX]),
        functions=tuple(functions[:LISTED_MAX]),
        classes=tuple(classes[:LISTED_MAX]),
        problem=problem,
        is_cut=max(len(imports), len(functions), len(classes)) > LISTED_MAX,
    )
