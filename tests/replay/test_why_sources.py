"""The source of a value among decoys: other numbers that hold its digits, and the same value elsewhere."""

import json
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import pytest

from callboard.actors.protocol.messages import DelegationEnded
from callboard.actors.protocol.port_messages import ModelReplied, ToolReturned
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.json_values import Held, number_in
from callboard.replay.recording import Recording
from callboard.replay.why import Why
from callboard.runtime.agent import Agent
from callboard.runtime.models.scripted import Policy, Step, call, calls, say
from callboard.runtime.tools.tool import Tool, tool
from tests.effort import effort
from tests.replay.stories import record
from tests.tables import table

SESSIONS = effort(suite=60, campaign=200)
FIRST_AT_LEAST = 0.98
SMALL_FIRST_AT_LEAST = 0.9
NOUNS = (
    "quota",
    "price",
    "deposit",
    "distance",
    "stock",
    "floor",
    "budget",
    "fee",
    "limit",
    "weight",
    "delay",
)
UNITS = ("requests", "euros", "metres", "boxes", "people", "hours", "kilograms", "pages", "seats", "volts")
FILLERS = ("the north depot", "a branch office", "our second team", "the old contract", "this customer")


class Planted(NamedTuple):
    """A session with a value whose source is known. source: of the true tool result."""

    recording: Recording
    source: int
    answer: int
    value: str

    @property
    def why(self) -> Why:
        return self.recording.why(self.answer, self.value)


def planted(seed: int) -> Planted:
    """Record a host that reads results one by one or at once, and tells one number of them.

    Decoys stand before the true result and beside it, never alone in the last result.
    """
    dice = Random(seed)
    value = dice.choice([dice.randrange(21), dice.randrange(100, 1_000), dice.randrange(1_000, 99_999)])
    steps = [
        [sentence(dice, value) for _ in range(dice.choice([1, 1, 3]))] for _ in range(dice.randint(2, 6))
    ]
    turn = dice.choice([len(steps) - 1, dice.randrange(len(steps))])
    noun, unit = dice.choice(NOUNS), dice.choice(UNITS)
    for texts in steps:  # no decoy has both words of the true one
        texts[:] = [text.replace(noun, "number").replace(unit, "things") for text in texts]
    if turn < len(steps) - 1:
        steps[-1] = ["Nothing more is known."]
    truth = dice.randrange(len(steps[turn]))
    steps[turn][truth] = f"For {dice.choice(FILLERS)} the {noun} is {spelled(dice, value)} {unit}."
    answer = dice.choice(["", "", "€"]) + spelled(dice, value)
    policy, look = reader(steps, f"The {noun} of it is {answer} {unit}.")
    recording = record(policy, Agent("host", tools=[look]), "Go.")
    (source,) = (
        one
        for one in recording.events
        if isinstance(one.body, ToolReturned) and (one.body.turn, one.body.call) == (turn + 1, truth)
    )
    replies = [one.seq for one in recording.events if isinstance(one.body, ModelReplied)]
    return Planted(recording, source.seq, replies[-1], answer)


def sentence(dice: Random, value: int) -> str:
    other = dice.choice(
        [f"{value}{dice.randrange(1, 10)}", f"{dice.randrange(1, 10)}{value}", f"k{value}", str(value)]
    )
    return f"In {dice.choice(FILLERS)} the {dice.choice(NOUNS)} is {other} {dice.choice(UNITS)}."


def spelled(dice: Random, value: int) -> str:
    return dice.choice([f"{value}", f"{value:,}", f"{value}.0", f"{value:_}"])


def reader(steps: list[list[str]], answer: str) -> tuple[Policy, Tool]:
    @tool(effect="read")
    def look(turn: int, place: int) -> str:
        """Look."""
        return steps[turn][place]

    def policy(request: ModelRequest) -> Step:
        at = request.turn - 1
        if at == len(steps):
            return say(answer)
        return calls(*(call("look", turn=at, place=place) for place in range(len(steps[at]))))

    return policy, look


def sessions() -> Iterator[Planted]:
    return (planted(seed) for seed in range(SESSIONS))


@pytest.mark.slow
def test_the_true_source_comes_first_and_no_other_is_ever_the_only_one() -> None:
    first = 0
    for one in sessions():
        why = one.why
        first += why.source[-1].seq == one.source
        assert one.source in {event.seq for event in (*why.source, *why.also_in)}, one.value
    assert first >= FIRST_AT_LEAST * SESSIONS


CITIES = ("Paris", "Oslo", "Lima", "Quito", "Turin", "Hanoi", "Accra", "Dakar")
COUNTS = ("errors", "open_orders", "retryCount", "late trains", "sick")


def sensed(seed: int) -> Planted:
    """Record a host that reads eight results with numbers from 0 to 20, and tells one number of one city."""
    dice = Random(seed)
    cities, names = dice.sample(CITIES, 8), dice.sample(COUNTS, 3)
    table = [{name: dice.randrange(21) for name in names} for _ in cities]
    truth, name = dice.randrange(8), dice.choice(names)
    form = dice.choice(["objects", "sentences", "numbers", "children"])
    step = dice.choice([1, 2, 8])  # calls of a turn

    def result(place: int) -> str:
        row = table[place]
        if form == "objects":
            return json.dumps(row)
        if form == "numbers":
            return str(row[name])
        return f"In {cities[place]}: " + ", ".join(f"{number} {key}" for key, number in row.items()) + "."

    @tool(effect="read")
    def count(city: str) -> str:
        """Count."""
        return result(cities.index(city))

    value = table[truth][name]
    told = dice.choice(
        [
            f"{cities[truth]} has {value} {name}.",
            f"- {cities[truth]}: {name} = {value}",
            f"{name} of {cities[truth]}: {value}",
        ]
    )

    def policy(request: ModelRequest) -> Step:
        if request.profile == "child":
            return call("report_back", **table[int(request.address.split(".")[1]) - 1])
        first = (request.turn - 1) * step
        if first >= 8:
            return say(told)
        asked = cities[first : first + step]
        if form == "children":
            schema = {"type": "object"}
            return calls(
                *(
                    call("task", agent="child", prompt=f"Look at {city}.", output_schema=schema)
                    for city in asked
                )
            )
        return calls(*(call("count", city=city) for city in asked))

    recording = record(policy, Agent("host", tools=[count], agents=[Agent("child")]), "Go.")
    replies = [one.seq for one in recording.events if isinstance(one.body, ModelReplied)]
    kind = ModelReplied if form == "children" else ToolReturned
    source = [one.seq for one in recording.events if isinstance(one.body, kind)]
    if form == "children":
        source = [
            one.seq
            for one in recording.events
            if isinstance(one.body, ModelReplied) and one.recipient == f"host.{truth + 1}"
        ]
        return Planted(recording, source[0], replies[-1], str(value))
    return Planted(recording, source[truth], replies[-1], str(value))


@pytest.mark.slow
def test_a_small_number_is_followed_by_the_words_beside_it() -> None:
    first = 0
    for seed in range(SESSIONS):
        one = sensed(seed)
        why = one.why
        first += why.source[-1].seq == one.source
        assert one.source in {event.seq for event in (*why.source, *why.also_in)}, seed
    assert first >= SMALL_FIRST_AT_LEAST * SESSIONS


def test_a_report_that_is_new_comes_before_an_older_room_of_the_same_number() -> None:
    @tool(effect="read")
    def look(key: str) -> str:
        """Look."""
        return {"office": "The office is in room 250", "quota": "quota: 250 (of today)"}[key]

    def policy(request: ModelRequest) -> Step:
        if request.profile == "child":
            return call("look", key="quota") if request.turn == 1 else say("250")
        steps = [call("look", key="office"), call("task", agent="child", prompt="Which quota?")]
        return steps[request.turn - 1] if request.turn < 3 else say("Your quota is 250 requests.")

    recording = record(policy, Agent("host", tools=[look], agents=[Agent("child", tools=[look])]), "Go.")
    answer = max(one.seq for one in recording.events if isinstance(one.body, ModelReplied))
    why = recording.why(answer, "250")
    assert [one.kind for one in why.source[:2]] == ["ModelReplied", "DelegationEnded"]
    assert why.source[-1].recipient == "host.1"
    assert [one.recipient for one in why.also_in] == ["host"]


def test_a_sum_is_made_of_its_inputs_of_which_one_is_odd() -> None:
    amounts = [1_170_000 + 2_000 * place for place in range(11)]
    amounts.insert(6, 823_591)

    def policy(request: ModelRequest) -> Step:
        if request.profile == "clerk":
            return call("report_back", amount=amounts[int(request.address.split(".")[1]) - 1])
        if request.turn == 1:
            return calls(
                *(call("task", agent="clerk", prompt=f"Part {at}", output_schema=AMOUNT) for at in range(12))
            )
        return say(f"All of it: {sum(amounts):,}")

    recording = record(policy, Agent("host", agents=[Agent("clerk")]), "Add.")
    answer = max(one.seq for one in recording.events if isinstance(one.body, ModelReplied))
    why = recording.why(answer, f"{sum(amounts)}")
    assert [one.kind for one in why.source] == ["ModelReplied"]
    assert [one.kind for one in why.made_of] == ["DelegationEnded"] * 12
    assert why.odd is not None
    assert isinstance(why.odd.body, DelegationEnded)
    assert b"823591" in bytes(why.odd.body.value)


AMOUNT = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}


@table(
    ("text", "number"),
    [
        ("7", "7"), ("007", "7"), ("-0", "0"), ("0.50", "0.5"), ("137,714.24", "137714.24"),
        ("137.714,24", "137714.24"), ("1_000", "1000"), ("1e3", "1000"), ("1E-2", "0.01"), ("v1.2", ""),
        ("1.2.3", ""), ("12th", ""), ("", ""), ("9" * 500, ""),
    ],
)  # fmt: skip
def test_a_number_has_one_spelling(text: str, number: str) -> None:
    assert number_in(text) == number


@table(
    ("value", "body", "count"),
    [
        ("7", {"output": "17 k7 7f3a 1.7 2.7.1 70"}, 0),
        ("7", {"output": "     6→six\n     7→seven 7"}, 1),
        ("7", {"turn": 7, "output": "7 units, (7), $7, 7ms, 7.0"}, 5),
        ("7", {"output": {"n": [7, 7.0, "7", True, None]}}, 3),
        ("7", {"output": '{"n": [1,7,3]}'}, 1),
        ("gold", {"output": "golden marigold"}, 0),
        ("gold", {"output": {"gold": "Gold", "b": "gold-plated"}}, 2),
        ("true", {"output": {"is": True}}, 1),
        ("a+b", {"output": "a+b a+bc"}, 1),
    ],
)
def test_a_value_is_held_as_whole_words_and_equal_numbers(value: str, body: object, count: int) -> None:
    assert len(list(Held(value).places(body))) == count
