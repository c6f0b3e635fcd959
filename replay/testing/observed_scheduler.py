"""A scheduler with an observer, which is called before and after each run.

Campaigns look up seldom, every so many runs. What wants to show progress, to stop at once, or to see every
run goes between a campaign and its scheduler, and changes nothing that is picked.
"""

from collections.abc import Callable, Sequence

from callboard.replay.testing.schedulers.scheduler import Scheduler
from callboard.replay.testing.world import Move, World


class ObservedScheduler:
    """The same scheduler. begins: asked before each run, whether there is to be one. finishes: told of each.

    is_stopped: there was not to be one, so it is not the scheduler that has tried everything.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        begins: Callable[[], bool] = lambda: True,
        finishes: Callable[[World], None] = lambda world: None,
    ) -> None:
        self._scheduler = scheduler
        self._begins = begins
        self._finishes = finishes
        self.choose: Callable[[Sequence[Move]], Move | None] = scheduler.choose
        self.is_stopped = False

    @property
    def name(self) -> str:
        """Return the name of the observed scheduler."""
        return self._scheduler.name

    def begin(self, world: World) -> bool:
        """Begin the run, unless there is not to be one."""
        if not self._begins():
            self.is_stopped = True
            return False
        is_begun = self._scheduler.begin(world)
        self.choose = self._scheduler.choose  # a portfolio's is that of the part whose turn it is
        return is_begun

    def finish(self, world: World) -> None:
        """Tell both."""
        self._scheduler.finish(world)
        self._finishes(world)
