"""The contract that every store keeps. Inherit `StoreContract` and say where the log is:

    class TestMyStore(StoreContract):
        @pytest.fixture
        def place(self, tmp_path: Path) -> StorePlace:
            return MyPlace(tmp_path)             # a class with the methods of `StorePlace`

Nothing here asks how a store works: only what `EventLog` and `LogReader` promise.

The kinds of cases (bounds of a page, counts of nothing, unknown sessions, a refused event between good
neighbours, heads that outlive their writer, large events) are those of Apache Pekko's JournalSpec
(https://github.com/apache/pekko/tree/main/persistence-tck); expected heads, epochs, the chain of digests,
crashes and readers beside writers are callboard's own.
"""

from callboard.replay.testing.stores.catalog import CatalogCases
from callboard.replay.testing.stores.events import StorePlace
from callboard.replay.testing.stores.forks import ForkCases
from callboard.replay.testing.stores.reading import ReadingCases
from callboard.replay.testing.stores.writing import DurabilityCases, WritingCases

__all__ = ["CatalogCases", "ForkCases", "StoreContract", "StorePlace"]


class StoreContract(WritingCases, ReadingCases, DurabilityCases, CatalogCases, ForkCases):
    """Every case, for the store at the fixture `place`."""
