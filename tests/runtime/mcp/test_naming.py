"""Names of tools: legal and injective for every list of a server."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from callboard.actors.protocol.prompts import RESERVED
from callboard.runtime.mcp.naming import legal_name

names = st.one_of(st.text(), st.from_regex(r"[a-zA-Z0-9_./-]{0,80}", fullmatch=True))


@given(st.sampled_from(["", "fs_", "x" * 32]), st.lists(names, unique=True))
@example("", ["a.b", legal_name("", "a.b"), "a/b", "a\x00b", "a\u202eb", "", "task", "report_back", "\ud800"])
def test_any_names_become_legal_ones_of_their_own(prefix: str, given_names: list[str]) -> None:
    found = [legal_name(prefix, name) for name in given_names]
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in found)
    assert len(set(found)) == len(found)
    assert not RESERVED & set(found)


def test_a_legal_name_stays() -> None:
    assert legal_name("", "read_file") == "read_file"
    assert legal_name("fs_", "read-File2") == "fs_read-File2"


def test_an_encoded_name_is_encoded_again_and_so_cannot_be_forged() -> None:
    encoded = legal_name("", "notes/read.all")
    assert encoded.startswith("notes_read_all_")
    assert legal_name("", encoded) != encoded
