import asyncio
import copy
import pickle
from pathlib import Path

import pytest

from callboard.actors.protocol.errors import MisuseError, UnknownName
from callboard.runtime.secrets.refs import MAX_CHARS, SecretPattern, SecretRef, checked_value
from tests.tables import table


def test_a_reference_reads_the_variable_of_its_name_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ref = SecretRef("DOOR_CODE")
    monkeypatch.setenv("DOOR_CODE", "first value")
    assert ref.resolve() == "first value"
    monkeypatch.setenv("DOOR_CODE", "second value")
    assert ref.resolve() == "second value"


def test_a_reference_reads_another_variable_a_file_or_a_function(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OTHER", "from other")
    (tmp_path / "secret").write_text("from a file\n")
    assert SecretRef("A", env="OTHER").resolve() == "from other"
    assert SecretRef("A", file=tmp_path / "secret").resolve() == "from a file"
    assert SecretRef("A", get=lambda: "from a vault").resolve() == "from a vault"


def test_a_reference_never_shows_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOOR_CODE", "open-sesame")
    ref = SecretRef("DOOR_CODE")
    ref.resolve()
    assert repr(ref) == str(ref) == "SecretRef('DOOR_CODE')"
    assert "open-sesame" not in f"{ref!r} {copy.copy(ref)!r} {SecretRef.__slots__}"
    with pytest.raises((AttributeError, TypeError, pickle.PicklingError)):
        pickle.dumps(SecretRef("A", get=lambda: "open-sesame"))


def test_a_value_that_cannot_be_read_is_reported_without_the_sources_own_words(tmp_path: Path) -> None:
    def broken() -> str:
        raise RuntimeError("vault said: open-sesame")

    for ref in (
        SecretRef("NO_SUCH_VARIABLE_HERE"),
        SecretRef("A", file=tmp_path / "none"),
        SecretRef("A", get=broken),
    ):
        with pytest.raises(UnknownName, match="cannot be read") as caught:
            ref.resolve()
        assert "open-sesame" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__


@table("value", ["", "short", "     x     ", "x" * (MAX_CHARS + 1), 5, None, b"bytes-value"])
def test_a_value_that_cannot_be_looked_for_is_refused_and_not_shown(value: object) -> None:
    with pytest.raises(MisuseError, match="secret DOOR") as caught:
        checked_value("DOOR", value)
    assert "xx" not in str(caught.value)


@table("name", ["", "a b", "a]", "a\n", "x" * 65, None, 5])
def test_a_name_stands_in_the_log_and_is_plain(name: object) -> None:
    with pytest.raises(MisuseError, match="name has 1 to 64"):
        SecretRef(name)  # type: ignore[arg-type]  # a wrong value on purpose


def test_a_reference_has_one_place() -> None:
    with pytest.raises(MisuseError, match="give one of"):
        SecretRef("A", env="B", file="c")


@table("pattern", ["^EMP-[0-9]+", "EMP-[0-9]+$", r"\AEMP", r"EMP\z", r"(?m)(^|,)EMP-1"])
def test_a_pattern_is_not_tied_to_the_ends_of_a_text(pattern: str) -> None:
    with pytest.raises(MisuseError, match="may stand anywhere"):
        SecretPattern("id", pattern)


@pytest.mark.parametrize("pattern", [r"\^EMP\$", "[^a-z]EMP[$^]", r"\bEMP-[0-9]+\b", r"EMP[]^a]x"])
def test_signs_that_only_look_like_the_ends_of_a_text_are_allowed(pattern: str) -> None:
    assert SecretPattern("id", pattern).name == "id"


@table("pattern", ["(", "(?=x)y", "(a)\\1", "a*", "(a)(b)", "\ud800", "x|"])
def test_a_pattern_that_cannot_work_is_refused(pattern: str) -> None:
    with pytest.raises(MisuseError, match="secret id"):
        SecretPattern("id", pattern)


def test_a_file_is_read_off_the_loop_as_well() -> None:
    async def run() -> str:
        return await asyncio.to_thread(SecretRef("A", get=lambda: "from a thread").resolve)

    assert asyncio.run(run()) == "from a thread"
