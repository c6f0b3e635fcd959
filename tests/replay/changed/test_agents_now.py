"""The agents of today in place of the recorded ones, in each message that names agents."""

import msgspec

from callboard.actors.protocol.client_messages import RULES, Ask, Forked, Resumed, SessionOpened
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.shared_state import StateKey
from callboard.replay.changed.agents_now import AgentsNow, tools_of

OLD = (Json(b'{"name":"a","tools":[{"name":"t","description":"x"}]}'),)
NEW = (Json(b'{"name":"b"}'),)
M, N = ModelSpec("m"), ModelSpec("n")
TODAY = AgentsNow("b", NEW, N)


def test_the_first_event_gets_agents_model_and_further_keys() -> None:
    one, two = StateKey("k"), StateKey("l")
    opened = SessionOpened(RULES, "a", OLD, M, state=(one,))
    found = AgentsNow("b", NEW, state=(StateKey("k", "append"), two)).put_into(opened)
    assert isinstance(found, SessionOpened)
    assert (found.host, found.profiles, found.model, found.state) == ("b", NEW, M, (one, two))


def test_a_resume_gets_agents_only_if_it_has_some() -> None:
    plain = Resumed(RULES)
    assert TODAY.put_into(plain) is plain
    changed = TODAY.put_into(Resumed(RULES, "a", OLD, M))
    assert isinstance(changed, Resumed)
    assert (changed.host, changed.profiles, changed.model) == ("b", NEW, N)
    forked = TODAY.put_into(Forked("o", 1, "", Resumed(RULES, "a", OLD, M)))
    assert isinstance(forked, Forked)
    assert forked.resumed == changed


def test_other_messages_stay() -> None:
    ask = Ask("r1", text_json("go"))
    assert TODAY.put_into(ask) is ask


def test_tools_are_found_by_profile_and_name() -> None:
    assert tools_of(OLD) == {("a", "t"): {"name": "t", "description": "x"}}
    assert AgentsNow("b", NEW).tools == {}
    assert msgspec.json.decode(TODAY.by_name["b"]) == {"name": "b"}
    assert AgentsNow.recorded(SessionOpened(RULES, "a", OLD, M)).profiles == OLD
