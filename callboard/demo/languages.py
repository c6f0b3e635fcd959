"""Languages by the names of files."""

from collections.abc import Iterable
from typing import Final

_CODE: Final = {
    "Python": ".py .pyi .pyx",
    "JavaScript": ".js .jsx .mjs .cjs .vue .svelte",
    "TypeScript": ".ts .tsx .mts .cts",
    "Go": ".go",
    "Rust": ".rs",
    "Java": ".java",
    "Kotlin": ".kt .kts",
    "Scala": ".scala",
    "Groovy": ".groovy",
    "Clojure": ".clj .cljs .cljc",
    "C": ".c .h",
    "C++": ".cc .cpp .cxx .hpp .hh .hxx .ino",
    "C#": ".cs",
    "F#": ".fs",
    "Visual Basic": ".vb",
    "Ruby": ".rb .rake .gemspec",
    "PHP": ".php",
    "Elixir": ".ex .exs",
    "Erlang": ".erl .hrl",
    "Haskell": ".hs",
    "OCaml": ".ml .mli",
    "Swift": ".swift",
    "Dart": ".dart",
    "Perl": ".pl .pm .t",
    "Lua": ".lua",
    "Julia": ".jl",
    "R": ".r .R",
    "Zig": ".zig",
    "Nim": ".nim",
    "Shell": ".sh .bash .zsh .bats",
    "PowerShell": ".ps1 .psm1",
    "SQL": ".sql",
}
_OTHER: Final = {
    "HTML": ".html .htm",
    "CSS": ".css .scss .sass .less",
    "Markdown": ".md .markdown",
    "reStructuredText": ".rst",
    "Text": ".txt",
    "JSON": ".json .jsonl .jsonc",
    "YAML": ".yml .yaml",
    "TOML": ".toml",
    "XML": ".xml .svg",
    "INI": ".ini .cfg",
    "CSV": ".csv .tsv",
    "Notebook": ".ipynb",
}
_NAMED: Final = {"Makefile": "Make", "Dockerfile": "Docker", "CMakeLists.txt": "CMake", "Rakefile": "Ruby"}
_BY_SUFFIX: Final = {
    suffix: name for name, suffixes in (_CODE | _OTHER).items() for suffix in suffixes.split()
}

CODE: Final = frozenset(_CODE)
"""The languages in which programs are written, as opposed to documents and data."""


def language_of(name: str) -> str:
    """The language of a file by its name, or nothing."""
    name = name.rpartition("/")[2]
    if name in _NAMED:
        return _NAMED[name]
    stem, dot, suffix = name.rpartition(".")
    if not dot or not stem:
        return ""
    return _BY_SUFFIX.get(f".{suffix}") or _BY_SUFFIX.get(f".{suffix.lower()}", "")


def is_code(name: str) -> bool:
    """Whether a file by its name holds a program."""
    return language_of(name) in CODE


def globs_of(languages: Iterable[str]) -> list[str]:
    """Globs for the files of these languages."""
    both = _CODE | _OTHER
    return [f"*{suffix}" for name in languages for suffix in both.get(name, "").split()]
