"""The reason for which a service would refuse a request, by the dialect of the request."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from callboard.replay.testing.input_rules import bedrock, gemini, messages, openai

_RULES: Final[Mapping[str, Callable[[Any], str]]] = {
    "messages": messages.problem_of,
    "chat": partial(openai.problem_of, "chat"),
    "responses": partial(openai.problem_of, "responses"),
    "generate-content": gemini.problem_of,
    "converse": bedrock.problem_of,
}

DIALECTS: Final = tuple(_RULES)
"""The dialects whose input rules are known."""


def request_problem(dialect: str, body: object) -> str:
    """Return the reason for which a service of this dialect would refuse a request; empty for none.

    dialect: one of DIALECTS. body: the decoded JSON of the request. For writers of model providers: no reply
    that a model has given may lead to a request that its service refuses.

    Raises ValueError for an unknown dialect.
    """
    rules = _RULES.get(dialect)
    if rules is None:
        raise ValueError(f"no input rules of {dialect!r} are known; known are {', '.join(DIALECTS)}")
    return rules(body) if isinstance(body, dict) else "the body is not a JSON object"
