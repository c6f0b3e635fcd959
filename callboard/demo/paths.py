"""The meaning of a file's path: its language, and whether it is beside the point."""

from typing import Final

PACKAGES: Final = r"(^|/)(pyproject\.toml|setup\.(cfg|py)|Pipfile)$"
MANIFESTS: Final = (
    PACKAGES + r"|(^|/)((tox|\.?pytest)\.ini|[^/]*requirements[^/]*\.txt|requirements/[^/]+\.txt)$"
)
SAMPLES: Final = (
    r"(^|/)(fixtures?|__fixtures__|test[_-]?data|samples?|templates?)/|(^|/)tests?/(data|examples)/"
)
"""Files that tests read: they look like a project, and are not this one."""

ASIDE: Final = SAMPLES + (
    r"|(^|/)\.|(^|/)(?i:tests?|testing|specs?|e2e|examples?|demos?|docs?|docs_src|bench(mark)?(es|s)?|perf|fuzz"
    r"|scripts?|tools?|tooling|ci|hack|misc|contrib|extras|etc|dev|packaging|utils?|migrations)/"
)
"""Files that serve the authors of a project: tests, documents, scripts."""

_CODE: Final = """Python py pyi pyx|Shell sh bash zsh bats|JavaScript js jsx mjs cjs vue|PHP php|Lua lua
TypeScript ts tsx mts cts|Go go|Rust rs|Java java|Kotlin kt kts|Scala scala|Groovy groovy|Clojure clj cljs
C c h m|C++ cc cpp cxx hpp hh hxx|C# cs|F# fs|Ruby rb rake gemspec|Elixir ex exs|Erlang erl hrl|Haskell hs
OCaml ml mli|Swift swift|Dart dart|Perl pl pm t|SQL sql|Julia jl|Zig zig|Nim nim|PowerShell ps1 psm1|R r"""
_OTHER: Final = """HTML html htm|CSS css scss sass less|Markdown md|reStructuredText rst|Text txt|TOML toml
YAML yml yaml|JSON json jsonl|XML xml svg|INI ini cfg|CSV csv tsv|Notebook ipynb|CMake cmake"""


def _by_ending(table: str) -> dict[str, str]:
    rows = (row.split() for row in table.replace("\n", "|").split("|"))
    return {ending: language for language, *endings in rows for ending in endings}


_PROGRAMS: Final = _by_ending(_CODE)
_BY_ENDING: Final = _PROGRAMS | _by_ending(_OTHER)


def language_of(path: str) -> str:
    """Return the language of a file by its name, or `other`."""
    stem, _, ending = path.rpartition("/")[2].rpartition(".")
    return _BY_ENDING.get(ending.lower(), "other") if stem else "other"


def programs(languages: dict[str, int]) -> list[str]:
    """Return the languages in which programs are written, not documents and data, in the same order."""
    return [language for language in languages if language in _PROGRAMS.values()]


def foreign(languages: dict[str, int]) -> list[str]:
    """Return the languages in which programs are written, without Python."""
    return [language for language in programs(languages) if language != "Python"]


def is_foreign(languages: dict[str, int]) -> bool:
    """Return if the language of most programs is not Python."""
    return programs(languages)[:1] not in ([], ["Python"])
