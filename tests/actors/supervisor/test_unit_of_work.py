"""The unit of work: the tree during a decision, and the verdicts on schemas."""

from msgspec.structs import replace

from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Delegate
from callboard.actors.protocol.port_messages import CancelTimer, SetTimer
from callboard.actors.supervisor.state import AskOutcome, SupervisorState, Timer
from callboard.actors.supervisor.unit_of_work import UnitOfWork
from tests.actors.harness import SessionHarness
from tests.tables import table


def two_deep() -> UnitOfWork:
    head = SessionHarness().opens()
    head.asks(limits=Limits(schema_timeout_s=4))
    for who in ("host", "host.1"):
        head.hears(who, Delegate(1, 0, ("kid",), text_json("go")))
    return UnitOfWork(head.state, 9)


def test_a_chain_goes_from_the_host_down() -> None:
    ancestry = two_deep().ancestry("host.1.1")
    assert ancestry is not None
    assert [record.address for record in ancestry] == ["host", "host.1", "host.1.1"]


@table("address", ["host.2", "host.1.1.1", "client", "supervisor", "tools", ""])
def test_an_address_outside_the_tree_has_no_record(address: str) -> None:
    assert two_deep().ancestry(address) is None
    assert two_deep().record(address) is None


def test_before_the_first_ask_no_agent_has_a_record() -> None:
    assert UnitOfWork(SupervisorState(), 1).ancestry("host") is None


def test_editing_one_agent_leaves_all_others_as_they_were() -> None:
    before = two_deep().commit()
    work = UnitOfWork(before, 9)
    work.update_record("host.1.1", text="thought")
    work.update_record("host.7", text="nobody")
    after = work.commit()
    changed = UnitOfWork(after, 10).record("host.1.1")
    assert changed is not None
    assert changed.text == "thought"
    assert UnitOfWork(before, 9).record("host.1.1") != changed
    work = UnitOfWork(after, 10)
    work.update_record("host.1.1", text="")
    assert work.commit() == before


def test_a_commit_copies_only_what_changed_and_what_stands_above_it() -> None:
    before = two_deep().commit()
    work = UnitOfWork(before, 9)
    assert (work.seq, UnitOfWork(before).seq) == (9, 0)
    assert work.ancestry("host.1.1") is not None
    work.update_record("host", text="thought")
    after = work.commit()
    assert before.host is not None
    assert after.host is not None
    assert after.host.text == "thought"
    assert after.host.children is before.host.children


def test_while_a_decision_is_made_the_state_has_the_tree_of_before() -> None:
    work = two_deep()
    before = work.state.host
    work.update_record("host", text="thought")
    work.in_flight += 1
    assert work.state.host is before
    after = work.commit()
    assert after.host is not None
    assert (after.host.text, after.in_flight) == ("thought", 1)


def test_a_record_that_was_not_changed_is_put_back_as_it_was() -> None:
    before = two_deep().commit()
    work = UnitOfWork(before, 9)
    assert work.ancestry("host.1.1") is not None
    assert work.commit().host is before.host
    assert work.take_posts() == ()


def test_the_posts_of_one_decision_are_not_those_of_the_next() -> None:
    work = two_deep()
    work.post("host", CancelTimer(1))
    assert [post.body for post in work.take_posts()] == [CancelTimer(1)]
    work.post("host.1", CancelTimer(2))
    assert [post.body for post in work.take_posts()] == [CancelTimer(2)]
    assert work.take_posts() == ()


def test_an_agent_is_added_and_removed_under_its_parent_beside_other_changes() -> None:
    work = two_deep()
    grandchild = work.record("host.1.1")
    assert grandchild is not None
    work.update_record("host.1.1", text="last words")
    work.remove(grandchild)
    assert work.record("host.1.1") is None
    work.add(replace(grandchild, address="host.1.2", ordinal=2))
    work.update_record("host.1.2", text="first words")
    work.update_record("host", text="meanwhile")
    after = UnitOfWork(work.commit(), 10)
    told = [record.text for record in after.ancestry("host.1.2") or []]
    assert told == ["meanwhile", "", "first words"]
    assert after.record("host.1.1") is None


def test_agents_may_nest_deeper_than_python_calls() -> None:
    head = SessionHarness().opens()
    head.asks()
    work = UnitOfWork(head.state, 9)
    record = work.record("host")
    assert record is not None
    for _ in range(2_000):
        record = replace(record, address=f"{record.address}.1", ordinal=1)
        work.add(record)
    after = UnitOfWork(work.commit(), 10)
    assert len(after.ancestry(record.address) or []) == 2_001


def test_the_delegation_of_the_client_is_the_ask_that_runs() -> None:
    assert UnitOfWork(SupervisorState()).delegation("client", 1) is None
    work = two_deep()
    ask = work.state.ask
    assert ask is not None
    key = ask.delegation.key
    assert work.delegation("client", key) is ask.delegation
    assert work.delegation("client", key + 1) is None
    work.update_session(ask=replace(ask, outcome=AskOutcome("answered", 9)))
    assert work.delegation("client", key) is None


def test_a_changed_delegation_is_stored_with_its_parent_if_that_is_there() -> None:
    work = two_deep()
    host = work.record("host")
    assert host is not None
    (one,) = host.delegations.values()
    for parent in ("host", "host.9"):
        work.put_delegation(parent, replace(one, text="so far"))
    assert work.delegation("host", one.key) == replace(one, text="so far")
    assert work.delegation("host.9", one.key) is None
    ask = work.state.ask
    assert ask is not None
    work.put_delegation("client", replace(ask.delegation, text="of the ask"))
    assert work.delegation("client", ask.delegation.key) == replace(ask.delegation, text="of the ask")


def test_only_a_program_has_places_to_free() -> None:
    work = two_deep()
    for who, places in (("host", 5), ("host.9", 1)):
        work.free_places(who, places)
    assert work.take_freed() == []
    host = work.record("host")
    assert host is not None
    assert host.turn_children == 1
    work.put_record(replace(host, profile=replace(host.profile, turns="any"), turn_children=3))
    work.free_places("host", 2)
    host = work.record("host")
    assert host is not None
    assert (host.turn_children, work.take_freed(), work.take_freed()) == (1, ["host"], [])


def test_limits_are_those_of_the_agent_of_the_ask_or_of_the_session() -> None:
    work = two_deep()
    assert [work.limits_of(who).schema_timeout_s for who in ("client", "host.1", "host.9")] == [4, 4, 5]
    work.update_session(ask=None)
    assert work.limits_of("client").schema_timeout_s == 5


def test_a_schema_is_known_by_its_bytes() -> None:
    work = two_deep()
    schema, same, other = Json(b'{"a":1}'), Json(b'{"a":1}'), Json(b'{"a": 1}')
    assert not work.has_accepted(schema)
    key = work.begin_schema_check(schema, 7, 5_000)
    assert work.schema_verdict(same) == work.schema_verdict(schema)
    assert (work.schema_verdict(other), work.has_accepted(schema)) == (None, False)
    work.finish_schema_check(key, 7, is_good=True)
    assert (work.has_accepted(same), work.has_accepted(other)) == (True, False)
    for number in range(500):
        work.finish_schema_check(
            work.begin_schema_check(Json(b"%d" % number), number, 1), number, is_good=number % 2 == 0
        )
    assert work.has_accepted(schema)
    assert all(work.has_accepted(Json(b"%d" % number)) == (number % 2 == 0) for number in range(500))


def test_schemas_with_the_same_key_take_turns() -> None:
    # These two digests begin with the same 20 bits.
    work, first, second = two_deep(), Json(b'{"a":109}'), Json(b'{"a":1368}')
    key = work.begin_schema_check(first, 1, 5_000)
    verdict = work.schema_verdict(first)
    assert verdict is not None
    assert (key.bit_length(), len(verdict.digest)) == (20, 16)
    assert work.schema_verdict(second) is None
    assert work.begin_schema_check(second, 2, 5_000) == key
    assert work.schema_verdict(first) is None
    work.finish_schema_check(key, 2, is_good=True)
    assert (work.has_accepted(first), work.has_accepted(second)) == (False, True)


def test_a_check_of_a_schema_that_is_gone_changes_nothing() -> None:
    work = two_deep()
    before = work.state
    work.finish_schema_check(5, 1, is_good=True)
    assert work.state is before


def test_a_check_that_another_has_followed_says_nothing_any_more() -> None:
    work, schema = two_deep(), Json(b'{"a":1}')
    key = work.begin_schema_check(schema, 7, 5_000)
    work.begin_schema_check(schema, 8, 6_000)
    work.finish_schema_check(key, 7, is_good=True)
    assert not work.has_accepted(schema)
    work.finish_schema_check(key, 8, is_good=False)
    assert work.schema_verdict(schema) is None


def test_timers_are_numbered_and_taken_back_once() -> None:
    work = two_deep()
    number = work.set_timer(Timer("grace"), 20)
    for _ in range(2):
        work.cancel_timer(number)
    work.cancel_timer(0)
    assert [post.body for post in work.posts] == [SetTimer(number, 20), CancelTimer(number)]


def test_timers_are_numbered_one_by_one() -> None:
    work = two_deep()
    first = work.state.next_timer
    timers = [Timer("grace"), Timer("deadline", "host")]
    assert [work.set_timer(one) for one in timers] == [first, first + 1]
    assert [work.state.timers.get(first + at) for at in range(2)] == timers
    assert [post.body for post in work.posts] == [SetTimer(first), SetTimer(first + 1)]
