"""Real documents by others, with questions written from them, and the score of the offline answers.

    python -m tests.examples.regreader.real FOLDER

fetches the documents from Debian packages into FOLDER (it needs `apt-get` and `dpkg`, and installs nothing)
and scores all questions. `documents/sources.json` names the package and the path of each, and if it was held
out while the reader was written; `documents/questions.jsonl` has the texts that an answer must hold, null for
a question without an answer. Four documents are in `documents/`: their licences allow verbatim copies.
"""

import asyncio
import gzip
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

import msgspec
from regreader.importing import files_of, read_files
from regreader.index import Index
from regreader.reader import Reader, Settings

HERE: Final = Path(__file__).parent / "documents"
SOURCES: Final[dict[str, dict[str, Any]]] = msgspec.json.decode((HERE / "sources.json").read_bytes())
QUESTIONS: Final[list[dict[str, Any]]] = [
    msgspec.json.decode(line) for line in (HERE / "questions.jsonl").read_bytes().splitlines()
]


def fetch(folder: Path) -> None:
    """Unpack the packages into a folder, and copy the documents beside each other."""
    (folder / "documents").mkdir(parents=True, exist_ok=True)
    for package in sorted({source["package"] for source in SOURCES.values()}):
        subprocess.run(["apt-get", "download", package], cwd=folder, check=True)
        (archive,) = folder.glob(f"{package}_*.deb")
        subprocess.run(["dpkg", "-x", archive.name, "unpacked"], cwd=folder, check=True)
    for name, source in SOURCES.items():
        path = folder / "unpacked" / source["path"]
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        suffix = ".html" if path.suffix == ".html" else ".txt"
        (folder / "documents" / f"{name}{suffix}").write_bytes(data)


def verdicts(folder: Path, *, orchestrate: bool = True) -> list[tuple[str, dict[str, Any], str]]:
    """Return each question about the documents of a folder with its verdict and its answer."""
    index = folder / "index.db"
    index.unlink(missing_ok=True)
    made = Index(index)
    files = [path for path in files_of(folder) if path.suffix in (".txt", ".html")]
    names = set[str]()
    for one in read_files(folder, files):
        if not isinstance(one, str):
            made.put(one)
            names.add(one.id)
    made.close()

    async def body() -> list[tuple[str, dict[str, Any], str]]:
        found = []
        async with Reader(Settings(str(index), orchestrate=orchestrate)) as reader:
            for line in QUESTIONS:
                if line["reg_id"] in names:
                    result = await reader.ask(line["question"], [line["reg_id"]])
                    found.append((_verdict(line, result.success, result.content), line, result.content))
        return found

    try:
        return asyncio.run(body())
    finally:
        index.unlink()


def _verdict(line: dict[str, Any], success: bool, content: str) -> str:
    if line["answer"] is None:
        return "answered, though there is no answer" if success else "rightly refused"
    if not success:
        return "refused"
    return "right" if all(text.lower() in content.lower() for text in line["answer"]) else "wrong"


def told(folder: Path) -> str:
    """Return the counts of the verdicts, of all documents and of those held out."""
    found = verdicts(folder)
    parts = {"all": found, "held out": [one for one in found if SOURCES[one[1]["reg_id"]]["held_out"]]}
    lines = []
    for name, some in parts.items():
        counts = Counter(verdict for verdict, _, _ in some)
        lines.append(f"{name}: " + ", ".join(f"{verdict} {count}" for verdict, count in counts.most_common()))
    missed = [one for one in found if one[0] not in ("right", "rightly refused", "refused")]
    wrong = [f"{verdict}: {line['question']} -> {answer!r:.200}" for verdict, line, answer in missed]
    return "\n".join([*lines, *wrong])


if __name__ == "__main__":
    fetch(Path(sys.argv[1]))
    print(told(Path(sys.argv[1]) / "documents"))
