"""Permissions: which later calls need no further approval, and when a question is over."""

from msgspec.structs import replace

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import ApprovalGiven, RequestApproval
from callboard.actors.session.permissions import Permission, Permissions, expires_at, without_person


def question(
    tool: str = "pay", profile: str = "clerk", *, is_repeat: bool = False, timeout_ms: int = 0
) -> RequestApproval:
    return RequestApproval(1, 0, tool, "write", Json(b"{}"), is_repeat, profile, timeout_ms)


def answer(seq: int, given: ApprovalGiven) -> Event:
    return Event(seq, 0, "approvals", "host", seq - 1, given)


ALWAYS = ApprovalGiven(1, 0, "approved", by="ann", is_always=True)


def held(asked: RequestApproval, given: ApprovalGiven = ALWAYS) -> Permissions:
    made = Permissions()
    made.give(asked, answer(7, given))
    return made


def test_always_covers_the_same_tool_of_the_same_profile_and_nothing_else() -> None:
    made = held(question())
    assert list(made) == [Permission(7, "clerk", "pay", "ann")]
    assert made.covering(question()) == Permission(7, "clerk", "pay", "ann")
    assert made.covering(question(profile="boss")) is None
    assert made.covering(question("send")) is None


def test_an_interrupted_call_is_never_covered_and_gives_no_permission() -> None:
    assert held(question()).covering(question(is_repeat=True)) is None
    assert list(held(question(is_repeat=True))) == []
    assert held(question()).covering(replace(question(), round=1)) is None
    assert list(held(replace(question(), round=1))) == []


def test_permissions_stand_in_the_order_in_which_they_were_given() -> None:
    made = held(question("pay"))
    for seq, tool in ((5, "send"), (9, "call")):
        made.give(question(tool), answer(seq, ALWAYS))
    assert [one.seq for one in made] == [5, 7, 9]


def test_a_denial_and_a_plain_yes_give_no_permission() -> None:
    assert list(held(question(), ApprovalGiven(1, 0, "approved"))) == []
    assert list(held(question(), ApprovalGiven(1, 0, "denied", is_always=True))) == []


def test_a_revoked_permission_covers_nothing_and_another_seq_revokes_nothing() -> None:
    made = held(question())
    made.revoke(6)
    assert made.covering(question()) is not None
    assert [made.seq_of(*who) for who in (("clerk", "pay"), ("boss", "pay"), ("clerk", "send"))] == [7, 0, 0]
    made.revoke(7)
    assert made.covering(question()) is None
    assert made.seq_of("clerk", "pay") == 0


def test_a_second_permission_for_the_same_tool_leaves_the_first() -> None:
    made = held(question())
    made.give(question(), answer(9, ALWAYS))
    assert [one.seq for one in made] == [7]


def request(body: RequestApproval, at: int = 1_000) -> Event:
    return Event(3, at, "host", "approvals", 2, body)


def test_a_question_expires_its_time_after_its_request_and_without_a_time_never() -> None:
    assert expires_at(request(question())) is None
    assert expires_at(request(question(timeout_ms=500))) == 1_500


def test_a_question_is_denied_at_its_time_and_not_a_millisecond_before() -> None:
    asked = request(question(timeout_ms=500))
    assert without_person(asked, 1_499, Permissions()) is None
    post = without_person(asked, 1_500, Permissions())
    assert post is not None
    assert (post.recipient, post.body) == ("host", ApprovalGiven(1, 0, "denied", "expired"))
    again = replace(question(is_repeat=True, timeout_ms=500), round=3)
    post = without_person(request(again), 1_500, Permissions())
    assert post is not None
    assert post.body == ApprovalGiven(1, 0, "denied", "expired", is_repeat=True, round=3)


def test_a_covered_question_is_approved_by_the_permission_even_late() -> None:
    post = without_person(request(question(timeout_ms=500)), 9_999, held(question()))
    assert post is not None
    assert post.body == ApprovalGiven(1, 0, "approved", permission=7)
