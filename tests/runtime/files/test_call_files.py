from pathlib import Path

import pytest

from callboard.actors.protocol.bundles import Allowed, Denied, LabelRule, Rights
from callboard.actors.protocol.errors import FileError
from callboard.actors.protocol.layers import Layer, Layers
from callboard.actors.session.file_labels import FileLabels
from callboard.runtime.files.call_files import CallFiles
from callboard.runtime.files.files import Files
from callboard.runtime.tools.access import Access


def layers(*allowed: Allowed) -> Layers:
    return tuple(Layer(f"bundle {place}", Rights(one)) for place, one in enumerate(allowed, 1))


def of_call(root: Path, access: Access, history: FileLabels | None = None) -> CallFiles:
    return CallFiles(Files(root, write=["docs", "drafts"]), access, history or FileLabels())


def test_every_bundle_narrows_the_files_of_the_session(root: Path) -> None:
    held = layers(Allowed(read=("docs", "a"), write=("docs", "a")), Allowed(read=("docs", "a/b")))
    files = of_call(root, Access(held))
    assert (files.area.read, files.area.write) == (("a/b", "docs"), ("docs",))
    assert files.read_text("a/b/two") == "inside: a/b/two"
    with pytest.raises(FileError, match="reading 'a/one' is denied by bundle 2"):
        files.read_text("a/one")
    with pytest.raises(FileError, match="may not be written; allowed are: docs, drafts"):
        files.write_text("a/one", "x")
    with pytest.raises(FileError, match="writing 'drafts/x' is denied by bundle 1"):
        files.write_text("drafts/x", "x")
    assert [entry.path for entry in files.entries("a")] == ["a/b"]


def test_a_part_of_the_files_is_confined_alike(root: Path) -> None:
    access = Access(layers(Allowed(read=("docs",), write=())))
    part = of_call(root, access).narrowed(["docs", "a"], ["docs"])
    with pytest.raises(FileError, match="reading 'a/one' is denied"):
        part.read_text("a/one")
    with pytest.raises(FileError, match="writing 'docs/new' is denied"):
        part.write_text("docs/new", "x")


def test_a_file_that_a_call_wrote_gives_its_labels_to_the_reader(root: Path) -> None:
    history = FileLabels()
    writer = Access((), ("secret",))
    of_call(root, writer, history).write_text("docs/new", "words")
    assert [(use.entry, use.name, use.labels) for use in writer.uses] == [("write", "docs/new", ("secret",))]
    reader = Access()
    assert of_call(root, reader, history).read_text("docs//new") == "words"
    assert reader.result_labels == ("secret",)


def test_a_file_that_was_changed_past_the_context_is_unknown(root: Path) -> None:
    history, reader = FileLabels(), Access()
    of_call(root, Access((), ("secret",)), history).write_text("docs/new", "words")
    (root / "docs/new").write_text("other words")
    of_call(root, reader, history).read_text("docs/new")
    assert reader.result_labels == ("secret", "unknown")


def test_a_label_that_was_read_closes_the_files_for_the_rest_of_the_call(root: Path) -> None:
    history = FileLabels()
    of_call(root, Access((), ("secret",)), history).write_text("docs/new", "words")
    files = of_call(root, Access((Layer("host", Rights(rules=(LabelRule("secret", "files"),))),)), history)
    assert files.entries()
    files.read_text("docs/new")
    for attempt in (files.entries, lambda: files.write_text("docs/x", "1"), lambda: files.read_text("a/one")):
        with pytest.raises(FileError, match="once the label 'secret' was read"):
            attempt()


def test_an_agent_without_the_capability_sees_no_names(root: Path) -> None:
    held = (Layer("host", Rights(denied=Denied(capabilities=("files",)))),)
    with pytest.raises(FileError, match="capability 'files' is denied by host"):
        of_call(root, Access(held)).entries()


def test_a_call_that_has_ended_writes_nothing(root: Path) -> None:
    access = Access()
    files = of_call(root, access)
    access.end()
    with pytest.raises(FileError, match="has its answer already"):
        files.write_text("docs/late", "x")
    assert not (root / "docs/late").exists()
