"""Settings of real formats: values that look like others, comments, and files that do not parse."""

import pytest

from callboard.demo.config_files import settings_of


def pairs(path: str, text: str) -> list[tuple[str, str, int]]:
    return [(each.key, each.value, each.line) for each in settings_of(path, text)]


def test_toml_is_flat_with_the_lines_of_its_values() -> None:
    text = '# b = "x:y"\n[a]\nb = "x:y"\nlist = [\n  "one",\n  # "two",\n]\n[empty]\n'
    assert pairs("pyproject.toml", text) == [("a.b", "x:y", 3), ("a.list.0", "one", 5), ("empty", "", 0)]


def test_ini_values_of_several_lines_are_settings_of_their_own() -> None:
    text = "[options.entry_points]\nconsole_scripts =\n    a = a:main\n    # b = b:main\n    c = c:main\n"
    found = pairs("x/setup.cfg", text)
    assert [value for _, value, _ in found] == ["a = a:main", "c = c:main"]
    assert [line for _, _, line in found] == [3, 5]
    assert {key for key, _, _ in found} == {"options.entry_points.console_scripts"}


def test_setup_is_read_without_running_it() -> None:
    text = "import os\nos.abort()\nsetup(name='n', version=read(), scripts=['a'], x={'k': ('v',)})\n"
    assert pairs("setup.py", text) == [
        ("name", "n", 3),
        ("version", "", 0),
        ("scripts.0", "a", 3),
        ("x.k.0", "v", 3),
    ]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("pyproject.toml", "= nothing"),
        ("pyproject.toml", "a = " + "[" * 5_000),
        ("setup.cfg", "no section = here\n"),
        ("setup.py", "setup(\n"),
        ("Pipfile", "[a"),
    ],
)
def test_a_file_that_cannot_be_parsed_is_one_setting_without_a_key(path: str, text: str) -> None:
    ((key, value, line),) = pairs(path, text)
    assert (key, line) == ("", 0)
    assert value.startswith("cannot be parsed: ")
