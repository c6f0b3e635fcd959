"""What a version of a file is: there or not, and the same as another or not."""

import pytest

from callboard.actors.protocol.file_versions import FileVersion


@pytest.mark.parametrize(
    ("version", "is_there", "state"),
    [
        (FileVersion("a"), False, ("", 0, False)),
        (FileVersion("a", "d", 5), True, ("d", 5, False)),
        (FileVersion("a", bytes=9, left_out="large"), True, ("large", 9, False)),
        (FileVersion("a", "d", 5, "secret", is_executable=True), True, ("d", 5, True)),
    ],
)
def test_a_version_is_known_by_its_bytes_its_size_and_its_permission(
    version: FileVersion, is_there: bool, state: tuple[str, int, bool]
) -> None:
    assert (version.is_there, version.state) == (is_there, state)
