"""The statement of a batch: one for any number of sessions, with the parts that the batch needs."""

from itertools import product
from typing import cast

import pytest

from callboard.actors.protocol.client_messages import Ask, SessionOpened
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.errors import Fenced, StoreFailed, WrongHead
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.usage import Need, Usage
from callboard.actors.session.budget_keys import CallKey, Reservation, Settlement, SpendingChange
from callboard.actors.session.usage_books import Charge
from callboard.runtime.log.cipher import new_cipher
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.postgres import batch, spending
from callboard.runtime.log.postgres.arrays import int8s, texts
from callboard.runtime.log.postgres.batch import Known, Plan, statement_of
from callboard.runtime.log.postgres.spending import SpendingTables
from callboard.runtime.log.postgres.tables import Tables
from callboard.runtime.log.protocol import GENESIS, Append, Carried, Head
from callboard.runtime.log.spending_texts import SpendingTexts
from tests.runtime.log.kit import event, events, large


def plan() -> Plan:
    return Plan(HashChain(), None, lambda place, session_id, text: text)


def test_parts_of_one_session_are_one_move_from_its_first_head_to_its_last() -> None:
    made, known = plan(), Known(7, 1, Head(0, GENESIS))
    for first in (1, 3):
        made.add(Append("s", first - 1, 1, events(first, first + 1)), known)
    (move,) = made.moves.values()
    digest = HashChain().seal_all("s", GENESIS, events(1, 4)).digests[-1]
    assert made.answers[1] == move.head == Head(4, digest)
    assert move.known == known
    assert [one.seq for one in move.events] == [1, 2, 3, 4]


def test_a_part_that_does_not_continue_its_session_is_no_move() -> None:
    made, known = plan(), Known(7, 2, Head(3, GENESIS))
    for part in (
        Append("s", 2, 2, events(3, 3)),
        Append("s", 3, 1, events(4, 4)),
        Append("s", 3, 2, events(5, 5)),
        Append("s", 3, 2, [event(4, sender="\ud800")]),
        Append("s", 3, 1, [event(4, sender="\ud800")]),
    ):
        made.add(part, known)
    assert [type(answer) for answer in made.answers] == [WrongHead, Fenced, WrongHead, StoreFailed, Fenced]
    assert made.moves == {}


def test_every_statement_has_as_many_places_as_values() -> None:
    for parts in product((False, True), repeat=6):
        text = statement_of(*parts)
        wanted = (
            7 + 7 * parts[0] + 9 + 4 * parts[1] + 2 * parts[2] + 12 * parts[3] + 19 * parts[4] + 3 * parts[5]
        )
        assert text.count("%s") == wanted, parts
        assert text.count("(") == text.count(")")


def test_a_value_that_the_log_has_is_named_and_not_sent() -> None:
    made = plan()
    made.add(
        Append("s", 0, 1, [large(1, 9_000), large(2, 9_000), large(3, 8_000)]), Known(1, 1, Head(0, GENESIS))
    )
    move = made.moves["s"]
    (first, second) = sorted({cut.digest for cuts in move.cuts() for cut in cuts})
    names, data = made._blobs([move], set())[1], made._blobs([move], set())[3]
    assert (first in names, second in names, len(data) > 17_000) == (True, True, True)
    assert len(made._blobs([move], {first, second})[3]) < 100


def test_a_batch_has_the_columns_of_all_that_its_sessions_changed() -> None:
    opened = SessionOpened(2, "host", (), ModelSpec("m"), tags=("a", "b"))
    asked = Ask("r1", text_json("What is it?"))
    plain, large_ones = events(1, 2), [large(1, 9_000)]
    told = [Event(1, 0, "client", "supervisor", 0, opened), Event(2, 0, "client", "supervisor", 0, asked)]
    for sessions in product((plain, large_ones, told), repeat=2):
        stored: list[tuple[str, str, str]] = []

        def keep(place: str, session_id: str, text: str, stored: list[tuple[str, str, str]] = stored) -> str:
            stored.append((place, session_id, text))
            return text

        made = Plan(HashChain(), None, keep)
        for number, posts in enumerate(sessions, 1):
            made.add(Append(f"s{number}", 0, 1, posts), Known(number, 1, Head(0, GENESIS)))
        text, values = made.statement(made.moves.values(), set(), cast(SpendingTables, None))
        assert text.count("%s") == len(values)
        titles = [(place, name) for place, name, _ in stored if place == "title"]
        assert titles == [("title", f"s{at}") for at, one in enumerate(sessions, 1) if one is told]
        assert [words for place, _, words in stored if place == "title"] == ["What is it?"] * len(titles)
        assert sum(place == "details" for place, *_ in stored) == len(titles)
        assert ("tagged AS" in text) == (told in sessions)
        assert ("blobs" in text) == (large_ones in sessions)
        assert not any(part in text for part in ("counted AS", "charged AS", "carried AS"))


def test_the_columns_are_in_the_order_of_the_sessions_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (batch, spending):
        for kind in ("int8s", "texts", "byteas"):
            monkeypatch.setattr(module, kind, list, raising=False)
    opened = SessionOpened(2, "host", (), ModelSpec("m"), tags=("a", "b"))
    asked = Ask("r1", text_json("Why?"))
    told = [Event(1, 5, "client", "supervisor", 0, opened), Event(2, 7, "client", "supervisor", 1, asked)]
    others, use = [large(1, 9_000), event(2)], Charge("2026-11-28", "m", "host", Usage(1, 2, calls=3))
    origins = {"s": Head(0, GENESIS), "t": Head(0, b"o" * 32)}
    made = plan()
    made.add(Append("t", 0, 1, others[:1], (), [use], [Carried(9, 1)]), Known(8, 1, origins["t"]))
    made.add(Append("t", 1, 1, others[1:], (), [use], [Carried(4, 2)]), Known(8, 1, origins["t"]))
    made.add(Append("s", 0, 3, told), Known(7, 3, origins["s"]))
    made.add(Append("u", 5, 1, []), Known(9, 1, Head(5, b"u" * 32)))
    sealed = [HashChain().seal_all(*of) for of in (("s", GENESIS, told), ("t", b"o" * 32, others))]
    digests = [digest for one in sealed for digest in one.digests]
    (cut,) = sealed[1].cuts[0]
    _, values = made.statement(made.moves.values(), set(), cast(SpendingTables, None))
    assert values == [
        *([7, 8, 9], [3, 1, 1], [0, 0, 5], [GENESIS, b"o" * 32, b"u" * 32]),
        *([2, 2, 5], [digests[1], digests[3], b"u" * 32], [7, others[1].at, 0]),
        *(["unfinished", "", ""], ["", "", ""], ["host", "", ""], ["Why?", "", ""]),
        *(['{"tags":["a","b"],"metadata":{},"waits_ms":0}', "", ""], [0, 0, 0], [1, 0, 0]),
        *([7, 7, 8, 8], [1, 2, 1, 2], [5, 7, *(one.at for one in others)]),
        *([0, 1, *(one.cause for one in others)], ["client", "client", *(one.sender for one in others)]),
        ["supervisor", "supervisor", *(one.recipient for one in others)],
        *(digests, [body for one in sealed for body in one.bodies]),
        ["", "", f'[[{cut.offset},"{cut.digest.hex()}"]]', ""],
        *([8], [cut.digest], [cut.digest], [cut.data]),
        *([7, 7], ["a", "b"]),
        *([8], ["2026-11-28"], ["m"], ["host"], [2], [4], [0], [0], [0], [0], [6], [0]),
        *([8, 8], [9, 4], [1, 2]),
    ]


def test_an_encrypted_batch_seals_each_part_for_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("int8s", "texts", "byteas"):
        monkeypatch.setattr(batch, kind, list)
    cipher, posts = new_cipher(b"k" * 32), [large(1, 9_000), event(2)]
    opened = [Event(1, 0, "client", "supervisor", 0, SessionOpened(2, "h", (), ModelSpec("m"), tags=("a",)))]
    made = Plan(HashChain(), cipher, lambda place, session_id, text: text)
    made.add(Append("s", 0, 1, posts), Known(1, 1, Head(0, GENESIS)))
    made.add(Append("t", 0, 1, opened), Known(2, 1, Head(0, GENESIS)))
    moves = list(made.moves.values())
    plain = [HashChain().seal_all(name, GENESIS, of) for name, of in (("s", posts), ("t", opened))]
    bodies = made._events(moves)[7]
    assert [
        cipher.open(("event", name, seq), body)
        for (name, seq), body in zip((("s", 1), ("s", 2), ("t", 1)), bodies, strict=True)
    ] == [body for one in plain for body in one.bodies]
    (cut,) = plain[0].cuts[0]
    numbers, used, names, (data,) = made._blobs(moves, set())
    assert (numbers, used, names) == ([1], [cut.digest], [cut.digest])
    assert cipher.open(("blob", cut.digest), data) == cut.data
    assert made._tags(moves) == [[2], [cipher.tag("a")]]


def test_a_batch_closes_the_reservation_that_it_opens_and_counts_every_charge() -> None:
    one = Reservation(CallKey("s", 1, "host", 1, 1), Need(100, 7), (("*", "2026-11"),))
    other = Reservation(CallKey("s", 1, "host", 2, 1), Need(50, 3), (("*", "2026-11"),))
    made = plan()
    batches: list[list[SpendingChange]] = [[one], [Settlement(one, Need(60, 5)), other]]
    for at, changes in enumerate(batches):
        part = Append("s", at, 1, events(at + 1, at + 1), changes)
        made.add(part, Known(3, 1, Head(0, GENESIS)))
    made.add(Append("t", 0, 1, events(1, 1)), Known(4, 1, Head(0, GENESIS)))
    text, values = made.statement(made.moves.values(), set(), SpendingTables(cast(Tables, None)))
    key, later = (SpendingTexts().call(of.key) for of in (one, other))
    # Its own statement may have reserved the call before, so the row has to go.
    assert values[-19:] == [
        *(int8s([3]), texts(["*"]), texts(["2026-11"]), int8s([60]), int8s([5]), texts([""])),
        *(int8s([3]), texts([later]), texts(["s"]), int8s([1]), texts([SpendingTexts().held(other)])),
        *(int8s([3]), texts([later]), texts(["*"]), texts(["2026-11"]), int8s([50]), int8s([3])),
        *(int8s([3]), texts([key])),
    ]
    assert "charged AS" in text
