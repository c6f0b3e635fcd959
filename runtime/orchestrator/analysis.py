"""The analysis of a question: rules for intents and hints, or one question to a model."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from callboard.actors.protocol.errors import DelegationFailed, MisuseError
from callboard.runtime.orchestrator.contracts import Exchange, QueryIntent, returned
from callboard.runtime.programs.context import ProgramContext

_BEFORE: Final = r"(?<![A-Za-z0-9_])"
_AFTER: Final = r"(?:s|es)?(?![A-Za-z0-9_])"


def has_word(text: str, word: str) -> bool:
    """Return True if a text holds a word, in upper or lower case.

    A word in Latin letters must stand alone, or in the plural; in a script without spaces it may stand
    anywhere.
    """
    if not word.isascii():
        return word.casefold() in text.casefold()
    return re.search(_BEFORE + re.escape(word) + _AFTER, text, re.IGNORECASE) is not None


class HintRule:
    """A rule that finds values in a question.

    name: of the hint. pattern: a regular expression; the value is its first group that took part, or the
    whole match. convert: makes a value canonical, such as a numeral into a number. intent: the capability
    that a question with such a value asks for; "" for none. Raises MisuseError for an invalid pattern.
    """

    def __init__(
        self, name: str, pattern: str, convert: Callable[[str], str] | None = None, intent: str = ""
    ) -> None:
        self.name, self.convert, self.intent = name, convert, intent
        try:
            self._pattern = re.compile(pattern, re.IGNORECASE)
        except re.error as error:
            raise MisuseError(
                f"hint rule {name!r}: {pattern!r} is not a regular expression ({error})"
            ) from None

    def values(self, query: str) -> list[str]:
        """Return the values in a question, each once, in its order."""
        found = (self._value(match) for match in self._pattern.finditer(query))
        return list(dict.fromkeys(value for value in found if value))

    def _value(self, match: re.Match[str]) -> str:
        value = next((group for group in match.groups() if group is not None), match.group())
        return value if self.convert is None else self.convert(value)


class QueryAnalyzer:
    """Rules that turn a question into an intent. It is pure: equal questions get equal intents.

    intents: the words that ask for a capability, by its name. hints: rules for values. multi_hop: words of
    questions whose answer takes several steps. default: the primary intent of a question without any.
    """

    def __init__(
        self,
        intents: Mapping[str, Iterable[str]] | None = None,
        hints: Sequence[HintRule] = (),
        multi_hop: Iterable[str] = (),
        default: str = "",
    ) -> None:
        self.intents = {name: tuple(words) for name, words in (intents or {}).items()}
        self.hints, self.multi_hop, self.default = tuple(hints), tuple(multi_hop), default

    def __call__(self, query: str) -> QueryIntent:
        """Return the intent of a question."""
        hints = self._hints(query)
        scores = self._scores(query)
        # sorted is stable: of equal scores, the intent that was given first
        ranked = sorted(scores, key=lambda name: -scores[name])
        is_multi_hop = any(has_word(query, word) for word in self.multi_hop)
        return QueryIntent(ranked[0] if ranked else self.default, tuple(ranked[1:]), is_multi_hop, hints)

    def _hints(self, query: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for rule in self.hints:
            if values := rule.values(query):
                found[rule.name] = list(dict.fromkeys([*found.get(rule.name, ()), *values]))
        return found

    def _scores(self, query: str) -> dict[str, int]:
        """Return the intents that a question has words or hints for, each with their number."""
        scores = {name: sum(has_word(query, word) for word in words) for name, words in self.intents.items()}
        asked = [rule.intent for rule in self.hints if rule.intent and rule.values(query)]
        for name in asked:
            scores[name] = scores.get(name, 0) + 1
        return {name: score for name, score in scores.items() if score}


class ModelAnalyzer:
    """One question to a model, instead of rules.

    capabilities: those that the model may name. instructions: instead of the default ones. fallback: the
    analysis if the model fails. The model is the one that the orchestrator inherits.
    """

    def __init__(
        self,
        capabilities: Sequence[str] = (),
        instructions: str = "",
        fallback: Callable[[str], QueryIntent] | None = None,
    ) -> None:
        self.fallback = fallback or QueryAnalyzer()
        self.system = instructions or (
            "Say what the question asks for. primary: one capability. secondary: others that help. "
            "requires_multi_hop: true if one finding is needed to look for the next. hints: values that the "
            f"question names, by kind. Capabilities: {', '.join(capabilities) or 'any'}."
        )

    async def ask(self, ctx: ProgramContext, query: str, earlier: Sequence[Exchange] = ()) -> QueryIntent:
        """Return the intent of a question, of the fallback if the model fails.

        earlier: the questions before it, which it may refer to.
        """
        told = "".join(f"Asked before: {one.question}\nAnswered: {one.answer}\n\n" for one in earlier)
        try:
            return await ctx.ask_model(told + query, schema=QueryIntent, system=self.system)
        except DelegationFailed:
            return self.fallback(query)


async def intent_of(
    analyzer: Callable[[str], QueryIntent] | ModelAnalyzer,
    ctx: ProgramContext,
    query: str,
    earlier: Sequence[Exchange] = (),
) -> QueryIntent:
    """Return the intent of a question, by rules, by a function or by a model.

    Raises MisuseError for a function that returns something else.
    """
    if isinstance(analyzer, ModelAnalyzer):
        return await analyzer.ask(ctx, query, earlier)
    return returned("the analyzer", analyzer(query), QueryIntent)
