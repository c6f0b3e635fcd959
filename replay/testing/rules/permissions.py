"""Rules of permissions and labels: rights only narrow, and label rules deny their capabilities."""

from collections.abc import Sequence

from callboard.actors.protocol.addresses import HOST, parent_of
from callboard.actors.protocol.bundles import UNKNOWN
from callboard.actors.protocol.client_messages import Ask, Tell
from callboard.actors.protocol.endings import STATUS
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.labels import Labels
from callboard.actors.protocol.messages import (
    AnyMessage,
    Begin,
    CancelTask,
    DeciderFailed,
    Delegate,
    DelegationEnded,
    Finished,
    Told,
    TurnRequested,
)
from callboard.actors.protocol.port_messages import ApprovalGiven, CallTool, CancelCall, ToolReturned
from callboard.actors.protocol.uses import CAPABILITY, Use
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.facts import of_kind
from callboard.replay.testing.rules.in_force import (
    label_against,
    models_permitted,
    permitted,
    use_permitted,
)

_Call = tuple[str, int, int]


class Permissions(Invariant):
    """Rights."""

    name = "permissions"
    rule = "An agent neither has nor uses a right that its own bundle or one above it withholds."

    def on_Begin(self, event: Event, begin: Begin) -> None:
        """Compare the rights of an agent with those that the bundles above it leave."""
        who, rights = event.recipient, self.facts.rights
        if begin.permissions != rights.of(who):
            self.broken(event.seq, f"{who} begins with other rights than the bundles above it leave")
        if not models_permitted(rights.of(who), begin.model):
            self.broken(event.seq, f"{who} begins with model {begin.model.name}, which it may not use")
        self._check_parent(event, who)

    def _check_parent(self, event: Event, who: str) -> None:
        """Check that an agent may be delegated to by its parent."""
        rights, life, parent = self.facts.rights, self.facts.lives[who], parent_of(who)
        if who == HOST or self.facts.is_implicit(life.call):
            return
        if not permitted(rights.of(parent), "agents", life.profile.name):
            self.broken(event.seq, f"{parent} may not delegate to {life.profile.name}")

    def on_CallTool(self, event: Event, call: CallTool) -> None:
        """Check that the agent may use a tool, its effect and its capabilities."""
        who, spec = event.sender, self.facts.tools.of(event.sender).get(call.tool)
        layers = self.facts.rights.of(who)
        wanted = [("tools", call.tool), ("effects", call.effect)]
        if spec is not None:  # a tool of another agent breaks `narrowing`
            wanted += [("capabilities", one) for one in spec.capabilities]
        for entry, name in wanted:
            if not permitted(layers, entry, name):
                self.broken(event.seq, f"{who} calls {call.tool}, and may not use {name}")

    def on_ToolReturned(self, event: Event, body: ToolReturned) -> None:
        """Check the files, hosts, secrets and memories that a tool has used."""
        who = event.recipient
        layers = self.facts.rights.of(who)
        for use in body.uses:
            has_capability = permitted(layers, "capabilities", CAPABILITY[use.entry])
            if not (has_capability and use_permitted(layers, use.entry, use.name)):
                self.broken(event.seq, f"a tool of {who} uses {use.name} ({use.entry}), and may not")


class Labelled(Invariant):
    """Provenance."""

    name = "labels"
    rule = (
        "No call runs against a rule for a label that its agent, or an agent above it at its Delegate, has."
    )
    _read: dict[str, list[tuple[int, Labels]]] = {}  # by agent, with the seq of the event that brought them
    _told: dict[str, list[tuple[int, Labels]]] = {}  # by agent, those that the supervisor was told of
    _out: dict[_Call, Labels] = {}  # calls of tools without an answer, with the labels of their tool
    _called: dict[int, Labels] = {}  # by call, the labels that its agent had
    _written: list[tuple[int, Use]] = []
    _given_up: set[_Call] = set()
    _words: dict[int, Labels] = {}

    # --- what an agent has read ---------------------------------------------------------

    def _labels(self, who: str, seq: int) -> set[str]:
        """Return the labels of all that an agent was given up to an event."""
        return {label for at, labels in self._read.get(who, ()) if at <= seq for label in labels}

    def _give(self, who: str, seq: int, labels: Labels) -> None:
        if labels:
            self._read.setdefault(who, []).append((seq, labels))

    def _takes(self, who: str) -> bool:
        """Return whether an agent takes answers: it runs and has not failed."""
        life = self.facts.lives.get(who)
        is_broken = life is None or self.facts.failed.get(who, 0) > life.seq
        return life is not None and not (life.is_over or is_broken or who in self.facts.stops)

    def on_Begin(self, event: Event, begin: Begin) -> None:
        """Check the labels that an agent begins with."""
        who, life = event.recipient, self.facts.lives[event.recipient]
        given = self.facts.asked_of(life)[0] if who == HOST else self.facts.delegates.get(life.call)
        if isinstance(given, Ask | Delegate) and given.labels != begin.labels:
            self.broken(event.seq, f"{who} begins with labels {begin.labels}, not {given.labels}")
        self._give(who, event.seq, begin.labels)
        kept = self._told.get(who, []) if who == HOST else []  # the host keeps its conversation
        self._told[who] = [*kept, (event.seq, begin.labels)]

    def on_ToolReturned(self, event: Event, body: ToolReturned) -> None:
        """Record the labels of a result that its agent takes."""
        who, call = event.recipient, (event.recipient, body.turn, body.call)
        of_tool = self._out.pop(call, None)
        self._check_uses(event, body)
        if of_tool is not None and self._takes(who) and call not in self._given_up:
            self._give(who, event.seq, (*of_tool, *body.labels))

    def _check_uses(self, event: Event, body: ToolReturned) -> None:
        """Check the uses of a tool against the rules for the labels that it had read before each."""
        who, labels = event.recipient, {*self._called.get(event.cause, ())}
        for use in body.uses:
            if label := label_against(self.facts.rights.of(who), CAPABILITY[use.entry], labels):
                self.broken(event.seq, f"a tool of {who} uses {use.name}, and has read {label}")
            if use.entry == "read":
                labels.update(use.labels)
                self._check_read(event, body, use)
            elif use.entry == "write":
                self._check_write(event, use)

    def _check_read(self, event: Event, body: ToolReturned, use: Use) -> None:
        if not self._of_file(event.cause, use) <= {*use.labels} <= {*body.labels}:
            self.broken(event.seq, f"a tool of {event.recipient} read {use.name} without its labels")

    def _check_write(self, event: Event, use: Use) -> None:
        self._written.append((event.seq, use))
        if not {*self._called.get(event.cause, ())} <= {*use.labels}:
            self.broken(event.seq, f"a tool of {event.recipient} wrote a file without its agent's labels")

    def _of_file(self, seq: int, read: Use) -> set[str]:
        """Return the labels that a read brings at least, by the writes that returned before an event."""
        writes = [one for at, one in self._written if at < seq and one.name == read.name]
        same = [one for one in writes if one.digest == read.digest]
        labels = set().union(*(one.labels for one in same or writes))
        return labels if same or not writes else labels | {UNKNOWN}

    def on_ApprovalGiven(self, event: Event, body: ApprovalGiven) -> None:
        """Record the labels of a person's answer."""
        call = (event.recipient, body.turn, body.call)
        if self._takes(event.recipient) and call not in self._given_up:
            self._give(event.recipient, event.seq, body.labels)

    def on_Tell(self, event: Event, body: Tell) -> None:
        """Record the labels of a client's words."""
        self._words[event.seq] = body.labels

    def on_Told(self, event: Event, body: Told) -> None:
        """Check and record the labels of words that an agent is told."""
        if self._words.get(event.cause, ()) != body.labels:
            self.broken(event.seq, f"{event.recipient} is told words without their labels")
        if self._takes(event.recipient):
            self._give(event.recipient, event.seq, body.labels)

    def on_CancelCall(self, event: Event, body: CancelCall | CancelTask) -> None:
        """Record a call that is given up: its agent never reads its answer."""
        self._given_up.add((event.sender, body.turn, body.call))

    on_CancelTask = on_CancelCall

    def on_Finished(self, event: Event, body: AnyMessage) -> None:
        """Forget the labels of what an agent that has ended was given too late."""
        read = self._read.get(event.sender)
        if read is not None:
            self._read[event.sender] = [one for one in read if one[0] <= event.cause]

    on_Stopped = on_Finished

    def on_DeciderFailed(self, event: Event, body: DeciderFailed) -> None:
        """Forget the labels of the answer on which a decider failed, and of later ones: it took none in."""
        read = self._read.get(event.sender, ())
        self._read[event.sender] = [one for one in read if one[0] < event.cause]

    # --- what follows from it -----------------------------------------------------------

    def _check(self, event: Event, claimed: Labels) -> set[str]:
        """Report labels that an agent has read and does not state. Return all of them."""
        read = self._labels(event.sender, event.cause)
        if missing := read.difference(claimed):
            self.broken(event.seq, f"{event.sender} has read {sorted(missing)}, and does not say so")
        return read.union(claimed)

    def on_CallTool(self, event: Event, call: CallTool) -> None:
        """Check a call against the rules for the labels that its agent has read."""
        who, spec = event.sender, self.facts.tools.of(event.sender).get(call.tool)
        if spec is None:
            return
        labels = self._called[event.seq] = (*self._check(event, call.labels),)
        self._out[who, call.turn, call.call] = spec.labels
        for capability in spec.capabilities:
            if label := label_against(self.facts.rights.of(who), capability, labels):
                self.broken(event.seq, f"{who} calls {call.tool}, for {capability}, and has read {label}")

    def on_Delegate(self, event: Event, body: Delegate) -> None:
        """Check the labels that go down with a delegation."""
        self._check(event, body.labels)

    def on_TurnRequested(self, event: Event, body: TurnRequested) -> None:
        """Check the labels that a request tells."""
        if body.attempt == 1:
            self._check(event, (*self._told_of(event.sender), *body.labels))

    def handled_TurnRequested(self, event: Event, body: TurnRequested, outputs: Sequence[Event]) -> None:
        """Record the labels that the supervisor was told of."""
        life = self.facts.lives.get(event.sender)
        if body.labels and life is not None and not life.ended_by:
            self._told.setdefault(event.sender, []).append((event.seq, body.labels))

    def _told_of(self, who: str) -> set[str]:
        """Return the labels that the supervisor was told of by an agent."""
        return {label for _, labels in self._told.get(who, ()) for label in labels}

    def on_DelegationEnded(self, event: Event, end: DelegationEnded) -> None:
        """Check the labels of a delegation's end, and record them for the agent that takes it."""
        who, call = event.recipient, (event.recipient, end.turn, end.call)
        lives = [self.facts.lives.get(one) for one in self.facts.copies.get(call, ())]
        told = [self._told_of(life.address) for life in lives if life is not None and life.call == call]
        is_ok = STATUS[end.kind] == "ok"
        has_them = (any if is_ok else all)(one.issubset(end.labels) for one in told)
        if told and not has_them:
            self.broken(event.seq, f"a delegation of {who} ends without the labels of those who worked on it")
        if self._takes(who) and call not in self._given_up:
            self._give(who, event.seq, end.labels)

    def handled_Finished(self, event: Event, body: Finished, outputs: Sequence[Event]) -> None:
        """Check that an answer brings the labels of the agent that gave it."""
        told = self._told_of(event.sender)
        for output, end in of_kind(outputs, DelegationEnded):
            if end.kind == "answered" and not told.issubset(end.labels):
                self.broken(output.seq, f"the answer of {event.sender} is given without its labels")
