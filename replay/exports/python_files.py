"""A recorded session as Python: a scenario of the testing kit, or a test that replays the recording.

Foreign text stands in these files as literals only, as `repr` writes them: none of it is code.
"""

import re
from collections.abc import Iterable, Iterator
from pprint import pformat
from typing import Final

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.events import Event
from callboard.replay.exports.recorded_parts import recorded_parts

_WIDTH: Final = 100

_SCENARIO: Final = '''\
"""A recorded session as a scenario: its agents and recorded answers, in other orders and with faults.

    callboard explore {file}:scenario             with faults: give `faults="all"` below
    python {file}                                 one run, as a chart

Written by `callboard export --format scenario`. Change answers here to see what would follow from them.
"""

from callboard.testing import RecordedScenario

# fmt: off
'''
_TEST: Final = '''\
"""A recorded session, replayed strictly: no model is called, and no tool runs.

After an intended change of the agents:  pytest --callboard-update
It writes the recording again, unless a decision differs: then record the session again, and export it.

Written by `callboard export --format pytest`.
"""


def test_{name}(recording):
    # {about}
    recording({arguments})
'''


def scenario_file(session_id: str, events: Iterable[Event], file: str) -> Iterator[str]:
    """Yield the text of a Python file with the scenario of a session. file: its name.

    Raises MisuseError for a session that no scenario can be made of.
    """
    parts = recorded_parts(session_id, events)._asdict()
    yield _SCENARIO.format(file=_plain(file))
    yield f"SESSION = {_literal(session_id)}\n"
    for name, value in parts.items():
        yield f"\n{name.upper()} = {_literal(value)}\n"
    given = "".join(f"    {name}={name.upper()},\n" for name in parts)
    yield f"\n# fmt: on\nscenario = RecordedScenario(\n{given}    faults=None,\n    name=SESSION,\n)\n"
    yield '\nif __name__ == "__main__":\n    print(scenario.simulate())\n'


def regression_test(session_id: str, events: Iterable[Event], recording: str, agent: str) -> str:
    """Return the text of a test that replays a recording.

    recording: the name of its file, beside the test. agent: `module:agent`, whose agents it is replayed with;
    empty for the recorded ones.
    """
    ends = [event.body.kind for event in events if isinstance(event.body, AskEnded)]
    name = re.sub(r"[^a-z0-9]+", "_", session_id.lower()).strip("_") or "session"
    arguments = _literal(recording) + (f", agent={_literal(agent)}" if agent else "")
    about = f"{len(ends)} ask{'s' * (len(ends) != 1)}: {', '.join(ends) or 'none has ended'}"
    return _TEST.format(name=f"session_{name}", about=about, arguments=arguments)


def _literal(value: object) -> str:
    return pformat(value, width=_WIDTH, sort_dicts=False)


def _plain(text: str) -> str:
    """Return a file's name without signs that would end a text of Python."""
    return re.sub(r"[^\w.\-]", "_", text, flags=re.ASCII)
