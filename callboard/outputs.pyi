# Written by `python -m tools.public_names` from the table beside it; do not edit.

from callboard.runtime.outputs.tool_output import OutputError as OutputError
from callboard.runtime.outputs.tool_output import OutputRules as OutputRules
from callboard.runtime.outputs.tool_output import ResponseFormat as ResponseFormat
from callboard.runtime.outputs.tool_output import ToolOutput as ToolOutput
from callboard.runtime.outputs.tool_output import metrics as metrics
from callboard.runtime.outputs.unified import unified as unified

__all__ = [
    "OutputError",
    "OutputRules",
    "ResponseFormat",
    "ToolOutput",
    "metrics",
    "unified",
]
