"""How a program shows where it begins: tables for packaging metadata and for sources.

rank: the lower, the plainer. From `DOUBTFUL` on, a candidate stands only if it is the only one.
"""

from typing import Final, NamedTuple


class Key(NamedTuple):
    """Settings that name an entry point: the name of the file, and a pattern of the dotted key."""

    file: str
    pattern: str
    kind: str
    rank: int


class Line(NamedTuple):
    """Lines that name an entry point, by their first group, or are one."""

    files: str
    pattern: str
    kind: str
    rank: int


DOUBTFUL: Final = 5
CONSOLE_SCRIPT: Final = "console script"
GUI_SCRIPT: Final = "gui script"
MAIN_MODULE: Final = "package run with python -m"
SCRIPT: Final = "script"
NOTHING: Final = "none"

METADATA_KEYS: Final = (
    Key("pyproject.toml", r"^project\.scripts\.(?P<name>.+)$", CONSOLE_SCRIPT, 0),
    Key(
        "pyproject.toml",
        r"^tool\.poetry\.scripts\.(?P<name>[^.]+)(?:\.(?:reference|callable))?$",
        CONSOLE_SCRIPT,
        0,
    ),
    Key("pyproject.toml", r"^tool\.flit\.scripts\.(?P<name>.+)$", CONSOLE_SCRIPT, 0),
    Key("pyproject.toml", r"^project\.gui-scripts\.(?P<name>.+)$", GUI_SCRIPT, 1),
    Key("setup.cfg", r"^options\.entry_points\.console_scripts$", CONSOLE_SCRIPT, 0),
    Key("setup.cfg", r"^options\.entry_points\.gui_scripts$", GUI_SCRIPT, 1),
    Key("setup.cfg", r"^options\.scripts$", SCRIPT, 1),
    Key("setup.py", r"^entry_points\.console_scripts\b", CONSOLE_SCRIPT, 0),
    Key("setup.py", r"^entry_points\.gui_scripts\b", GUI_SCRIPT, 1),
    Key("setup.py", r"^scripts\.\d+$", SCRIPT, 1),
    Key("package.json", r"^bin(?:\.(?P<name>.+))?$", "npm command", 0),
    Key("package.json", r"^scripts\.start$", "npm start", 2),
    Key("package.json", r"^main$", "npm module", 3),
    Key("package.json", r"^(?:module|exports(?:\.\.)?(?:\.(?:import|require|default))*)$", "npm module", 4),
    Key("deno.json", r"^tasks\.start$", "deno task", 2),
    Key("Cargo.toml", r"^(?:bin\.\d+\.name|package\.default-run)$", "cargo binary", 0),
    Key("composer.json", r"^bin(?:\.\d+)?$", "composer command", 0),
    Key("Procfile", r"^(?P<name>web|worker|main)$", "process", 2),
)

METADATA_FILES: Final = {
    "pyproject.toml": (
        *("project.name", "project.scripts", "project.gui-scripts"),
        *("tool.poetry.name", "tool.poetry.scripts", "tool.flit.scripts"),
    ),
    "setup.cfg": ("metadata.name", "options.entry_points", "options.scripts"),
    "setup.py": ("name", "entry_points", "scripts"),
    "package.json": ("name", "bin", "main", "module", "exports", "scripts.start"),
    "deno.json": ("name", "tasks.start"),
    "Cargo.toml": ("package.name", "package.default-run", "bin"),
    "composer.json": ("name", "bin"),
    "Procfile": (),
}
"""Which settings are read of each kind of file."""

RUST_MAIN: Final = "{src/main.rs,**/src/main.rs,**/src/bin/**/*.rs}"

METADATA_LINES: Final = (
    Line("pom.xml", r"<(?:mainClass|start-class)>[ \t]*([\w.$]+)", "main class", 1),
    Line("*.{gradle,gradle.kts,sbt}", r"\bmainClass(?:Name)?\b[^\"'\n]*[\"']([\w.$]+)[\"']", "main class", 1),
    Line("*.{csproj,fsproj}", r"<OutputType>[ \t]*(?:Win)?Exe\b", ".NET program", 1),
    Line("mix.exs", r"\bmain_module:[ \t]*([\w.]+)", "escript", 0),
    Line("mix.exs", r"\bmod:[ \t]*\{[ \t]*([\w.]+)", "OTP application", 1),
    Line(
        "*.gemspec", r"\.executables[ \t]*(?:\+?=|<<)[ \t]*(?:%w\[|\[)?[ \t]*[\"']?([\w-]+)", "gem command", 0
    ),
    Line("*.cabal", r"^executable[ \t]+(\S+)", "cabal executable", 1),
    Line("CMakeLists.txt", r"^[ \t]*add_executable[ \t]*\([ \t]*([\w.-]+)", "CMake executable", 1),
    Line("meson.build", r"\bexecutable[ \t]*\([ \t]*'([^']+)'", "Meson executable", 1),
    Line(RUST_MAIN, r"^[ \t]*(?:pub[ \t]+)?(?:async[ \t]+)?fn[ \t]+main[ \t]*\(", "cargo binary", 1),
    Line("{Dockerfile,Containerfile}", r"^(?:CMD|ENTRYPOINT)[ \t]+(.+)$", "container command", 4),
)
"""Cargo takes `src/main.rs` for a binary without being told, so it counts as metadata too."""

_SCRIPTED: Final = "*.{js,ts,mjs,cjs,mts,cts,jsx,tsx}"
_PROGRAMS: Final = "{**/*.sh,**/*.bash,**/*.pl,**/*.rb,**/{bin,exe}/*}"
_SERVERS: Final = "FastAPI|Flask|Starlette|Sanic|Quart|Litestar"

SOURCE_LINES: Final = (
    Line(
        "*.py",
        r"^if[ \t(]+(?:__name__[ \t]*==[ \t]*[\"']__main__[\"']|[\"']__main__[\"'][ \t]*==[ \t]*__name__)",
        SCRIPT,
        2,
    ),
    Line("*.py", rf"^\w+[ \t]*(?::[^=\n]+)?=[ \t]*(?:\w+\.)?(?:{_SERVERS})\(", "web application", 4),
    Line("*.go", r"^func[ \t]+main\(\)", "Go program", 1),
    Line(RUST_MAIN, r"^[ \t]*(?:pub[ \t]+)?(?:async[ \t]+)?fn[ \t]+main[ \t]*\(", "Rust program", 1),
    Line(
        "*.{java,groovy}",
        r"^[^*/\n]*\bstatic[ \t]+(?:final[ \t]+)?void[ \t]+main[ \t]*\(",
        "Java main class",
        1,
    ),
    Line("*.kt", r"^(?:suspend[ \t]+)?fun[ \t]+main[ \t]*\(", "Kotlin program", 1),
    Line("*.scala", r"^[ \t]*object[ \t]+\w+[ \t]+extends[ \t]+(?:\w*App\w*)\b|^@main\b", "Scala program", 1),
    Line(
        "*.{c,cc,cpp,cxx,m,mm}",
        r"^[ \t]*(?:int|auto|void)[ \t]+(?:w?main|WinMain)[ \t]*\(",
        "C or C++ program",
        1,
    ),
    Line(
        "*.cs",
        r"\bstatic[ \t]+(?:async[ \t]+)?(?:void|int|Task(?:<int>)?)[ \t]+Main[ \t]*\(",
        ".NET program",
        1,
    ),
    Line("*.fs", r"^[ \t]*\[<EntryPoint>\]", ".NET program", 1),
    Line("*.swift", r"^@main\b", "Swift program", 1),
    Line("*.dart", r"^(?:(?:Future<void>|void)[ \t]+)?main[ \t]*\(", "Dart program", 1),
    Line("*.hs", r"^main[ \t]*::", "Haskell program", 1),
    Line("*.zig", r"^pub[ \t]+fn[ \t]+main[ \t]*\(", "Zig program", 1),
    Line("*.nim", r"^when[ \t]+isMainModule\b", "Nim program", 2),
    Line(
        _PROGRAMS,
        r"^if[ \t]+(?:__FILE__[ \t]*==[ \t]*\$|\$(?:0|PROGRAM_NAME)[ \t]*==[ \t]*__FILE__)",
        SCRIPT,
        2,
    ),
    Line(_PROGRAMS, r"^#!.*\b(?:sh|bash|zsh|perl|ruby|node|python[\d.]*)\b", SCRIPT, 2),
    Line(
        _SCRIPTED, r"^[^*/\n]*(?:\brequire\.main[ \t]*===?[ \t]*module\b|\bimport\.meta\.main\b)", SCRIPT, 2
    ),
    Line(_SCRIPTED, r"^#!.*\b(?:node|bun|deno|tsx)\b", SCRIPT, 2),
    Line(_SCRIPTED, r"^[^*/\n]*\b(?:app|server|httpServer)\.listen\(", "server", 3),
    Line(
        _SCRIPTED, r"^[^*/\n]*\b(?:createRoot|ReactDOM\.render|createApp|bootstrapApplication)\(", "page", 4
    ),
)

SOURCE_FILES: Final = {
    "__main__.py": (MAIN_MODULE, 0),
    "manage.py": ("Django's command", 1),
    "Program.cs": (".NET program", 1),
    "main.swift": ("Swift program", 1),
    "artisan": ("Laravel's command", 1),
    "config.ru": ("Rack application", 3),
    "index.php": ("page", 4),
    "index.html": ("page", 6),
}
"""Files that are entry points by their names."""

USUAL_NAMES: Final = ("main", "app", "cli", "run", "server", "start", "wsgi", "asgi", "index")
"""Names of files that are meant to be run, the most telling first."""
