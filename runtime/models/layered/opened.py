"""The facts of which the layer makes its model of a service."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from callboard.runtime.models.layered.wire import LayeredClient


class Opened(NamedTuple):
    """The facts of which a layer's model is made. name: of the model at the service. region: of AWS."""

    name: str
    base_url: str
    key: str
    client: "LayeredClient"
    region: str = ""
    sets_marks: bool = False
