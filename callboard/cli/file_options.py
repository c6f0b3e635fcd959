"""The options for the files that the tools of a session reach."""

import functools
from collections.abc import Callable
from typing import Any

import click

from callboard.actors.protocol.errors import MisuseError
from callboard.cli.errors import misused, refuse_if
from callboard.runtime.files.files import Files


def files_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add `--files` and its companions, which the function gets as one `files`; None without a folder."""

    @functools.wraps(function)
    def call(
        folder: str, may_read: tuple[str, ...], may_write: tuple[str, ...], label: str, **others: Any
    ) -> int:
        return function(files=_files(folder, may_read, may_write, label), **others)

    for add in (_label_option, _write_option, _read_option, _folder_option):
        call = add(call)
    return call


def _files(folder: str, may_read: tuple[str, ...], may_write: tuple[str, ...], label: str) -> Files | None:
    if not folder:
        given = bool(may_read or may_write or label)
        refuse_if(given, "--files-read, --files-write and --files-label need --files FOLDER")
        return None
    try:
        return Files(folder, read=may_read or ["."], write=may_write, files_label=label)
    except MisuseError as error:
        raise misused(str(error)) from None


_folder_option = click.option(
    "--files",
    "folder",
    metavar="FOLDER",
    default="",
    help="Let tools use this folder through ctx.files: read all of it and write nothing, by default.",
)
_read_option = click.option(
    "--files-read",
    "may_read",
    metavar="PATH",
    multiple=True,
    help="Let them read only this file or folder below FOLDER. May be repeated.",
)
_write_option = click.option(
    "--files-write",
    "may_write",
    metavar="PATH",
    multiple=True,
    help="Let them write this file or folder below FOLDER; `.` is all of it. May be repeated.",
)
_label_option = click.option(
    "--files-label",
    "label",
    metavar="LABEL",
    default="",
    help="The label for all files that no tool has written, such as untrusted.",
)
