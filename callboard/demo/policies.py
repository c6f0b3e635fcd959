"""The demonstration's cast: every agent as data, with the policy that plays its model.

host       delegates all at once, and sums up
tester     finds the testing framework in use, with evidence
surveyor   finds the modules, and delegates each to a summariser
summariser summarises one module
packager   races for the entry point by packaging metadata
reader     races for the entry point by reading sources
runaway    calls a tool for ever; its iteration cap stops it
digger     delegates to a digger, until that is refused
"""

from typing import Final, NamedTuple

from callboard.demo.entry_policy import packager_policy, reader_policy
from callboard.demo.host_policy import digger_policy, host_policy, runaway_policy
from callboard.demo.inquiry import Policy
from callboard.demo.modules_policy import summariser_policy, surveyor_policy
from callboard.demo.schemas import (
    DEPTH_SCHEMA,
    ENTRY_SCHEMA,
    MODULE_SCHEMA,
    MODULES_SCHEMA,
    TESTING_SCHEMA,
    Schema,
)
from callboard.demo.testing_policy import testing_policy

RUNAWAY_ITERATIONS: Final = 5
"""The cap that stops the runaway."""


class Role(NamedTuple):
    """An agent of the demonstration. iterations: its own cap, 0 for the session's."""

    policy: Policy
    description: str
    instructions: str
    tools: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    schema: Schema | None = None
    iterations: int = 0


CAST: Final = {
    "host": Role(
        host_policy,
        "Explains a folder of source code.",
        "Delegate every question to the agent for it, all in one turn; then sum up what they report.",
        agents=("tester", "surveyor", "packager", "reader", "runaway", "digger"),
    ),
    "tester": Role(
        testing_policy,
        "Finds the testing framework that a project really uses.",
        "Use in test code counts most, then configuration, then commands, then dependencies. A lock file "
        "shows no use, and neither does a folder named tests. Report none if there is none.",
        tools=("count_code", "find_files", "search", "read_config", "parse_python"),
        schema=TESTING_SCHEMA,
    ),
    "surveyor": Role(
        surveyor_policy,
        "Finds the modules of a project and has each summarised.",
        "List the folders, delegate one summary for each module in one turn, and put them together.",
        tools=("list_files",),
        agents=("summariser",),
        schema=MODULES_SCHEMA,
    ),
    "summariser": Role(
        summariser_policy,
        "Summarises one module.",
        "Count, read what the files say of themselves, and report.",
        tools=("count_code", "list_files", "parse_python", "read_text", "search"),
        schema=MODULE_SCHEMA,
    ),
    "packager": Role(
        packager_policy,
        "Finds the entry point by packaging metadata.",
        "Read what packaging files declare, and check that it is there; only then look at sources.",
        tools=("find_files", "read_config", "search", "parse_python"),
        schema=ENTRY_SCHEMA,
    ),
    "reader": Role(
        reader_policy,
        "Finds the entry point by reading sources.",
        "Look for files and lines that begin a program; only then look at packaging files.",
        tools=("find_files", "search", "parse_python", "read_config"),
        schema=ENTRY_SCHEMA,
    ),
    "runaway": Role(
        runaway_policy,
        "Watches a folder, and never knows when to stop.",
        "Look until nothing changes.",
        tools=("list_files",),
        iterations=RUNAWAY_ITERATIONS,
    ),
    "digger": Role(
        digger_policy,
        "Delegates its own task to a digger.",
        "Delegate the task you were given; report how deep that went.",
        agents=("digger",),
        schema=DEPTH_SCHEMA,
    ),
}
