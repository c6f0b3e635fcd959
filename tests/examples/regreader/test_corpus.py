"""The made corpus: every tool call is exact, and answers are right or refused."""

import asyncio
from pathlib import Path

import pytest
from regreader.index import Index
from regreader.reader import Reader, Settings
from regreader.tools import Tools

from tests.examples.regreader import corpus
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
    score = score_calls(Tools(Index(made / "index.db")), lines_of(made / "calls.jsonl"))
    assert score.calls > 1_000
    assert score.misses == []


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sequential", "parallel", "single"])
def test_offline_answers_are_right_or_refused(made: Path, mode: str) -> None:
    settings = Settings(
        index=str(made / "index.db"),
        orchestrate=mode != "single",
        mode="parallel" if mode == "parallel" else "sequential",
    )
    lines = lines_of(made / "questions.jsonl")[::6]  # the script asks all of them
    found = asyncio.run(score_answers(Reader(settings), lines)).answers
    assert found["right"] + found["rightly refused"] >= 0.7 * len(lines)
    assert found["wrong"] <= 0.05 * len(lines)
    assert found["wrong source"] == 0
