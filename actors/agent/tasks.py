"""The background tasks of an agent, and all that it has yet to hear.

A task is a delegation that runs while its parent goes on. `task` starts one; `Delegated` answers that call
with the address, which names the task. Its end is no answer to a call: it becomes words.

Rules
  - No request holds yet what an agent has yet to hear: the answers to its calls (`OpenCalls.answers`), and
    words, which are ends of its tasks and texts of a client. Its next new request holds all of it.
  - Answers keep the order of the calls, words that of the agent's inbox.
  - An agent that ends keeps answers and ends of tasks for the next ask. Texts of a client are refused then.
  - A task is known by the ordinal in its address: that of its first agent.
"""

from typing import Final

import msgspec

from callboard.actors.protocol.addresses import HOST, child_of, names_agent, parent_of, place_of
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.intmap import IntMap


class Task(msgspec.Struct, frozen=True, gc=False):
    """A background task that runs: the turn and call of its `Delegate`."""

    turn: int
    call: int


class Wait(msgspec.Struct, frozen=True, gc=False):
    """The reason for which an agent keeps a call open: it waits until tasks have ended.

    left: the tasks that it waits for. is_every: it waits for every task, also those that its reply starts.
    is_any: the first end answers it. is_cancel: it is a `task_cancel`, which words of a client do not answer.
    """

    left: IntMap[Task]
    is_every: bool = False
    is_any: bool = False
    is_cancel: bool = False


class Unheard(msgspec.Struct, frozen=True, gc=False):
    """An answer, the end of a task or a text of a client that no request holds yet.

    block: for the model. seq: of the event that brought it, 0 for none. number: of the `Told`, else 0.
    """

    block: Json
    seq: int = 0
    number: int = 0


NOTHING_UNHEARD: Final[IntMap[Unheard]] = IntMap()


class Background(msgspec.Struct, frozen=True, gc=False):
    """The tasks and words of an agent.

    tasks: those that run, by ordinal. words: in the order of the inbox. tells: the number of those that are
    of a client.
    """

    tasks: IntMap[Task] = IntMap()
    words: IntMap[Unheard] = NOTHING_UNHEARD
    tells: int = 0

    @property
    def has_ends(self) -> bool:
        """Return True if the end of a task is unheard."""
        return self.words.size > self.tells

    @property
    def has_tells(self) -> bool:
        """Return True if words of a client are unheard."""
        return self.tells > 0


NO_BACKGROUND: Final = Background()


def ordinal_of(parent: str, address: str) -> int:
    """Return the ordinal in the address of a parent's child; -1 for any other text."""
    if not names_agent(address) or address == HOST or parent_of(address) != parent:
        return -1
    return place_of(address)[1]


def addresses(parent: str, background: Background) -> list[str]:
    """Return the addresses of the tasks that run, in the order of their starts."""
    return [child_of(parent, ordinal) for ordinal, _ in background.tasks.items()]


def with_word(background: Background, word: Unheard) -> Background:
    """Add words behind those that are unheard."""
    return msgspec.structs.replace(
        background, words=background.words.append(word), tells=background.tells + (word.number > 0)
    )


def at_rest(background: Background) -> Background:
    """Return what an agent that has ended keeps: unheard ends, and the tasks whose ends are still to come."""
    if background is NO_BACKGROUND:
        return background
    return Background(tasks=background.tasks, words=words_of(background.words))


def begun(background: Background) -> Background:
    """Return what an agent that begins keeps: its unheard words."""
    return Background(words=background.words) if background.words.size else NO_BACKGROUND


def words_of(*parts: IntMap[Unheard]) -> IntMap[Unheard]:
    """Return the ends of tasks among these words, in order. Words of a client are dropped."""
    kept = NOTHING_UNHEARD
    for words in parts:
        for word in words.values():
            if not word.number:
                kept = kept.append(word)
    return kept
