"""Settings of all formats as flat keys, with the lines they stand on."""

import pytest

from callboard.demo.config_files import CONFIG_BYTES_MAX, SETTINGS_MAX, settings_of


def flat(path: str, text: str, *keys: str) -> list[tuple[str, str, int]]:
    found = settings_of(path, text.encode(), list(keys))
    return [(setting.key, setting.value, setting.line) for setting in found.settings]


def test_toml_is_flat_with_lines() -> None:
    text = """\
[project]
name = "weather"
dependencies = [
    "click",
    "rich>=10",
]

[project.scripts]
weather = "weather.cli:main"

[tool.pytest.ini_options]
addopts = "-q"
[tool.empty]
"""
    assert flat("pyproject.toml", text) == [
        ("project.name", "weather", 2),
        ("project.dependencies.0", "click", 4),
        ("project.dependencies.1", "rich>=10", 5),
        ("project.scripts.weather", "weather.cli:main", 9),
        ("tool.pytest.ini_options.addopts", "-q", 12),
        ("tool.empty", "{}", 13),
    ]


def test_only_the_keys_that_are_asked_for_are_told() -> None:
    text = "[a]\nb = 1\n[ab]\nc = 2\n[a.d]\ne = 3\n"
    assert flat("x.toml", text, "a.d", "ab") == [("a.d.e", "3", 6), ("ab.c", "2", 4)]
    assert flat("x.toml", text, "nothing") == []


def test_ini_keeps_keys_as_they_are_written_and_values_of_many_lines() -> None:
    text = "[tool:pytest]\naddopts = -q\n[options.entry_points]\nconsole_scripts =\n    Fetch = a:run\n"
    assert flat("setup.cfg", text) == [
        ("tool:pytest.addopts", "-q", 2),
        ("options.entry_points.console_scripts", "\nFetch = a:run", 5),
    ]


def test_json_is_flat_with_lines() -> None:
    text = '{\n "name": "x",\n "bin": {"x": "cli.js"},\n "files": [],\n "private": true,\n "n": null\n}'
    assert flat("package.json", text) == [
        ("name", "x", 2),
        ("bin.x", "cli.js", 3),
        ("files", "[]", 4),
        ("private", "true", 5),
    ]


def test_setup_py_is_read_without_being_run() -> None:
    text = """\
import setuptools
raise SystemExit("this must not run")
setuptools.setup(
    name="x",
    version=open("VERSION").read(),
    entry_points={"console_scripts": ["x = x:main"]},
    **more,
)
"""
    assert flat("setup.py", text) == [("name", "x", 4), ("entry_points.console_scripts.0", "x = x:main", 6)]


def test_entry_points_may_be_given_as_the_text_of_an_ini_file() -> None:
    text = (
        "from setuptools import setup\nsetup(entry_points='''\n    [console_scripts]\n    x = x:main\n''')\n"
    )
    assert flat("setup.py", text) == [("entry_points.console_scripts.x", "x:main", 4)]


def test_a_procfile_names_processes() -> None:
    assert flat("Procfile", "web: gunicorn app:app\n# comment\nworker: run\n") == [
        ("web", "gunicorn app:app", 1),
        ("worker", "run", 3),
    ]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.toml", "= x"),
        ("a.toml", "x = " + "[" * 10_000),
        ("a.json", "{'a': 1}"),
        ("a.json", "[" * 100_000),
        ("a.ini", "no section"),
        ("setup.py", "def ("),
        ("setup.py", "x = '\0'"),
        ("a.yaml", "a: b"),
    ],
)
def test_what_breaks_the_rules_of_its_format_is_refused_in_words(path: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be parsed|are read as settings|read as settings are"):
        settings_of(path, text.encode(), [])


def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="too many"):
        settings_of("a.json", b" " * (CONFIG_BYTES_MAX + 1), [])


def test_what_is_left_out_is_counted() -> None:
    found = settings_of("a.toml", "\n".join(f"k{n} = {n}" for n in range(SETTINGS_MAX + 7)).encode(), [])
    assert (len(found.settings), found.more) == (SETTINGS_MAX, 7)


def test_deep_settings_are_cut_and_not_walked_for_ever() -> None:
    text = '{"a":' * 50 + "1" + "}" * 50
    (setting,) = settings_of("a.json", text.encode(), []).settings
    assert setting.key.count(".") == 11
