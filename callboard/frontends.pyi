# Written by `python -m tools.public_names` from the table beside it; do not edit.

from callboard.runtime.frontends.ag_ui import AGUI as AGUI
from callboard.runtime.frontends.front_end import FrontEnd as FrontEnd
from callboard.runtime.frontends.front_end import FrontEndRequest as FrontEndRequest
from callboard.runtime.frontends.front_end import GivenAnswer as GivenAnswer
from callboard.runtime.frontends.front_end import RunStream as RunStream
from callboard.runtime.frontends.ui_messages import UIMessages as UIMessages

__all__ = [
    "AGUI",
    "FrontEnd",
    "FrontEndRequest",
    "GivenAnswer",
    "RunStream",
    "UIMessages",
]
