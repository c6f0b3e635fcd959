"""`callboard tree --permissions` and `--labels`: the rights and labels of each agent, with their origin."""

from collections.abc import Iterator, Mapping

from rich.text import Text

from callboard.actors.protocol.addresses import depth_of
from callboard.cli.diagnose_command import emit_headline
from callboard.cli.output import emit_json, emit_lines
from callboard.cli.terminal_escape import safe_line
from callboard.replay.recording import Recording
from callboard.replay.rights import AgentRights, Denial


def emit_rights(recording: Recording, at: int | None, *, shows_labels: bool, as_json: bool) -> None:
    """Write the rights, or the labels, of every agent. at: the last event to read, None for all."""
    found = recording.rights(at)
    if as_json:
        shown = _labels_json if shows_labels else _rights_json
        upto = recording.head.seq if at is None else at
        agents = [shown(agent) for agent in found.values()]
        emit_json({"session": recording.session_id, "at": upto, "agents": agents})
        return
    emit_headline(recording)
    emit_lines([*_lines(found, shows_labels=shows_labels)])


def _lines(found: Mapping[str, AgentRights], *, shows_labels: bool) -> Iterator[Text]:
    for agent in sorted(found.values(), key=lambda one: [int(part) for part in one.address.split(".")[1:]]):
        indent = "   " * depth_of(agent.address)
        yield Text(f"{indent}{agent.address} {safe_line(agent.profile, 64)}", style="bold")
        for line in _label_lines(agent) if shows_labels else _right_lines(agent):
            yield Text(f"{indent}   {safe_line(line, 300)}")


def _right_lines(agent: AgentRights) -> Iterator[str]:
    if not agent.layers:
        yield "everything: no bundle bounds it"
    for entry in agent.entries:
        yield f"{entry.entry}: {', '.join(entry.names) or 'none'} (by {', '.join(entry.by)})"
    for denial in agent.denials:
        after = f" once {denial.label} was read" if denial.label else ""
        yield f"{denial.entry}: not {denial.name}{after} (by {denial.by})"
    for denial in agent.narrowed:
        yield f"{denial.entry}: asks for {denial.name}, narrowed (by {denial.by or 'the bundles above'})"


def _label_lines(agent: AgentRights) -> Iterator[str]:
    if not agent.labels:
        yield "no labels"
    for label in agent.labels:
        yield f"{label.label} (event {label.seq}: {label.how})"


def _denial_json(denial: Denial) -> dict[str, object]:
    found: dict[str, object] = {"entry": denial.entry, "name": denial.name, "by": denial.by}
    return {**found, "label": denial.label} if denial.label else found


def _rights_json(agent: AgentRights) -> dict[str, object]:
    return {
        "address": agent.address,
        "profile": agent.profile,
        "allowed": {one.entry: {"names": one.names, "by": one.by} for one in agent.entries},
        "denied": [_denial_json(one) for one in agent.denials],
        "narrowed": [_denial_json(one) for one in agent.narrowed],
    }


def _labels_json(agent: AgentRights) -> dict[str, object]:
    labels = [{"label": one.label, "event": one.seq, "how": one.how} for one in agent.labels]
    return {"address": agent.address, "profile": agent.profile, "labels": labels}
