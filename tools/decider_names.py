"""The names that `tools.lint_deciders` looks for, and its exceptions with their reasons."""

from collections.abc import Mapping
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A list of pure modules and not of impure ones, so that a new module is refused until it was looked at.
PURE: Final = _words("""
    __future__ bisect callboard collections dataclasses difflib enum functools hashlib heapq itertools math
    msgspec re types typing
""")
"""Modules without a clock, chance, threads or I/O."""

# The names are those that the sandbox of Temporal's Python SDK restricts: github.com/temporalio/sdk-python,
# temporalio/worker/workflow_sandbox/_restrictions.py.
BLOCKED: Final[Mapping[str, str]] = {
    **dict.fromkeys(_words("datetime sched time timeit zoneinfo"), "knows the time"),
    **dict.fromkeys(_words("random secrets uuid"), "draws chance"),
    **dict.fromkeys(_words("asyncio concurrent multiprocessing queue signal threading"), "runs meanwhile"),
    **dict.fromkeys(_words("getpass locale os platform pwd site sys sysconfig"), "knows the machine"),
    **dict.fromkeys(
        _words("""
            bz2 curses dbm filecmp fileinput ftplib getopt gettext glob gzip http imaplib io linecache logging
            lzma marshal mmap pathlib pickle poplib readline select selectors shelve shutil smtplib socket
            socketserver sqlite3 ssl subprocess tarfile tempfile urllib warnings webbrowser xmlrpc zipfile
        """),
        "reads or writes",
    ),
    **dict.fromkeys(_words("ctypes gc importlib inspect weakref"), "sees more than it is given"),
}
"""Module -> the reason for its refusal."""

BUILTINS: Final = _words("""
    __import__ breakpoint compile dir eval exec globals hash id input locals open print vars
""")
"""Names that no decider calls or passes on."""

FLOATS: Final = _words("float complex fsum sqrt exp log log2 log10 pow sin cos tan fmod hypot")
"""Functions that return floats."""

CHANGERS: Final = _words("""
    add append appendleft clear discard extend extendleft insert pop popitem popleft remove reverse setdefault
    sort update
""")
"""Methods that change their object."""

EXCEPTIONS: Final[Mapping[tuple[str, str, str], str]] = {
    ("session/budget_scope.py", "BudgetState", "float"): "dollars for people, which no decision reads",
    ("session/budget_scope.py", "ScopeBooks.state", "float"): "dollars for people, which no decision reads",
    (
        "session/usage_books.py",
        "UsageBooks._charge",
        "clock",
    ): "not a decider: it sums the usage of a day up",
    ("protocol/near_names.py", "", "float"): "the likeness of two names, for the words of an error only",
    (
        "session/cached_results.py",
        "CachedResults.on_answer",
        "clock",
    ): "not a decider: it tells the tools port how old a result is",
    (
        "session/cached_results.py",
        "CachedResults.find",
        "clock",
    ): "not a decider: it tells the tools port how old a result is",
    (
        "protocol/telemetry.py",
        "Metric.__post_init__",
        "float",
    ): "a figure of a tool, which no decision reads",
    (
        "session/port_gate.py",
        "PortGate._arm",
        "clock",
    ): "not a decider: it tells the clock port when a timer is due",
    (
        "session/recorded_answers.py",
        "RecordedAnswers._answer",
        "clock",
    ): "not a decider: it tells the driver of a fork when an answer came",
    (
        "session/fork_plan.py",
        "planned_again",
        "clock",
    ): "not a decider: the event to fork at is named `at`",
    (
        "session/recorded_answers.py",
        "_changed_input",
        "clock",
    ): "not a decider: it posts an input again, with the time",
    (
        "session/playback.py",
        "Repost.at",
        "clock",
    ): "not a decider: a fork's clock follows the times of its origin",
    (
        "session/playback.py",
        "Playback.arm",
        "clock",
    ): "not a decider: a fork's clock follows the times of its origin",
    (
        "session/playback.py",
        "Playback.next_due",
        "clock",
    ): "not a decider: a fork's clock follows the times of its origin",
    (
        "session/playback.py",
        "Playback._answers",
        "clock",
    ): "not a decider: a fork's clock follows the times of its origin",
    (
        "session/playback.py",
        "Playback._firings",
        "clock",
    ): "not a decider: a fork's clock follows the times of its origin",
    (
        "session/playback.py",
        "Playback._given",
        "clock",
    ): "not a decider: a fork's clock follows the times of its origin",
    (
        "session/playback.py",
        "Playback._take_answers",
        "clock",
    ): "not a decider: a fork's clock follows the times of its origin",
    (
        "session/playback.py",
        "_thing",
        "clock",
    ): "not a decider: a fork's clock follows the times of its origin",
    (
        "session/permissions.py",
        "expires_at",
        "clock",
    ): "not a decider: it tells the approvals port when a question expires",
    (
        "session/recovery.py",
        "_Recovery.__init__",
        "clock",
    ): "not a decider: it posts as the board does, with the time",
    (
        "session/recovery.py",
        "_Recovery.post",
        "clock",
    ): "not a decider: it posts as the board does, with the time",
    (
        "protocol/limits.py",
        "Limits.__post_init__",
        "float",
    ): "the user's own figures, checked and kept, never summed",
    (
        "protocol/limits.py",
        "millis",
        "float",
    ): "seconds as the user gives them become whole milliseconds, once",
    ("protocol/limits.py", "", "float"): "defaults in seconds, which `millis` reads",
    ("protocol/usage.py", "Usage.cost_usd", "float"): "for people who read an outcome; no decider calls it",
}
"""(file, function, rule) -> the reason for the exception."""
