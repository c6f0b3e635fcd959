"""Score the reader: are its tool calls exact, and are its answers right?

    python -m tests.examples.regreader.score [FOLDER [FLAG...]]

The flags are --orchestrate, --mode parallel, --framework NAME and --show.
Without a folder both generators write one. FOLDER has `corpus/`, `calls.jsonl`, and perhaps
`questions.jsonl`, as a generator writes them.
An expected value stands at a path: `target.page`, `results.0.id`, `notes[label,text]` (these fields of each
entry), `regulations{reg_id=x}.last_page` (the entry with that value), `pages.0.text~` (it holds the text).
"""

import asyncio
import json
import re
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regreader.frameworks import FRAMEWORKS
from regreader.importing import files_of, read_files
from regreader.index import Index
from regreader.reader import Reader, Settings
from regreader.tools import ToolFailure, Tools

from tests.examples.regreader import corpus, real


@dataclass
class Score:
    """The calls and the answers. misses: the mistakes, in words."""

    calls: int = 0
    exact: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    misses: list[str] = field(default_factory=list)


def imported(folder: Path, index: Path | str) -> Index:
    """Import a corpus into a new index."""
    made = Index(index)
    for one in read_files(folder, files_of(folder)):
        if not isinstance(one, str):
            made.put(one)
    return made


def at_path(value: Any, path: str) -> Any:
    """Return the value at a path."""
    for step in re.findall(r"[^.\[{]+|\[[^\]]*\]|\{[^}]*\}", path.rstrip("~")):
        if step[0] == "[":
            names = step[1:-1].split(",")
            value = [[one[name] for name in names] for one in value]
        elif step[0] == "{":
            name, _, wanted = step[1:-1].partition("=")
            value = next(one for one in value if str(one[name]) == wanted)
        else:
            value = value[int(step)] if isinstance(value, list) else value[step]
    return value


def score_calls(tools: Tools, lines: list[dict[str, Any]]) -> Score:
    """Make each call, and compare its result."""
    score = Score()
    for line in lines:
        score.calls += 1
        missed = _missed(tools, line)
        score.exact += not missed
        if missed:
            score.misses.append(f"{line['tool']} {line['arguments']}: {missed}")
    return score


def _missed(tools: Tools, line: dict[str, Any]) -> str:
    try:
        found = tools.by_name()[line["tool"]](**line["arguments"])
    except ToolFailure as error:
        return "" if line["expect"] == {"error": error.code} else str(error)
    for path, wanted in line["expect"].items():
        try:
            got = at_path(found, path)
        except (KeyError, IndexError, TypeError, StopIteration) as error:
            return f"{path}: nothing there ({error!r})"
        if (wanted not in got) if path.endswith("~") else got != wanted:
            return f"{path} is {got!r:.200}, not {wanted!r:.200}"
    return ""


async def score_answers(reader: Reader, lines: list[dict[str, Any]]) -> Score:
    """Ask each question. An answer is right if it holds the texts, and a source names the page."""
    score = Score()
    async with reader:
        for line in lines:
            result = await reader.ask(line["question"], [line["reg_id"]])
            verdict = judged(line, result.success, result.content, result.sources)
            score.answers[verdict] += 1
            if verdict not in ("right", "rightly refused"):
                got = result.content or result.error
                score.misses.append(f"{verdict}: {line['question']} -> {got!r:.160} {result.sources}")
    return score


def judged(line: dict[str, Any], success: bool, content: str, sources: tuple[str, ...]) -> str:
    """Return right, rightly refused, refused, wrong, or wrong source."""
    if line["answer"] is None:
        return "wrong" if success else "rightly refused"
    if not success:
        return "refused"
    if not all(text in content for text in line["answer"]):
        return "wrong"
    place = f"{line['reg_id']} p.{line['page']} "
    return "right" if any(source.startswith(place) for source in sources) else "wrong source"


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file of JSON."""
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines() if text]


def main(folder: Path, *flags: str) -> None:
    """Print the scores of a folder."""
    index = folder / "index.db"
    index.unlink(missing_ok=True)
    tools = Tools(imported(folder / "corpus", index))
    score = score_calls(tools, lines_of(folder / "calls.jsonl"))
    print(f"tool calls: {score.exact} of {score.calls} exact ({score.exact / score.calls:.1%})")
    shown = score.misses
    if (folder / "questions.jsonl").exists():
        settings = Settings(
            index=str(index), orchestrate="--orchestrate" in flags,
            mode="parallel" if "parallel" in flags else "sequential",
            framework=next((name for name in FRAMEWORKS if name in flags), ""),
        )  # fmt: skip
        answers = asyncio.run(score_answers(Reader(settings), lines_of(folder / "questions.jsonl")))
        total = sum(answers.answers.values())
        print(
            f"answers: {total}; "
            + ", ".join(f"{name} {count} ({count / total:.1%})" for name, count in answers.answers.items())
        )
        shown = [*shown, *answers.misses]
    if "--show" in flags:
        print("\n".join(shown))


def score_all() -> None:
    """Score the made corpus in a temporary folder, and the real documents that are here."""
    with tempfile.TemporaryDirectory() as name:
        for flags in (("--orchestrate",), ()):
            print(f"made corpus, {'specialists' if flags else 'one agent'}:")
            corpus.write(Path(name))
            main(Path(name), *flags)
    print("real documents:")
    print(real.told(real.HERE))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]), *sys.argv[2:])
    else:
        score_all()
