import os
import signal
from multiprocessing.connection import Connection

import pytest

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.testing.worker_process import start


def tell(connection: Connection, names: list[str]) -> None:
    """Send the process's signal handling and environment at its start."""
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    connection.send((ignored, [os.environ.get(name) for name in names]))


@pytest.mark.slow
def test_a_process_starts_deaf_to_ctrl_c_and_with_the_variables_it_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ONE", "kept")
    monkeypatch.delenv("TWO", raising=False)
    handler = signal.getsignal(signal.SIGINT)
    process, connection = start(tell, ["ONE", "TWO"], environment={"ONE": "1", "TWO": "2"})
    assert connection.recv() == (True, ["1", "2"])
    process.join()
    connection.close()
    assert (os.environ["ONE"], os.environ.get("TWO")) == ("kept", None)
    assert signal.getsignal(signal.SIGINT) == handler


def test_what_has_no_name_elsewhere_is_refused() -> None:
    with pytest.raises(MisuseError, match="<lambda> is not at the top of a module"):
        start(tell, lambda: None)
