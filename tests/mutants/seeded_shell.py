"""Mutants of the shell of forks and of memory, which no simulation runs: tests where the code stands find them."""

from collections.abc import Mapping
from typing import Final

from tests.mutants.mutant import Mutant
from tests.mutants.seeded_workers import CLAIMS, CLAUDE, LEASES, SERVER, SHARES


def _mutant(name: str, what: str, module: str, old: str, new: str) -> Mutant:
    return Mutant(name, what, module, old, new, folder="runtime")


CLOCK: Final = (
    _mutant(
        "fork-clock-goes-back",
        "The clock of a fork is set to the time of a recorded answer, also to an earlier one.",
        "forks.playback",
        "        self._ms = max(now, at_ms)\n",
        "        self._ms = at_ms\n",
    ),
    _mutant(
        "time-counted-twice",
        "A clock that runs counts the time before a move again.",
        "forks.playback",
        "        if self._since is not None:\n            self._since = monotonic_ms()\n",
        "",
    ),
    _mutant(
        "time-lost-at-the-stop",
        "A clock that stops forgets the time for which it ran.",
        "forks.playback",
        "        self._ms = self.now_ms()\n",
        "",
    ),
    _mutant(
        "clock-stands-while-asked",
        "The clock of a fork stands while a person is asked.",
        "forks.playback",
        "        elif isinstance(found, Asked):\n            self._working.add(request.seq)\n",
        "        elif isinstance(found, Asked):\n",
    ),
    _mutant(
        "timers-from-now",
        "A timer of a fork counts from now, not from its event.",
        "forks.playback",
        "self.plan.arm(timer, request, at + after_ms)",
        "self.plan.arm(timer, request, self._clock.now_ms() + after_ms)",
    ),
    _mutant(
        "answers-leave-the-clock",
        "A recorded answer does not move the clock of its fork.",
        "forks.playback",
        "                self._clock.move_to(at)\n                if self.copy",
        "                if self.copy",
    ),
)

QUESTIONS: Final = (
    _mutant(
        "yes-keeps-old-reads",
        "A tool with an effect runs after a yes, and recorded reads are reused as before.",
        "forks.playback",
        "        self.plan.is_after_effect = True\n        self._start_missed(request)\n",
        "        self._start_missed(request)\n",
    ),
    _mutant(
        "reuse-runs-the-tool",
        "A person takes the recorded result, and the tool runs.",
        "ports.effect_questions",
        "        elif given is not None:\n",
        "        elif False and given is not None:\n",
    ),
    _mutant(
        "reuse-of-a-spent-result",
        "A person takes a recorded result that another call has.",
        "forks.playback",
        "        if not self.plan.is_left(same):\n",
        "        if self.plan.is_left(same) is None:\n",
    ),
    _mutant(
        "any-answer-fits",
        "A question of a fork takes changed arguments and `always`, and does nothing with them.",
        "ports.effect_questions",
        "        _refuse_misfit(request, asked.same, answer)\n",
        "",
    ),
    _mutant(
        "questions-outlive-a-cancel",
        "The question about a call that was given up stays open.",
        "forks.playback",
        "        is_asked = request.recipient == TOOLS and self._questions.withdraw(request)\n",
        "        is_asked = request.recipient == TOOLS\n",
    ),
)

MEMORY: Final = (
    _mutant(
        "labels-of-the-first-entry",
        "A reader has the labels of the first entry that it gets only.",
        "memory.access",
        "united(*(entry.labels for entry in entries)))",
        "united(*(entry.labels for entry in entries[:1])))",
    ),
    _mutant(
        "one-id-in-all-memories",
        "An entry has the same id in each memory.",
        "memory.access",
        "(name, self._key, str(self._count), text)",
        "(self._key, str(self._count), text)",
    ),
    _mutant(
        "queries-uncleaned",
        "A query reaches the store as the model wrote it.",
        "memory.access",
        "store.recall(name, clean_text(query), limit)",
        "store.recall(name, query, limit)",
    ),
    _mutant(
        "words-stay",
        "The words of a forgotten entry find the next one that takes its place.",
        "memory.sqlite",
        '                file.execute("DELETE FROM words WHERE rowid = ?", row)\n',
        "",
    ),
    _mutant(
        "a-third-is-too-little",
        "An entry of just a third of the best rank is left out.",
        "memory.sqlite",
        "if row[0] * 3 >= rows[0][0]",
        "if row[0] * 3 > rows[0][0]",
    ),
    _mutant(
        "every-term-counts",
        "A query has no limit of terms.",
        "memory.sqlite",
        "terms_of(query)[:TERMS_MAX]",
        "terms_of(query)",
    ),
    _mutant(
        "failed-and-stored",
        "A transaction that fails is committed.",
        "memory.file",
        '            connection.execute("ROLLBACK")\n',
        '            connection.execute("COMMIT")\n',
    ),
)

SHELL: Final[Mapping[str, tuple[Mutant, ...]]] = {
    "tests/runtime/forks": CLOCK,
    "tests/runtime/ports/test_effect_questions.py tests/runtime/forks": QUESTIONS,
    "tests/runtime/memory": MEMORY,
    "tests/actors/cluster/test_leases.py": LEASES,
    "tests/actors/cluster/test_claims.py": CLAIMS,
    "tests/actors/cluster/test_shares.py": SHARES,
    "tests/runtime/test_server_budgets.py": SERVER,
    "tests/runtime/brains/test_claude_requests.py": CLAUDE,
}
"""The mutants, by the tests that find them."""
