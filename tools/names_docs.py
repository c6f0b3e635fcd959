"""The reference of public names: a page for each module, with the signature and one line of each name.

A code host shows these pages as they are. docs/api.md is the same list for the site, which fills it in from
the docstrings when it is built. Signatures are those of the source, so that every Python writes the same.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Final, TypeAlias

from tools.public_names import public_modules
from tools.sources import ROOT

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

_WIDTH: Final = 100


def api_page(notice: str) -> str:
    """Write docs/api.md: every public name, to be filled in from its docstring when the site is built."""
    lines = [
        notice,
        "",
        "# Public names in full",
        "",
        "The site fills this page in from the docstrings.",
        "On a code host, read [the reference](reference/callboard.md), which has a page for each module.",
        "",
    ]
    for module in public_modules():
        lines += [f"## {module.__name__}", *(f"\n::: {place}" for place in _places(module)), ""]
    return "\n".join(lines)


def reference_page(notice: str, name: str) -> str:
    """Write the page of a module: every name with its signature and the first sentence of its docstring."""
    module = next(one for one in public_modules() if one.__name__ == name)
    lines = [notice, "", f"# {name}", "", _sentence(module.__doc__), ""]
    if name == "callboard":
        others = [f"[{one.__name__}]({short(one.__name__)}.md)" for one in public_modules()][1:]
        lines += [
            "Names that are not on these pages can change without notice.",
            "They are for:",
            "",
            *(f"- {other}" for other in others),
            "",
            "The tools that come along are in `callboard.tools.files`, `callboard.tools.memory` and"
            " `callboard.tools.shell`.",
            "",
        ]
    for home, names in sorted(vars(module)["_HOMES"].items()):
        for public in names:
            lines += [f"## {public}", "", *_entry(home, public), ""]
    return "\n".join(lines)


def short(name: str) -> str:
    """Return the last part of a module's name."""
    return name.rpartition(".")[2]


def _places(module: ModuleType) -> Iterator[str]:
    for name in sorted(module.__all__):
        value = getattr(module, name)
        # A module that stands under another name has no entry of its own there.
        yield value.__name__ if inspect.ismodule(value) else f"{module.__name__}.{name}"


def _entry(home: str, name: str) -> Iterator[str]:
    """Yield what the source says about a name: its signature, one line, and its methods."""
    node, text = _definitions(home).get(name, (None, ""))
    if node is None:
        yield _sentence(import_module(f"callboard.{home}.{name}").__doc__)
        return
    yield "```python"
    yield _signed(name, node)
    yield "```"
    if line := _sentence(text):
        yield ""
        yield line
    if isinstance(node, ast.ClassDef) and (rows := list(_members(node))):
        yield ""
        yield from rows


@cache
def _definitions(home: str) -> Mapping[str, tuple[ast.stmt, str | None]]:
    """Return what a module defines at its top, by name, each with its docstring."""
    path = (ROOT / "callboard" / home.replace(".", "/")).with_suffix(".py")
    found: dict[str, tuple[ast.stmt, str | None]] = {}
    body = ast.parse(path.read_text()).body if path.exists() else []
    for node, after in zip(body, [*body[1:], None], strict=False):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                found[node.name] = node, ast.get_docstring(node)
            case ast.Assign(targets=[ast.Name(id=alias)], value=ast.Name(id=other)) if other in found:
                found[alias] = found[other]
            case ast.AnnAssign(target=ast.Name(id=alias)):
                text = after.value if isinstance(after, ast.Expr) else None
                found[alias] = node, str(text.value) if isinstance(text, ast.Constant) else ""
            case _:
                pass
    return found


def _sentence(text: str | None) -> str:
    """Return the first paragraph of a docstring as one line."""
    return " ".join((text or "").strip().split("\n\n")[0].split())


def _signed(name: str, node: ast.stmt) -> str:
    match node:
        case ast.ClassDef():
            return _class(node)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            start = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
            return f"{start} {_call(node, name)}"
        case ast.AnnAssign(value=value) if value is not None:
            return _folded(f"{name} = ", _plain(value))
        case _:
            return name


def _class(node: ast.ClassDef) -> str:
    bases = ", ".join(_plain(base) for base in node.bases)
    making = next((one for one in node.body if isinstance(one, Function) and one.name == "__init__"), None)
    if making is not None:
        return f"class {_call(making, node.name)}"
    fields = [
        f"    {one.target.id}: {_type(one.annotation)}{f' = {_plain(one.value)}' if one.value else ''}"
        for one in node.body
        if isinstance(one, ast.AnnAssign)
        and isinstance(one.target, ast.Name)
        and not one.target.id.startswith("_")
    ]
    head = f"class {node.name}({bases})" if bases else f"class {node.name}"
    return "\n".join([f"{head}:", *fields] if fields else [head])


def _call(node: Function, name: str) -> str:
    """Return a call's form, one parameter a line if it is long."""
    parts = _parameters(node.args)
    ending = f" -> {_type(node.returns)}" if node.returns and _plain(node.returns) != "None" else ""
    line = f"{name}({', '.join(parts)}){ending}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){ending}"])


def _parameters(args: ast.arguments) -> list[str]:
    plain = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(plain) - len(args.defaults)) + list(args.defaults)
    parts = [_parameter(one, default) for one, default in zip(plain, defaults, strict=True)]
    if args.posonlyargs:
        parts.insert(len(args.posonlyargs), "/")
    if args.vararg:
        parts.append(f"*{_parameter(args.vararg, None)}")
    elif args.kwonlyargs:
        parts.append("*")
    parts += [
        _parameter(one, default) for one, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)
    ]
    if args.kwarg:
        parts.append(f"**{_parameter(args.kwarg, None)}")
    return [part for part in parts if part not in {"self", "cls"}]


def _parameter(one: ast.arg, default: ast.expr | None) -> str:
    kind = f": {_type(one.annotation)}" if one.annotation else ""
    value = f" = {_plain(default)}" if default else ""
    return f"{one.arg}{kind}{value}"


def _type(node: ast.expr | None) -> str:
    """Return a type as the source has it, without what `Annotated` adds."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Annotated":
        return _plain(node.slice.elts[0]) if isinstance(node.slice, ast.Tuple) else _plain(node)
    return str(node.value) if isinstance(node, ast.Constant) else _plain(node) if node else ""


def _members(node: ast.ClassDef) -> Iterator[str]:
    for one in node.body:
        if not isinstance(one, Function) or one.name.startswith("_"):
            continue
        line = _sentence(ast.get_docstring(one))
        decorators = {_plain(decorator) for decorator in one.decorator_list}
        if line and not any(name.endswith(("overload", ".setter")) for name in decorators):
            is_property = bool(decorators & {"property", "cached_property"})
            names = ", ".join(part.partition(":")[0].partition(" ")[0] for part in _parameters(one.args))
            start = _start(one)
            yield f"- `{one.name if is_property else f'{start}{one.name}({names})'}`: {line}"


def _start(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return the words before a call of a method: an async generator is iterated over, not awaited."""
    if isinstance(function, ast.FunctionDef):
        return ""
    is_generator = any(isinstance(node, ast.Yield) for node in ast.walk(function))
    return "async for ... in " if is_generator else "await "


def _plain(node: ast.expr) -> str:
    """Return an expression as source, with the quotes that our code has."""
    text = ast.unparse(node)
    return text if '"' in text else text.replace("'", '"')


def _folded(head: str, text: str) -> str:
    return "\n".join(textwrap.wrap(head + text, _WIDTH, subsequent_indent="    ", break_long_words=False))
