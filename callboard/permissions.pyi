# Written by `python -m tools.public_names` from the table beside it; do not edit.

from callboard.actors.protocol.bundles import Allowed as Allowed
from callboard.actors.protocol.bundles import Bundle as Bundle
from callboard.actors.protocol.bundles import Denied as Denied
from callboard.actors.protocol.bundles import LabelRule as LabelRule
from callboard.actors.session.permissions import Permission as Permission

__all__ = [
    "Allowed",
    "Bundle",
    "Denied",
    "LabelRule",
    "Permission",
]
