"""The keys of port requests: equal for the same request of a session and its fork, and for no other."""

from msgspec.structs import replace

from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import AnyMessage, Begin, Delegate, DelegationEnded, TurnRequested
from callboard.actors.protocol.port_messages import (
    CallModel,
    CallTool,
    CheckSchema,
    MakeContext,
    ModelReplied,
    RequestApproval,
    RequestBudget,
    ToolReturned,
)
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.usage import Need
from callboard.actors.protocol.value_types import InputGiven, Settled
from callboard.actors.session.request_keys import Key, RequestKeys

MODEL = ModelSpec("m")
PROGRAM = ModelSpec("m", kind="program")


def begin(model: ModelSpec = MODEL) -> AnyMessage:
    return Begin(Json(b"{}"), text_json("Go."), model, Limits(), NULL, 0, ())


def turn(number: int = 1, attempt: int = 1, digest: str = "d") -> TurnRequested:
    return TurnRequested(number, attempt, Need(), digest, ())


def task(number: int = 1, call: int = 0, **more: object) -> Delegate:
    return Delegate(number, call, ("kid",), text_json("p"), **more)  # type: ignore[arg-type]  # its fields


CALL = CallTool(1, 0, "look", "read", Json(b"{}"))
ASKED = RequestApproval(1, 0, "pay", "write", Json(b"{}"))
CHECK = CheckSchema(1, "report", Json(b"{}"), Json(b"1"), 5)


def key(*posts: tuple[str, AnyMessage]) -> Key | None:
    """Return the key of the last of these messages, each with its sender, or recipient if a port answers."""
    keys, found = RequestKeys(), None
    for seq, (who, body) in enumerate(posts, 1):
        is_input = isinstance(body, Begin | ModelReplied | DelegationEnded | ToolReturned)
        found = keys.take(Event(seq, 0, "x" if is_input else who, who if is_input else "x", 0, body))
    return found


def granted(wish: TurnRequested, model: ModelSpec = MODEL) -> Key | None:
    return key(("host", begin(model)), ("host", wish), ("supervisor", CallModel("host", 2)))


def test_a_model_call_is_known_by_turn_attempt_request_and_model() -> None:
    same = granted(turn())
    assert same == granted(turn()) == ("model", "host", 1, 1, "d", "", "m", 8_192, b"null")
    others = [turn(2), turn(1, 2), turn(digest="e")]
    models = [ModelSpec("n"), ModelSpec("m", max_tokens=9), ModelSpec("m", params=Json(b"{}"))]
    falls_back = ModelSpec("m", fallback=(ModelSpec("n"),))
    assert granted(turn(), falls_back) == same
    keys = [*map(granted, others), *(granted(turn(), model) for model in models)]
    keys.append(granted(replace(turn(), model="n"), falls_back))
    assert len({same, *keys}) == 8


def test_a_step_of_a_program_is_known_by_its_place_whatever_it_was_told() -> None:
    assert granted(turn(), PROGRAM) == granted(turn(digest="e"), PROGRAM) == ("step", "host", 1, 1)


def test_a_grant_without_its_wish_has_no_key() -> None:
    assert key(("supervisor", CallModel("host", 1))) is None


def test_a_tool_call_is_known_by_place_tool_arguments_and_input() -> None:
    given = InputGiven(1)
    others = [
        replace(CALL, turn=2),
        replace(CALL, call=1),
        replace(CALL, tool="see"),
        replace(CALL, arguments=Json(b"[]")),
        replace(CALL, given=given),
        replace(CALL, given=replace(given, round=2)),
    ]
    found = [key(("host", one)) for one in (CALL, *others)]
    assert len(set(found)) == len(found)
    assert found[0] == key(("host", replace(CALL, id="another", labels=("web",))))
    assert found[0] != key(("host.1", CALL))


def test_a_question_is_known_by_its_call_and_round() -> None:
    others = [
        replace(ASKED, turn=2),
        replace(ASKED, tool="see"),
        replace(ASKED, arguments=Json(b"[]")),
        replace(ASKED, is_repeat=True),
        replace(ASKED, round=1),
        replace(ASKED, form=Json(b"{}")),
    ]
    found = [key(("host", one)) for one in (ASKED, *others)]
    assert len(set(found)) == len(found)
    assert found[0] == key(("host", replace(ASKED, timeout_ms=7)))


def test_a_check_is_known_by_what_is_checked_and_not_by_its_number() -> None:
    others = [
        replace(CHECK, task="input"),
        replace(CHECK, schema=Json(b"[]")),
        replace(CHECK, value=Json(b"2")),
        replace(CHECK, output_type="T"),
    ]
    found = [key(("supervisor", one)) for one in (CHECK, *others)]
    assert len(set(found)) == len(found)
    assert found[0] == key(("supervisor", replace(CHECK, check=9, timeout_ms=7)))


def context(body: Delegate, *before: tuple[str, AnyMessage], model: ModelSpec = MODEL) -> Key | None:
    """Return the key of the context for the agent of a delegation, which is the last thing before it."""
    posts = (("host", begin(model)), *before, ("host", body))
    return key(*posts, ("supervisor", MakeContext("host", 1, "kid", len(posts), 5)))


def test_a_context_is_known_by_the_agent_the_last_request_of_its_parent_and_the_delegation() -> None:
    wish = ("host", turn())
    found = [
        context(task(), wish),
        context(task(), wish, ("host", turn(2, digest="e"))),
        context(task(2), wish),
        context(task(call=1), wish),
        context(replace(task(), prompt=text_json("q")), wish),
        context(task()),
    ]
    assert len(set(found)) == len(found)
    assert found[0] == context(task(settled=Settled(None, "said")), wish)


def test_the_delegation_of_a_program_is_the_same_in_any_turn() -> None:
    first, later = task(), replace(task(3, 1), messages=4)
    assert context(first, model=PROGRAM) == context(later, model=PROGRAM)
    assert context(first, model=PROGRAM) != context(replace(later, prompt=text_json("q")), model=PROGRAM)


def asks(*ids: str) -> ModelReplied:
    blocks = ",".join(f'{{"type":"tool_use","id":"{one}","name":"look","input":{{}}}}' for one in ids)
    return ModelReplied(1, 1, "ok", Json(f"[{blocks}]".encode()))


def test_the_call_of_a_program_is_known_by_the_id_of_its_ask_and_that_of_a_model_is_not() -> None:
    def found(model: ModelSpec, reply: ModelReplied, call: int) -> Key | None:
        return key(("host", begin(model)), ("host", reply), ("host", replace(CALL, call=call)))

    assert found(PROGRAM, asks("a", "b"), 1) == found(PROGRAM, asks("b"), 0)
    assert found(PROGRAM, asks("a", "b"), 0) != found(PROGRAM, asks("b"), 0)
    assert found(MODEL, asks("a", "b"), 1) != found(MODEL, asks("b"), 0)
    unread = replace(asks("a"), content=Json(b"?"), status="error")
    assert found(PROGRAM, unread, 0) == found(MODEL, unread, 0)


def test_a_delegation_that_an_ended_agent_asked_for_takes_no_name() -> None:
    def child(address: str) -> str:
        keys = RequestKeys()
        for body in (begin(PROGRAM), asks("a", "b")):
            keys.take(Event(1, 0, "x", "host", 0, body))
        keys.take(Event(2, 0, "host", "x", 0, task()))
        keys.take(Event(3, 0, "x", "host", 0, DelegationEnded(1, 0, "cancelled", address)))
        keys.take(Event(4, 0, "host", "x", 0, task(1, 1)))
        return keys.agent("host.1")

    assert (child(""), child("host.1")) == ("host/b.0", "host/a.0")


def test_a_wish_for_budgets_is_known_by_the_call_that_it_is_for() -> None:
    wanted = ("supervisor", RequestBudget("host", 1, 1, Need(5)))
    posts = (("host", begin()), ("host", turn()))
    known = granted(turn())
    assert known is not None
    assert key(*posts, wanted) == ("budget", *known)
    assert key(("host", begin()), wanted) is None
