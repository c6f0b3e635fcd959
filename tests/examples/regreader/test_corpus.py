"""The made corpus and the five layouts: every tool call is exact, and answers are right or refused."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from regreader.reader import HINTS, INTENTS, Reader
from regreader.settings import Settings
from regreader.tools import Tools

from callboard.runtime.orchestrator.analysis import has_word
from tests.examples.regreader import corpus, layouts
from tests.examples.regreader.score import imported, lines_of, score_answers, score_calls


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    corpus.write(folder)
    imported(folder / "corpus", folder / "index.db").close()
    return folder


def test_the_corpus_has_120_pages_and_is_the_same_each_time(made: Path) -> None:
    assert sum(len(one.pages) for one in corpus.models()) >= 120
    first = [corpus.text_of(one) for one in corpus.models()]
    assert first == [corpus.text_of(one) for one in corpus.models()]


@pytest.mark.slow
def test_every_tool_call_on_the_made_corpus_is_exact(made: Path) -> None:
    from regreader.index import Index

    score = score_calls(Tools(Index(made / "index.db")), lines_of(made / "calls.jsonl"))
    assert score.calls > 1_000
    assert score.misses == []


def test_every_tool_call_on_the_five_layouts_is_exact(tmp_path: Path) -> None:
    layouts.write(tmp_path)
    score = score_calls(Tools(imported(tmp_path / "corpus", ":memory:")), lines_of(tmp_path / "calls.jsonl"))
    assert score.calls > 100
    assert score.misses == []


@pytest.mark.parametrize("name", ["first", "second", "third", "fourth"])
def test_every_tool_call_on_regulations_in_styles_of_strangers_is_exact(name: str) -> None:
    folder = Path(__file__).parent / "strangers" / name
    score = score_calls(Tools(imported(folder / "corpus", ":memory:")), lines_of(folder / "calls.jsonl"))
    assert score.calls > 40
    assert score.misses == []


def test_the_questions_are_many_and_a_third_has_no_keyword_of_the_router(made: Path) -> None:
    asked = [line["question"] for line in lines_of(made / "questions.jsonl")]
    words = [word for words in INTENTS.values() for word in words]
    plain = [
        question for question in asked
        if not any(has_word(question, word) for word in words)
        and not any(rule.values(question) for rule in HINTS)
    ]  # fmt: skip
    assert len(asked) >= 120
    assert len(plain) >= len(asked) / 3
    unanswered = Counter(line["answer"] is None for line in lines_of(made / "questions.jsonl"))
    assert unanswered[True] >= 10


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sequential", "parallel", "single"])
def test_offline_answers_are_right_or_refused(made: Path, mode: str) -> None:
    settings = Settings(
        index=str(made / "index.db"),
        enable_orchestrator=mode != "single",
        orchestrator_mode="parallel" if mode == "parallel" else "sequential",
    )
    lines = lines_of(made / "questions.jsonl")[::6]  # the script asks all of them
    found = asyncio.run(score_answers(Reader(settings), lines)).answers
    assert found["right"] + found["rightly refused"] >= 0.7 * len(lines)
    assert found["wrong"] <= 0.05 * len(lines)
    assert found["wrong source"] == 0
