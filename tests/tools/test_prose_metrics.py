"""The figures of prose count as their module describes."""

from tests.tables import table
from tools.prose_metrics import odd_lines, odd_per_1000, prose_of, starts_with_verb

SOURCE = '''"""A module about what is."""


class Agent:
    """An agent."""

    def ask(self):  # noqa: ANN201
        """Ask it."""

    def state(self):
        """What it knows."""  # a comment


def untold():
    return 1
'''


@table("line", ["Return it.", "Returns it.", "Matches it.", "Post and wait.", "Tell it."])
def test_these_lines_start_with_a_verb(line: str) -> None:
    assert starts_with_verb(line)


@table("line", ["The state.", "What it knows.", "Whether it ends.", "`Ask` it.", ""])
def test_these_lines_do_not_start_with_a_verb(line: str) -> None:
    assert not starts_with_verb(line)


def test_only_docstrings_of_functions_need_a_verb() -> None:
    figures = prose_of({"agent.py": SOURCE}).figures()
    assert figures["verb"] == 50
    assert figures["cleft"] == 50


def test_directives_for_tools_do_not_count_as_comments() -> None:
    figures = prose_of({"agent.py": SOURCE}).figures()
    assert figures["comments"] == round(100 / 9, 2)


def test_odd_words_are_counted_per_thousand_words() -> None:
    assert odd_per_1000("nobody " + "word " * 499) == 2
    assert odd_per_1000("What is said is none of it, for ever.") == 333.33
    assert odd_per_1000("") == 0


def test_lines_with_odd_words_are_named() -> None:
    assert odd_lines("a plain line\n  Whoever reads it\nthe end") == ["Whoever reads it"]
