"""The parameters of a runtime that hold for each of its sessions."""

from dataclasses import dataclass

from callboard.actors.protocol.bundles import Bundle
from callboard.actors.protocol.limits import Limits
from callboard.runtime.approvals import Approver
from callboard.runtime.http.settings import Http
from callboard.runtime.models.fallback import ModelChoice
from callboard.runtime.programs.session_check import CHECK_TIMEOUT_S
from callboard.runtime.schemas.output_types import OutputType
from callboard.runtime.sessions.agents_policy import AgentsPolicy
from callboard.runtime.sessions.session_deps import FilesChoice, MemoryChoice


@dataclass(frozen=True)
class Settings:
    """The parameters of a `Runtime` that hold for each of its sessions."""

    model: ModelChoice | None
    limits: Limits
    is_strict: bool
    approver: Approver | None
    types: tuple[OutputType, ...]
    on_agents_changed: AgentsPolicy
    counts_downtime: bool
    deps: object
    files: FilesChoice
    idle_s: float | None
    keeps_requests: bool
    permissions: Bundle
    http: Http
    memory: MemoryChoice = None
    check_timeout_s: float = CHECK_TIMEOUT_S
