"""Write the generated parts of docs/ from the code: `python -m tools.generate_docs`.

A test compares the committed files with what this makes. To add a page or picture, add it to PAGES.
"""

from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Final

from tools import states_docs
from tools.architecture_docs import architecture_picture
from tools.cli_docs import cli_page
from tools.names_docs import api_page, reference_page, short
from tools.public_names import public_modules
from tools.reference_docs import limits_page, outcomes_page
from tools.rules_docs import rules_page
from tools.sources import ROOT

DOCS: Final = ROOT / "docs"
NOTICE: Final = "<!-- Generated from the code by `python -m tools.generate_docs`; do not edit. -->"

PAGES: Final = MappingProxyType[str, Callable[[], str]](
    {
        "api.md": lambda: api_page(NOTICE),
        "cli.md": lambda: cli_page(NOTICE),
        "limits.md": lambda: limits_page(NOTICE),
        **{
            f"reference/{short(module.__name__)}.md": partial(reference_page, NOTICE, module.__name__)
            for module in public_modules()
        },
        "outcomes.md": lambda: outcomes_page(NOTICE),
        "rules.md": lambda: rules_page(NOTICE),
        "states.md": lambda: states_docs.states_page(NOTICE),
        "img/architecture.svg": architecture_picture,
        "img/states-agent.svg": states_docs.agent_picture,
        "img/states-delegation.svg": states_docs.delegation_picture,
        "img/states-session.svg": states_docs.session_picture,
        "img/states-supervised-agent.svg": states_docs.supervised_agent_picture,
    }
)
"""File in docs/ -> its writer."""


def main() -> None:
    """Write every page and picture."""
    for name, write in PAGES.items():
        path = DOCS / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(write())


if __name__ == "__main__":
    main()
