"""Measure the English of docstrings and comments: `python -m tools.prose_metrics [--worst N] [FOLDER ...]`.

verb      function docstrings whose first word is a verb of VERBS, in percent
cleft     function docstrings that start with a word of CLEFT, in percent
odd       words and clauses of ODD per 1,000 words of docstrings
comments  comments per 100 lines that are not blank; directives for tools do not count
"""

import argparse
import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from tools.odd_words import CLEFT, ODD, VERBS
from tools.sources import ROOT, SHIPPED, python_files, statements

MEASURED: Final = (*SHIPPED, "tools", "tests")
DIRECTIVE: Final = re.compile(r"#\s*(type:|noqa|pragma|fmt:|!)")


class Docstring(NamedTuple):
    """One docstring. where: file and line."""

    where: str
    is_function: bool
    text: str

    @property
    def first_line(self) -> str:
        """Return the line that summarises it."""
        return self.text.strip().split("\n")[0]


@dataclass(frozen=True, slots=True)
class Prose:
    """The English of some files. texts: their sources."""

    docstrings: tuple[Docstring, ...]
    texts: tuple[str, ...]

    @property
    def odd(self) -> float:
        """Return the odd words per 1,000 words of docstrings."""
        return odd_per_1000(" ".join(one.text for one in self.docstrings))

    @property
    def comments(self) -> float:
        """Return the comments per 100 lines that are not blank."""
        lines = sum(bool(line.strip()) for text in self.texts for line in text.splitlines())
        return round(100 * sum(map(_comments, self.texts)) / max(1, lines), 2)

    def share(self, holds: Callable[[str], bool]) -> float:
        """Return the percentage of function docstrings whose first line fulfils a condition."""
        first = [one.first_line for one in self.docstrings if one.is_function]
        return round(100 * sum(map(holds, first)) / max(1, len(first)), 1)

    def figures(self) -> dict[str, float]:
        """Compute the figures that this module describes."""
        return {
            "verb": self.share(starts_with_verb),
            "cleft": self.share(lambda line: CLEFT.match(line) is not None),
            "odd": self.odd,
            "comments": self.comments,
        }


def prose_of(texts: Mapping[str, str]) -> Prose:
    """Collect the English of some files. texts: name -> source."""
    docstrings = (one for name, text in texts.items() for one in _docstrings(text, name))
    return Prose(tuple(docstrings), tuple(texts.values()))


def prose_of_folders(*folders: str) -> Prose:
    """Collect the English of some folders of the repository."""
    paths = [path for folder in folders for path in python_files(ROOT / folder)]
    return prose_of({path.relative_to(ROOT).as_posix(): path.read_text() for path in paths})


def starts_with_verb(line: str) -> bool:
    """Tell whether the first word is a known verb: `Return`, `Returns`, `Match`, `Matches`."""
    found = re.match(r"[A-Za-z]+", line)
    word = found[0].lower() if found else ""
    return bool({word, word.removesuffix("s"), word.removesuffix("es")} & VERBS)


def odd_per_1000(text: str) -> float:
    """Count the words and clauses of ODD per 1,000 words of a text."""
    words = len(re.findall(r"[A-Za-z']+", text))
    return round(1000 * len(ODD.findall(text)) / max(1, words), 2)


def odd_lines(text: str) -> list[str]:
    """List the lines of a text that hold a word of ODD."""
    return [line.strip() for line in text.splitlines() if ODD.search(line)]


def _docstrings(text: str, name: str) -> Iterator[Docstring]:
    for node in statements(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            is_function = not isinstance(node, ast.ClassDef | ast.Module)
            if found := ast.get_docstring(node):
                yield Docstring(f"{name}:{getattr(node, 'lineno', 1)}", is_function, found)


def _comments(text: str) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type == tokenize.COMMENT and not DIRECTIVE.match(token.string) for token in tokens)


def _print_figures(name: str, prose: Prose) -> None:
    print(f"{name:12}", *(f"{figure} {value:<8}" for figure, value in prose.figures().items()))


def main() -> None:
    """Print one line a folder and one for all; with --worst, docstrings to rewrite first."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="*", default=list(MEASURED))
    parser.add_argument("--worst", type=int, default=0, help="name so many docstrings of each kind")
    args = parser.parse_args()
    for folder in args.folders:
        _print_figures(Path(folder).name, prose_of_folders(folder))
    prose = prose_of_folders(*args.folders)
    _print_figures("all", prose)
    no_verb = [one for one in prose.docstrings if one.is_function and not starts_with_verb(one.first_line)]
    odd = [one for one in prose.docstrings if ODD.search(one.text)]
    for one in no_verb[: args.worst]:
        print(f"no verb: {one.where} {one.first_line}")
    for one in odd[: args.worst]:
        print(f"odd: {one.where}", *odd_lines(one.text), sep="\n    ")


if __name__ == "__main__":
    main()
