"""Compaction: an agent's conversation becomes shorter before it fills the window of its model.

    clear      the results of older calls become one line each, and the thinking of older replies goes; the
               calls stay
    summary    a turn of its own, which is not counted, asks for a summary of the older messages. It stands
               behind the prompt in the first message, in place of them

An agent posts `Compacted` to itself, and the change takes effect when it handles that. So the next request
names the event in `new`, as it names every event that adds to it.

Rules
  - The request for a summary is the conversation as it was last sent, up to the cut, with one more block of
    text at the end. So services find their prompt cache.
  - The cut lies behind a user message and before an assistant one. The last turns stay as they are, with
    their thinking, so calls and results are never parted.
  - The new message waits (`Pending`): nothing is shortened that no request holds.
  - A summary that is empty, cut off, refused or not shorter changes nothing, and neither does one that calls
    tools. Its calls never run.
  - A compaction has to free a tenth of the window. If nothing does, the agent goes on until its next request
    needs a tenth more, since the need is an upper bound.
  - If a session ends before a compaction takes effect, the conversation stays as it was.
"""

from typing import Literal

import msgspec

from callboard.actors.agent.fallback import Fallback
from callboard.actors.agent.request_prefix import RequestPrefix
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.makers import Origins
from callboard.actors.protocol.profiles import CompactRules, ModelSpec
from callboard.actors.protocol.repair_levels import Repair


class Pending(msgspec.Struct, frozen=True, gc=False):
    """The new user message that waits for a compaction.

    prompt, begun, otherwise: the arguments of `turns.ask_new_turn`. Answers and words stay in the state.
    refused: the message of a request that its service refused as too long, null for none.
    has_prompt: True if it holds the prompt of the running ask.
    """

    prompt: Json = NULL
    begun: tuple[int, ...] = ()
    otherwise: Literal["", "answered"] = ""
    refused: Json = NULL
    has_prompt: bool = False


class Conversation(msgspec.Struct, frozen=True, gc=False):
    """The fields of a state that a compaction replaces. sizes: as in `Compaction`."""

    history: IntMap[Json]
    origins: Origins
    digest: str
    tokens: int
    prefix: RequestPrefix | None
    fallback: Fallback | None
    model: ModelSpec
    repair: Repair | None
    handed: tuple[int, int]
    is_anew: bool
    prompt: int
    sizes: IntMap[int]


class Compaction(msgspec.Struct, frozen=True, gc=False):
    """An agent's part of compaction.

    rules: of its profile.
    prompt: the place of the message with the prompt of the running ask; -1 if no message holds it.
    sizes: the fewest tokens of a message by its place, as the counts of the service tell them.
    counted: the last of these counts, 0 for none. counter: the model that counted. is_counted: False if the
        bound on the input is made of bytes only.
    stalls: the compactions in a row that have freed too little. again_at: the need from which the next one is
        tried, 0 for any.
    summarised: the number of counted turns at the last request for a summary, -1 for none.
    shortened: the number of counted turns when the last compaction took effect, -1 for none: one message
        waits for one compaction.
    is_clear_only: True if the budget has refused a summary.
    pending: the message that waits for a compaction; None if none is under way.
    saved: the whole conversation while a summary of a part of it is asked for.
    ready: the conversation that takes effect with `Compacted`.
    cleared: the messages before this place hold no result that could be cleared.
    """

    rules: CompactRules
    prompt: int = -1
    sizes: IntMap[int] = IntMap()
    counted: int = 0
    counter: str = ""
    is_counted: bool = False
    stalls: int = 0
    again_at: int = 0
    summarised: int = -1
    shortened: int = -1
    is_clear_only: bool = False
    pending: Pending | None = None
    saved: Conversation | None = None
    ready: Conversation | None = None
    cleared: int = 0

    @property
    def summariser(self) -> str:
        """Return the name of the model that writes summaries, empty for the agent's own."""
        return "" if self.rules.model is None else self.rules.model.name
