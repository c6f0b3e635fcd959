"""The texts of a compaction."""

from callboard.actors.protocol.compaction_messages import (
    CLEARED,
    INSTRUCTIONS,
    cleared_result,
    request_for_summary,
)


def test_the_agents_own_instructions_come_before_the_usual_ones() -> None:
    assert request_for_summary("be brief") == "be brief"
    assert request_for_summary("") == INSTRUCTIONS


def test_the_line_for_a_result_names_its_tool_and_size_and_whether_to_call_it_again() -> None:
    read, write = (cleared_result("t" * 101, 1_234, is_read=one) for one in (True, False))
    assert read.startswith(f"{CLEARED}the result of {'t' * 100}, 1,234 bytes. Call it again")
    assert write.startswith(
        f"{CLEARED}the result of {'t' * 100}, 1,234 bytes. The call has been made; do not"
    )
