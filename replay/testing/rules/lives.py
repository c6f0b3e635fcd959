"""The lives of the agents of a session, as the rules of whole logs see them."""

from typing import TypeAlias

import msgspec

from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin, TurnRequested
from callboard.actors.protocol.profiles import ModelSpec, Profile

Call: TypeAlias = tuple[str, int, int]
"""The caller, its turn, and the call's index in it; an ask is (client, the seq of its `Ask`, 0)."""


class Life(msgspec.Struct, eq=False):
    """One life of an agent: from its Begin, of this seq, to its Finished or Stopped."""

    address: str
    seq: int
    begin: Begin
    profile: Profile
    call: Call  # the delegation or ask that it works on
    limits: Limits  # those to which the supervisor holds it: a resume changes the host's
    ended_by: int = 0  # the event whose handling ended it, as far as the log tells by now; 0 while it runs
    is_over: bool = False
    turns: int = 0
    invalid: int = 0  # its invalid reports so far

    @property
    def is_program(self) -> bool:
        """Return whether its steps cost nothing."""
        return self.begin.model.is_program

    @property
    def turns_max(self) -> int:
        """Return the number of turns that it may take."""
        return self.most("max_steps" if self.is_program else "max_iterations")

    def asked(self, wish: TurnRequested) -> ModelSpec:
        """Return the model of which a turn is requested."""
        rules = self.profile.compact
        if wish.purpose and rules is not None and rules.model is not None:
            return rules.model
        return self.begin.model.spec_named(wish.model)

    @property
    def reports_max(self) -> int:
        """Return the number of its reports that may be invalid."""
        return 1 if self.is_program else self.most("max_report_attempts", 1)

    def most(self, limit: str, default: int = 0) -> int:
        """Return a limit that its Begin states, which the agent itself keeps."""
        return getattr(self.begin.limits, limit) or default

    def bound(self, limit: str) -> int:
        """Return a limit that the supervisor keeps for it."""
        return getattr(self.limits, limit) or 0
