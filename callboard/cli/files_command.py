"""`callboard files`: the folder of a session as of an event, one of its files, and putting files back."""

import sys
from collections.abc import Iterable

import click
from msgspec import to_builtins

from callboard.actors.session.file_history import Recorded
from callboard.cli.errors import Failure, refuse_if
from callboard.cli.options import check_option, json_option, log_option
from callboard.cli.output import emit, emit_json, emit_lines, table, talk
from callboard.cli.recordings import open_place, say_checked
from callboard.cli.terminal_escape import safe_line
from callboard.replay.folders import files_of
from callboard.runtime.log.recorded_files import WHY, RecordedFiles

_HEADINGS = ("PATH", "BYTES", "VERSION", "EVENT", "")
_DIGEST_CHARS = 12


@click.command("files")
@click.argument("place", metavar="[SESSION[#SEQ]]", default="")
@click.argument("path", metavar="[PATH]", default="")
@click.option("--versions", is_flag=True, help="List every version up to the event, not only the newest.")
@click.option(
    "--files", "folder", metavar="FOLDER", default="", help="The folder today: list its other files too."
)
@click.option(
    "--restore", "target", metavar="FOLDER", default="", help="Put the files back into this folder."
)
@click.option("--force", is_flag=True, help="With --restore: overwrite changes that the log does not know.")
@click.option(
    "--skip-lost", is_flag=True, help="With --restore: leave files that the log does not have as they are."
)
@check_option
@log_option
@json_option
def files(
    place: str,
    path: str,
    versions: bool,
    folder: str,
    target: str,
    force: bool,
    skip_lost: bool,
    check: bool,
    log: str,
    as_json: bool,
) -> int:
    """List the files of a session as of an event, print one of them, or put them back into a folder.

    The list has the files that tools wrote or found changed. For this the session must have kept a history
    of its files, by Files(history=True) or --files-history. With --files, the other files of that folder are
    listed "as of today". With PATH, that file is printed as it was. --restore writes and removes only files
    of the list, and does nothing if one of them has changes that the log does not know. A version in which a
    secret was found is never put back.

    \b
    Examples:
      callboard files 2026
      callboard files 2026#41 src/main.py
      callboard files 2026#41 --restore project
    """
    refuse_if((force or skip_lost) and not target, "--force and --skip-lost need --restore FOLDER")
    recording, seq = open_place(log, place)
    # A folder is not overwritten by events that nobody has checked.
    found = files_of(recording, seq, is_checked=check or bool(target))
    if not found.is_kept:
        raise Failure(
            f"session {found.session_id} keeps no history of its files; record it with Files(history=True), "
            "or with --files FOLDER --files-history"
        )
    if target:
        return _restored(found, target, force=force, skip_lost=skip_lost, as_json=as_json)
    if path:
        sys.stdout.buffer.write(found.read(path))
        return 0
    rows = _versions(found) if versions else list(found.there.values())
    if as_json:
        emit_json(_json(found, rows, folder))
        return 0
    _emit_list(found, rows, folder)
    say_checked(is_checked=check)
    return 0


def _versions(found: RecordedFiles) -> list[Recorded]:
    """Return all versions up to the event, in the order of the log."""
    rows = [one for versions in found.history.versions.values() for one in versions if one.seq <= found.at]
    return sorted(rows, key=lambda row: row.seq)


def _emit_list(found: RecordedFiles, rows: Iterable[Recorded], folder: str) -> None:
    lines = [_row(one, found.at) for one in rows]
    lines += [(path, "", "", "", "as of today") for path in _others(found, folder)]
    emit_lines(table(lines, _HEADINGS, right=(1, 3)))
    for gap in found.gaps:
        talk(f"gap at #{gap.seq}: {safe_line(gap.why)}")


def _row(one: Recorded, at: int) -> tuple[str, ...]:
    version = one.version
    marks = [WHY[version.left_out]] if version.left_out else []
    marks += ["no file"] if not version.is_there else []
    marks += ["found"] if version.is_found else []
    marks += ["late: another call wrote after it"] if version.is_late else []
    event = f"before #{one.seq}" if one.seq > at else f"#{one.seq}"
    return (version.path, f"{version.bytes:,}", version.digest[:_DIGEST_CHARS], event, "; ".join(marks))


def _others(found: RecordedFiles, folder: str) -> list[str]:
    """Return the files of the folder that the history does not know, as it is today."""
    if not folder:
        return []
    from callboard.runtime.files.files import Files  # here: a list of the log alone reaches no files
    from callboard.runtime.files.folder_scan import scan

    return sorted(path for path in scan(Files(folder)).files if path not in found.files)


def _json(found: RecordedFiles, rows: Iterable[Recorded], folder: str) -> dict[str, object]:
    return {
        "session": found.session_id,
        "at": found.at,
        "files": [{"seq": one.seq, **to_builtins(one.version)} for one in rows],
        "as_of_today": _others(found, folder),
        "gaps": [gap._asdict() for gap in found.gaps],
    }


def _restored(found: RecordedFiles, target: str, *, force: bool, skip_lost: bool, as_json: bool) -> int:
    from callboard.runtime.files.files import Files
    from callboard.runtime.files.restoring import restore

    done = restore(Files(target, write=["."]), found, force=force, skip_lost=skip_lost)
    if as_json:
        emit_json(done._asdict())
        return 0
    for path in done.written:
        emit(f"wrote {safe_line(path)}")
    for path in done.removed:
        emit(f"removed {safe_line(path)}")
    for path in done.skipped:
        talk(f"left as it is: {safe_line(path)}: {WHY[found.files[path].version.left_out]}")
    for gap in found.gaps:
        talk(f"gap at #{gap.seq}: {safe_line(gap.why)}")
    if not (done.written or done.removed):
        talk(f"the folder has the files as of event {found.at} already")
    return 0
