"""The supervisor hands rights and labels down, denies what they forbid, and brings labels back."""

from msgspec.structs import replace

from callboard.actors.protocol.bundles import Allowed, Bundle, Denied, Rights
from callboard.actors.protocol.client_messages import RULES, Ask, AskEnded, Resumed, Tell
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.layers import Layer, Layers
from callboard.actors.protocol.messages import (
    Begin,
    Delegate,
    DelegationEnded,
    Finished,
    ReportBack,
    Told,
    TurnRequested,
)
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.usage import Need
from callboard.replay.testing.sessions.scenario import profile, program_profile
from tests.actors.harness import SCHEMA, SessionHarness, raw

ONE = Allowed(tools=("a", "b"))
LESS = Allowed(tools=("a",))


def with_bundle(who: Profile, bundle: Bundle) -> Profile:
    return replace(who, permissions=bundle)


def session(*profiles: Profile, layers: Layers = ()) -> SessionHarness:
    made = SessionHarness(*profiles).opens()
    if layers:
        made.hears("client", Resumed(RULES, permissions=layers))
    return made


def begin_in(posts: list[Post], who: str) -> Begin:
    (found,) = [post.body for post in posts if post.recipient == who and isinstance(post.body, Begin)]
    return found


def delegate(*names: str, labels: tuple[str, ...] = (), call: int = 0, schema: object = None) -> Delegate:
    return Delegate(1, call, names, text_json("go"), raw(schema), labels=labels)


def wants(labels: tuple[str, ...], turn: int = 1) -> TurnRequested:
    return TurnRequested(turn, 1, Need(10), "d", labels=labels)


def ends_in(posts: list[Post]) -> list[DelegationEnded]:
    return [post.body for post in posts if isinstance(post.body, DelegationEnded)]


def test_an_agent_begins_with_the_layers_from_above_and_its_own() -> None:
    host = with_bundle(profile("host", ["kid"]), Bundle(do=LESS, delegate=ONE, deny=Denied(tools=("z",))))
    kid = with_bundle(profile("kid"), Bundle(do=Allowed(tools=("a", "c"))))
    top = Layer("the session", Rights(Allowed(effects=("read",))))
    made = session(host, kid, layers=(top,))
    denied = Denied(tools=("z",))
    assert begin_in(made.asks(), "host").permissions == (top, Layer("agent host", Rights(LESS, denied)))
    begun = begin_in(made.hears("host", delegate("kid")), "host.1").permissions
    assert begun == (
        top,
        Layer("agent host", Rights(ONE, denied)),
        Layer("agent kid", Rights(kid.permissions.do)),
    )


def test_a_session_without_bundles_says_nothing_of_them() -> None:
    made = session()
    assert begin_in(made.asks(), "host").permissions == ()
    assert begin_in(made.hears("host", delegate("kid")), "host.1").permissions == ()


def test_a_denied_agent_and_a_denied_model_are_denied_delegations() -> None:
    host = with_bundle(profile("host", ["kid", "host"]), Bundle(do=Allowed(agents=("host",))))
    made = session(host, profile("kid"))
    made.asks()
    (end,) = ends_in(made.hears("host", delegate("kid")))
    assert (end.kind, end.detail) == ("denied", "agent 'kid' is denied by agent host")
    kid = replace(profile("kid"), model=ModelSpec("big", 100))
    host = with_bundle(profile("host", ["kid"]), Bundle(delegate=Allowed(models=("scripted",))))
    made = session(host, kid)
    made.asks()
    (end,) = ends_in(made.hears("host", delegate("kid")))
    assert (end.kind, end.detail) == ("denied", "model 'big' is denied by agent host")


def test_a_host_that_may_use_no_model_is_denied() -> None:
    made = session(with_bundle(profile("host"), Bundle(do=Allowed(models=()))))
    (post,) = made.asks()
    assert isinstance(post.body, AskEnded)
    assert (post.body.kind, post.body.detail) == ("denied", "model 'scripted' is denied by agent host")


def test_a_program_is_no_model_that_could_be_denied() -> None:
    bundle = Bundle(do=Allowed(models=("scripted",)), delegate=Allowed(models=("scripted",)))
    made = session(with_bundle(profile("host", ["kid"]), bundle), program_profile("kid"))
    made.asks()
    assert begin_in(made.hears("host", delegate("kid")), "host.1").model.kind == "program"
    alone = session(with_bundle(program_profile("host"), bundle))
    begin_in(alone.asks(), "host")


def test_a_fallback_to_a_denied_model_is_denied() -> None:
    host = profile("host", fallback=[ModelSpec("other", 100)])
    made = session(with_bundle(host, Bundle(do=Allowed(models=("scripted",)))))
    (post,) = made.asks()
    assert isinstance(post.body, AskEnded)
    assert post.body.detail == "model 'other' is denied by agent host"


def test_a_resume_only_adds_layers() -> None:
    one, two = Layer("the runtime", Rights(ONE)), Layer("the runtime", Rights(LESS))
    made = session(layers=(one,))
    made.hears("client", Resumed(RULES))
    made.hears("client", Resumed(RULES, permissions=(one, two)))
    assert begin_in(made.asks(), "host").permissions == (one, two)


def test_labels_go_down_with_a_delegation_and_back_with_its_end() -> None:
    made = session()
    made.asks()
    begun = begin_in(made.hears("host", delegate("kid", labels=("a",))), "host.1")
    assert begun.labels == ("a",)
    made.hears("host.1", wants(("b",)))
    (end,) = ends_in(made.hears("host.1", Finished("answered", "done")))
    assert end.labels == ("a", "b")


def test_a_winner_brings_its_own_labels_and_a_failed_race_those_of_all() -> None:
    made = session()
    made.asks()
    made.hears("host", delegate("kid", "kid"))
    made.hears("host.1", wants(("a",)))
    made.hears("host.2", wants(("b",)))
    (end,) = ends_in(made.hears("host.1", Finished("answered", "done")))
    assert end.labels == ("a",)
    made.hears("host", delegate("kid", "kid", call=1))
    made.hears("host.3", wants(("c",)))
    made.hears("host.4", wants(("d",)))
    made.hears("host.3", Finished("iteration_cap"))
    (end,) = ends_in(made.hears("host.4", Finished("iteration_cap")))
    assert end.labels == ("c", "d")


def test_a_report_has_the_labels_of_its_sender_when_it_reported() -> None:
    made = session()
    made.asks()
    made.hears("host", delegate("kid", schema=SCHEMA))
    made.accepts()
    made.hears("host.1", wants(("a",)))
    made.hears("host.1", ReportBack(1, 0, raw({"n": 1})))
    (end,) = ends_in(made.accepts(2))
    assert (end.kind, end.labels) == ("reported", ("a",))


def test_the_labels_of_words_and_of_a_prompt_are_passed_on() -> None:
    made = session()
    begun = begin_in(made.hears("client", Ask("r1", text_json("go"), labels=("mail",))), "host")
    assert begun.labels == ("mail",)
    (post,) = made.hears("client", Tell("t", "host", "hurry", ("chat",)))
    assert post.body == Told(1, "hurry", ("chat",))
    made.hears("host", wants(("chat",)))
    posts = made.hears("host", Finished("answered", "done"))
    (ended,) = [post.body for post in posts if isinstance(post.body, AskEnded)]
    assert ended.labels == ("chat", "mail")


def test_a_host_keeps_its_labels_from_ask_to_ask() -> None:
    made = session()
    made.asks()
    made.hears("host", wants(("a",)))
    made.hears("host", Finished("answered", "done"))
    made.asks(name="r2")
    made.hears("host", wants(("b",), 2))
    posts = made.hears("host", Finished("answered", "done"))
    (ended,) = [post.body for post in posts if isinstance(post.body, AskEnded)]
    assert ended.labels == ("a", "b")
