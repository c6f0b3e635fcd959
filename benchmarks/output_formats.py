"""Compare the tokens that formats and encodings of tool outputs cost.

    python benchmarks/output_formats.py                       the tables of docs/tool-output.md, as Markdown
    python benchmarks/output_formats.py --write               puts the first one there
    python benchmarks/output_formats.py --tokenizer FOLDER    the error of the estimates, too
    ... --record                                              writes the counts that the suite compares

FOLDER: of the npm package `gpt-tokenizer`, unpacked; node counts the tokens. Everything else needs neither.
The results are those of the recorded runs in tests/data/runs, and made tables of 10 to 10,000 rows.
"""

import argparse
import json
import subprocess
from collections.abc import Iterator
from operator import eq
from pathlib import Path
from statistics import quantiles
from typing import Any, Final, NamedTuple, cast, get_args

import msgspec

from callboard.actors.protocol.token_estimates import estimated_tokens
from callboard.runtime.outputs.encodings import AUTO, encoded
from callboard.runtime.outputs.rendering import Shown, rendered
from callboard.runtime.outputs.tool_output import Encoding, ResponseFormat

ROOT: Final = Path(__file__).parent.parent
RUNS: Final = ROOT / "tests" / "data" / "runs"
PAGE: Final = ROOT / "docs" / "tool-output.md"
COUNTS: Final = ROOT / "tests" / "data" / "tokens.json"
TABLES: Final = {
    "orders": 10, "log lines": 100, "letters": 100, "readings": 1_000, "people": 3_000, "events": 10_000,
}  # fmt: skip
WRITTEN: Final = ("text", "json", "yaml", "xml", "toon")
"""The ways in which a text is written. `text` is prose, code, or lines of a log."""

SENTENCES: Final = (
    "The pump was replaced on Tuesday, and the pressure has been steady since then.",
    "Nobody answered the phone; we shall try again tomorrow (before noon).",
    "Invoice 4711 was paid twice: once by card, once by transfer.",
    "Please send the drawings of the second floor to the site office.",
    'The crew found "asbestos" behind panel C-12 and stopped all work there.',
    "Die Brücke über den Fluss wurde später verstärkt, aber nie vermessen.",
    "Delivery is late: two pallets of bricks, one of roof tiles.",
    "A short circuit in the cellar; the insurance wants photographs.",
    "橋の検査は来週の月曜日に行われます。",
    "See https://example.com/reports/2026/17.pdf for all the measurements.",
)
FORMATS: Final[tuple[ResponseFormat, ...]] = get_args(ResponseFormat)
ENCODINGS: Final[tuple[Encoding, ...]] = get_args(Encoding)
_SMALL: Final = 3_000  # characters of JSON of a result that the suite has
_COUNT: Final = """
const { encode } = require(`${process.argv[1]}/cjs/encoding/${process.argv[2]}.js`);
const texts = JSON.parse(require('fs').readFileSync(0, 'utf8'));
console.log(JSON.stringify(texts.map(text => encode(text, { disallowedSpecial: new Set() }).length)));
"""


class Sample(NamedTuple):
    """A group of results. values: as JSON has them."""

    name: str
    values: list[Any]


def results(path: Path) -> list[Any]:
    """Return the results of the tools of a recorded run; those that are JSON as values."""
    run = json.loads(path.read_text())
    lives = run.get("agents") or run["episodes"]
    found = [one["content"] for life in lives for item in life["items"] for one in item.get("results", ())]
    return [_value(text) for text in map(_text, found) if text]


def _text(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(block.get("text", "")) for block in content)
    return str(content)


def _value(text: str) -> Any:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return value if isinstance(value, dict | list) else text


def made_table(name: str, rows: int) -> list[dict[str, Any]]:
    """Return a made table; the same on every machine."""
    makers = {
        "orders": lambda n: {"id": n, "customer": f"C-{n * 37 % 991:03}", "total": n * 1999 % 50_000 / 100,
                             "paid": n % 3 == 0},
        "log lines": lambda n: {"at": f"2026-05-{n % 28 + 1:02}T08:{n % 60:02}:00Z",
                                "level": ("info", "warning", "error")[n % 3],
                                "message": f"request {n} took {n * 7 % 900} ms, retried: {n % 4}"},
        "letters": lambda n: {"id": n, "from": ("Ada", "Grace", "Linus")[n % 3],
                              "subject": SENTENCES[n % 7][: 20 + n % 20].strip(),
                              "text": " ".join(SENTENCES[(n + k) % 10] for k in range(n % 4 + 1))},
        "readings": lambda n: {"sensor": n % 16, "value": (n * 7919 % 10_007) / 100, "valid": n % 97 != 0},
        "people": lambda n: {"id": n, "name": f"Name {n}", "mail": f"name{n}@example.com",
                             "city": ("Lyon", "Turin", "Porto", "Gent")[n % 4], "note": None},
        "events": lambda n: {"seq": n, "kind": ("Begin", "CallTool", "ToolReturned")[n % 3],
                             "agent": f"host.{n % 9}", "bytes": n * 31 % 4_096},
    }  # fmt: skip
    return [makers[name](number) for number in range(1, rows + 1)]


def samples() -> Iterator[Sample]:
    """Yield the recorded runs, then the tables."""
    for path in sorted(RUNS.glob("*.json")):
        yield Sample(path.stem, results(path))
    for name, rows in TABLES.items():
        yield Sample(f"{name}, {rows:,} rows", [made_table(name, rows)])


def estimates(sample: Sample, form: ResponseFormat, encoding: Encoding) -> int:
    """Return the estimated tokens of all results of a sample."""
    shown = [Shown("tool", value, call_id="toolu_01") for value in sample.values]
    return sum(rendered(one, form, encoding).tokens_estimated for one in shown)


def table_of_formats(found: list[Sample]) -> Iterator[str]:
    """Yield the lines of a table: estimated tokens by format and encoding."""
    yield "| results | concise | standard | detailed | same, auto | raw, JSON | YAML | XML | TOON | auto |"
    yield "|---|" + "--:|" * 9
    for sample in found:
        short = [estimates(sample, form, "json") for form in FORMATS[:3]]
        rest = [estimates(sample, "detailed", "auto")]
        rest += [estimates(sample, "raw", encoding) for encoding in ENCODINGS]
        yield f"| {sample.name} | " + " | ".join(f"{count:,}" for count in (*short, *rest)) + " |"


def written(found: list[Sample]) -> dict[str, list[str]]:
    """Return every text of the samples, by the way in which it was written."""
    texts: dict[str, list[str]] = {kind: [] for kind in WRITTEN}
    for sample in found:
        for value in sample.values:
            if isinstance(value, str):
                texts["text"].append(value)
                continue
            for kind in texts:
                if kind != "text":
                    texts[kind].append(encoded(value, cast(Encoding, kind), "tool").text)
    return texts


def tokens(folder: Path, texts: list[str], name: str = "o200k_base") -> list[int]:
    """Count the tokens of texts with a tokenizer of a folder."""
    done = subprocess.run(
        ["node", "-e", _COUNT, str(folder.resolve()), name],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=True,
    )
    counts: list[int] = json.loads(done.stdout)
    return counts


def table_of_errors(found: list[Sample], folder: Path) -> Iterator[str]:
    """Yield the lines of a table: the errors of the estimates."""
    yield "| written as | texts | tokens | error of the sum | median | 90th percentile |"
    yield "|---|" + "--:|" * 5
    for kind, texts in written(found).items():
        counts = tokens(folder, texts)
        guesses = [estimated_tokens(text) for text in texts]
        off = [abs(guess - count) / count for guess, count in zip(guesses, counts, strict=True) if count]
        deciles = quantiles(off, n=10) if len(off) > 1 else off * 9
        total = (sum(guesses) - sum(counts)) / sum(counts)
        figures = f"{sum(counts):,} | {total:+.0%} | {deciles[4]:.0%} | {deciles[8]:.0%}"
        yield f"| {kind} | {len(texts)} | {figures} |"


def choices(found: list[Sample], folder: Path, name: str = "o200k_base") -> str:
    """Return how often `auto` chose the cheapest encoding by the tokenizer, and the cost where it did not."""
    values = [value for sample in found for value in sample.values if not isinstance(value, str)]
    texts = {kind: [encoded(one, kind, "tool").text for one in values] for kind in AUTO}
    counts = {kind: tokens(folder, texts[kind], name) for kind in AUTO}
    chosen = [encoded(one, "auto", "tool").encoding for one in values]
    best = [min(column) for column in zip(*counts.values(), strict=True)]
    taken = [counts[kind][place] for place, kind in enumerate(chosen)]
    right = sum(map(eq, best, taken))
    above = sum(taken) / sum(best) - 1
    return f"{name}: the cheapest for {right} of {len(values)} results; {above:.1%} above the cheapest in all"


def record(found: list[Sample], folder: Path) -> None:
    """Write the small results of the samples, with their tokens in each encoding, for the suite."""
    values = [value for sample in found for value in sample.values if not isinstance(value, str)]
    values += [made_table(name, rows) for name in TABLES for rows in (1, 3, 12)]
    small = [one for one in values if len(json.dumps(one)) <= _SMALL]
    counts = {kind: tokens(folder, [encoded(one, kind, "tool").text for one in small]) for kind in AUTO}
    rows = [
        {"value": value, "tokens": {kind: counts[kind][place] for kind in AUTO}}
        for place, value in enumerate(small)
    ]
    COUNTS.write_text("[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n")


def with_table(page: str, found: list[Sample]) -> str:
    """Return a page with the table of formats in its place, which begins with the heading of the table."""
    lines = list(table_of_formats(found))
    before, after = page.split(lines[0])
    rest = after.split("\n\n", 1)[1]
    return before + "\n".join(lines) + "\n\n" + rest


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tokenizer", type=Path, help="the folder of gpt-tokenizer")
    parser.add_argument("--record", action="store_true", help="write the counts for the suite")
    parser.add_argument("--write", action="store_true", help="rewrite the table of the page")
    given = parser.parse_args()
    folder, found = given.tokenizer, list(samples())
    if given.write:
        PAGE.write_text(with_table(PAGE.read_text(), found))
    print("\n".join(table_of_formats(found)))
    if folder:
        print("\n" + "\n".join(table_of_errors(found, folder)))
        print(choices(found, folder))
        print(choices(found, folder, "cl100k_base"))
    if folder and given.record:
        record(found, folder)


if __name__ == "__main__":
    main()
