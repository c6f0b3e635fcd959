"""Which folders are not looked into, as they hold nothing that the folder's authors wrote by hand.

A skipped folder is named in every answer that it is missing from. `venv`, `build` or `vendor` may as well
be the name of a module, so such names count only with a witness: a file in it, or one beside it.
"""

from collections.abc import Collection
from typing import Final

_BY_REASON: Final = {
    "version control": ".git .hg .svn .bzr _darcs",
    "installed packages": (
        "node_modules bower_components jspm_packages site-packages dist-packages .venv .eggs .yarn "
        ".pnpm-store .bundle .dart_tool elm-stuff .stack-work .direnv Pods"
    ),
    "copies of other projects": "third_party thirdparty third-party 3rdparty _vendor vendored",
    "a cache": (
        "__pycache__ .mypy_cache .ruff_cache .pytest_cache .hypothesis .tox .nox .cache .gradle .terraform "
        ".ipynb_checkpoints .zig-cache zig-cache .parcel-cache .turbo .idea"
    ),
    "built": ".next .nuxt .svelte-kit .output .build _build DerivedData htmlcov",
}
_NAMES: Final = {name: why for why, names in _BY_REASON.items() for name in names.split()}
_SUFFIXES: Final = {".egg-info": "built", ".dist-info": "installed packages", ".egg": "installed packages"}

_INSIDE: Final = {
    "pyvenv.cfg": "installed packages",
    "conda-meta": "installed packages",
    "CACHEDIR.TAG": "a cache",
    "CMakeCache.txt": "built",
}
_PROJECT: Final = frozenset(
    ("setup.py", "setup.cfg", "pyproject.toml", "package.json", "build.gradle", "build.gradle.kts")
)
_BESIDE: Final = {
    "build": ("built", _PROJECT | {"CMakeLists.txt", "pubspec.yaml", "gradlew"}),
    "dist": ("built", _PROJECT),
    "coverage": ("built", frozenset({"package.json"})),
    "target": ("built", frozenset({"Cargo.toml", "pom.xml", "build.sbt", "project.clj"})),
    "deps": ("installed packages", frozenset({"mix.exs", "rebar.config"})),
    "vendor": (
        "copies of other projects",
        frozenset(("go.mod", "composer.json", "Gemfile", "Cargo.toml", "package.json", "CMakeLists.txt")),
    ),
    "external": ("copies of other projects", frozenset({"CMakeLists.txt"})),
    "extern": ("copies of other projects", frozenset({"CMakeLists.txt"})),
}


def by_name(name: str) -> str:
    """Why a folder of this name is never looked into, or nothing."""
    return _NAMES.get(name) or next((why for end, why in _SUFFIXES.items() if name.endswith(end)), "")


def by_siblings(name: str, siblings: Collection[str]) -> str:
    """Why a folder is probably not looked into, by what lies beside it, or nothing."""
    why, witnesses = _BESIDE.get(name, ("", frozenset()))
    if any(witness in siblings for witness in witnesses):
        return why
    if name in ("bin", "obj") and any(sibling.endswith((".csproj", ".fsproj")) for sibling in siblings):
        return "built"
    return ""


def by_contents(names: Collection[str], suspected: str) -> str:
    """Why a folder with these entries is not looked into. suspected: what its siblings say of it."""
    for witness, why in _INSIDE.items():
        if witness in names:
            return why
    return "" if "__init__.py" in names else suspected
