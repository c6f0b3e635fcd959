"""Values that a model wrote in another way than their source."""

import json

from callboard.actors.protocol.port_messages import ModelReplied
from callboard.replay.why import Why
from callboard.runtime.agent import Agent
from tests.replay.stories import record
from tests.replay.test_why_sources import reader
from tests.tables import table


@table(
    ("result", "said", "value", "written"),
    [
        ({"total": 1203}, "It is $1,203 in all.", "$1,203", "1203"),
        ("paid 1203.0 of it", "It is 1,203 EUR.", "1,203 EUR", "1203.0"),
        ({"cents": 41900}, "It costs €419.00.", "€419.00", "41900"),
        ({"cents": 4900}, "It is 49.00 euros.", "49.00 euros", "4900"),
        ({"share": 0.174}, "17.4 % of it.", "17.4 %", "0.174"),
        ({"on": "2024-05-20T08:00:00"}, "On May 20, 2024.", "May 20, 2024", "2024-05-20"),
        ("due 20 May 2024", "Due 2024-05-20.", "2024-05-20", "20 May 2024"),
        ("am 20.05.2024", "On May 20th.", "May 20th", "20.05.2024"),
        ({"user": "aarav_ahmed_6699"}, "It is Aarav Ahmed.", "Aarav Ahmed", "aarav_ahmed"),
        ({"card": "credit_card_8544743"}, "The card 8544743.", "8544743", "8544743"),
        (
            {"text": '{"a": "{\\"b\\": \\"Basic\\\\nEconomy\\"}"}'},
            "basic economy",
            "basic economy",
            "Basic\nEconomy",
        ),
        ("it has 1238", "1238 lines", "1238 lines", "1238"),
    ],
)
def test_a_value_that_the_model_wrote_in_another_way_is_found(
    result: object, said: str, value: str, written: str
) -> None:
    why = told_of(result, said, value)
    assert (why.source[-1].kind, why.written) == ("ToolReturned", written)


@table(
    ("result", "said", "value"),
    [
        ({"margin": 4, "rows": 60}, "4px or 60px", "4px"),
        ("May 20, 2023 or May 200", "On May 20, 2024.", "May 20, 2024"),
        ("May 2, 2024", "On May 20.", "May 20"),
        ("2024-05-201", "On May 20.", "May 20"),
        ({"total": 12034}, "It is $1,203.", "$1,203"),
        ("a half", "50%", "50%"),
        ({"names": "aaravahmed"}, "Aarav Ahmed", "Aarav Ahmed"),
    ],
)
def test_a_text_that_is_only_like_a_value_is_not_its_source(result: object, said: str, value: str) -> None:
    assert told_of(result, said, value).source[-1].kind == "ModelReplied"


def told_of(result: object, said: str, value: str) -> Why:
    text = result if isinstance(result, str) else json.dumps(result)
    policy, look = reader([[text]], said)
    recording = record(policy, Agent("host", tools=[look]), "Go.")
    replies = [one.seq for one in recording.events if isinstance(one.body, ModelReplied)]
    return recording.why(replies[-1], value)
