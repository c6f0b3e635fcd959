"""Words of a client for a running agent: who takes them, who hears them, who refuses them."""

from callboard.actors.protocol.client_messages import Cancel, Tell, TellEnded
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Delegate, Told, TurnRequested
from callboard.actors.protocol.usage import Need
from callboard.actors.protocol.value_types import Settled
from callboard.actors.supervisor.telling import UNHEARD_MAX
from tests.actors.harness import SessionHarness, said


def session(limits: Limits | None = None) -> SessionHarness:
    head = SessionHarness(limits=limits or Limits()).opens()
    head.asks()
    return head


def ends(posts: list[Post]) -> list[tuple[str, str, int]]:
    """Return the request, the status and the turn of each end of a `Tell`."""
    return [(p.body.request_id, p.body.status, p.body.turn) for p in posts if isinstance(p.body, TellEnded)]


def tells(head: SessionHarness, name: str = "t1", who: str = "host", text: str = "hurry") -> list[Post]:
    return head.hears("client", Tell(name, who, text))


def wants(head: SessionHarness, turn: int, told: int, need: int = 100) -> list[Post]:
    request = TurnRequested(turn, 1, Need(need), "d", settled=Settled(), told=told)
    return head.hears("host", request)


def test_words_go_to_their_agent_and_are_numbered_from_one() -> None:
    head = session()
    assert [one.body for one in tells(head) + tells(head, "t2")] == [Told(1, "hurry"), Told(2, "hurry")]


def test_words_are_heard_with_the_grant_of_the_first_request_that_holds_them() -> None:
    head = session()
    wants(head, 1, 0)
    tells(head)
    tells(head, "t2")
    assert ends(wants(head, 2, 1)) == [("t1", "heard", 2)]
    assert ends(wants(head, 3, 2)) == [("t2", "heard", 3)]
    assert ends(wants(head, 4, 0)) == []


def test_words_wait_for_the_grant_of_a_request_that_waits_in_line() -> None:
    head = session(Limits(max_parallel_calls=1))
    head.hears("host", Delegate(1, 0, ("kid",), text_json("go")))
    head.wants("host.1")
    tells(head)
    assert ends(wants(head, 2, 1)) == []
    assert ends(head.ends("host.1")) == [("t1", "heard", 2)]


def test_words_that_an_agent_did_not_hear_are_refused_at_its_end() -> None:
    head = session()
    wants(head, 1, 0)
    tells(head)
    assert ends(head.ends("host", used=5)) == [("t1", "refused", 0)]


def test_words_are_refused_by_every_kind_of_end() -> None:
    head = session()
    head.hears("host", Delegate(1, 0, ("kid",), text_json("go")))
    tells(head, "t1", "host.1")
    tells(head, "t2")
    posts = head.hears("client", Cancel())
    assert ends(posts) == [("t1", "refused", 0), ("t2", "refused", 0)]
    details = [post.body.detail for post in posts if isinstance(post.body, TellEnded)]
    assert details == [f"{who} ended before it heard this" for who in ("host.1", "host")]
    assert all(not record.unheard.size for who in ("host.1", "host") if (record := head.record(who)))


def test_words_for_an_address_that_is_no_running_agent_are_refused() -> None:
    head = session()
    for address in (
        "host.1",
        "host.7.2",
        "supervisor",
        "host,host.1",
        "",
        "host.",
        "host.x",
        "host.01",
        "host" + ".1" * 9_999,
    ):
        (end,) = tells(head, who=address)
        assert isinstance(end.body, TellEnded)
        assert end.body.status == "refused"
        assert "no running agent" in end.body.detail


def test_words_for_an_idle_host_are_refused_and_name_ask() -> None:
    head = session()
    head.ends("host")
    (end,) = tells(head)
    assert isinstance(end.body, TellEnded)
    assert "use ask" in end.body.detail


def test_an_agent_takes_so_many_unheard_words_and_no_more() -> None:
    head = session()
    for number in range(UNHEARD_MAX):
        assert said(tells(head, f"t{number}")) == ["host:Told"]
    assert said(tells(head, "over")) == ["client:TellEnded"]
    wants(head, 1, 1)
    assert said(tells(head, "again")) == ["host:Told"]


def test_numbers_start_over_in_the_next_life_of_the_host() -> None:
    head = session()
    tells(head)
    head.ends("host")
    head.asks(name="r2")
    assert [one.body for one in tells(head, "t2")] == [Told(1, "hurry")]


def test_a_last_turn_for_words_that_the_budget_refuses_ends_as_the_answer_before() -> None:
    head = session(Limits(tokens=1_000))
    wants(head, 1, 0)
    tells(head)
    request = TurnRequested(2, 1, Need(5_000), "d", settled=Settled(text="42"), told=1, otherwise="answered")
    posts = head.hears("host", request)
    assert said(posts)[:2] == ["host:Stop", "client:TellEnded"]
    assert head.state.ask is not None
    assert head.state.ask.outcome is not None
    assert (head.state.ask.outcome.kind, head.state.ask.outcome.text) == ("answered", "42")
