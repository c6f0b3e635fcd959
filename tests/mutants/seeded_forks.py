"""Mutants of forks: of the recorded answers, of their order, of recovery, and of tools with an effect."""

from typing import Final

from tests.mutants.mutant import Mutant

LOOK_UP: Final = (
    Mutant(
        "reused-by-turn-alone",
        "A recorded reply is given to another request of the same turn.",
        "session.request_keys",
        '        return ("model", agent, wish.turn, wish.attempt, wish.digest, *model)\n',
        '        return ("model", agent, wish.turn, wish.attempt, *model)\n',
    ),
    Mutant(
        "result-for-any-arguments",
        "A recorded result is given to a call with other arguments.",
        "session.request_keys",
        '        return ("tool", *place, call.tool, bytes(call.arguments), given)\n',
        '        return ("tool", *place, call.tool, given)\n',
    ),
    Mutant(
        "change-forgotten",
        "A changed result is not given in place of the recorded one.",
        "session.recorded_answers",
        "            return ToolReturned(\n"
        "                turn=body.turn,\n"
        "                call=body.call,\n"
        "                output=value,\n"
        "                reused=event.seq,\n"
        "                labels=body.labels,\n"
        "                files=body.files,\n"
        "                contents=body.contents,\n"
        "                files_gap=body.files_gap,\n"
        "            )\n",
        "            return replace(body, reused=event.seq)\n",
    ),
    Mutant(
        "changed-result-without-labels",
        "A changed result loses the labels of the recorded one.",
        "session.recorded_answers",
        "                reused=event.seq,\n                labels=body.labels,\n",
        "                reused=event.seq,\n",
    ),
    Mutant(
        "billed-again",
        "A reused reply counts as one that was paid for.",
        "session.recorded_answers",
        "            return replace(body, body=(), content=content, reused=event.seq)\n",
        "            return replace(body, body=(), content=content)\n",
    ),
    Mutant(
        "lost-in-a-fork",
        "Model calls under way at the base are lost and charged.",
        "session.recovery",
        "(request.seq in self.recorded or not self.has_run)",
        "(request.seq in self.recorded and not self.has_run)",
    ),
    Mutant(
        "needs-effect-is-an-error",
        "An agent goes on after a call that its fork does not run.",
        "agent.calls",
        "    if state.needs_effect:\n",
        "    if False and state.needs_effect:\n",
    ),
    Mutant(
        "ask-survives-an-effect",
        "The ask goes on although an agent below needs an effect.",
        "supervisor.decider",
        '        if finished.kind == "needs_effect":  #',
        '        if finished.kind == "crashed":  #',
    ),
    Mutant(
        "end-of-the-client-at-once",
        "The recorded end of a session comes while an ask of the fork still runs.",
        "session.recorded_answers",
        "            self.idle.add(event.seq)\n",
        "            pass\n",
    ),
    Mutant(
        "steps-are-looked-up",
        "A program's step gets a recorded reply.",
        "session.request_keys",
        '            return ("step", agent, wish.turn, wish.attempt)\n',
        '            return ("model", agent, wish.turn, wish.attempt, "")\n',
    ),
)

PLAYBACK: Final = (
    Mutant(
        "input-before-a-passed-timer",
        "A recorded input or firing comes before a timer that is due before it.",
        "session.playback",
        "        if passed := self._take_passed(at):\n"
        "            return (passed,)\n"
        '        if kind == "timer":\n',
        '        if kind == "answer" and (passed := self._take_passed(at)):\n'
        "            return (passed,)\n"
        '        if kind == "timer":\n',
    ),
    Mutant(
        "effects-run-silently",
        "A tool with an effect runs in a fork of recorded effects.",
        "session.playback",
        '        if not isinstance(body, CallTool) or body.effect == "read" or',
        "        if isinstance(body, CallTool) or",
    ),
    Mutant(
        "people-not-asked",
        "A tool with an effect runs in a fork that asks, and no person was asked.",
        "session.playback",
        "                return Asked(same)\n",
        "                return Work(request)\n",
    ),
    Mutant(
        "idempotent-is-read",
        "An idempotent tool runs in a fork as one without an effect.",
        "session.playback",
        'not isinstance(body, CallTool) or body.effect == "read" or request',
        'not isinstance(body, CallTool) or body.effect != "write" or request',
    ),
    Mutant(
        "old-reads-after-an-effect",
        "A recorded result of a read tool is given after a tool with an effect has run.",
        "session.playback",
        "                self.is_after_effect = True\n                return Work(request)\n",
        "                return Work(request)\n",
    ),
    Mutant(
        "effect-forgotten-at-the-restart",
        "A new process gives recorded results of read tools after a tool with an effect has run.",
        "session.fork_starts",
        "                if may_have_run and not reused and status not in _UNRUN:\n",
        "                if False:\n",
    ),
    Mutant(
        "inputs-at-once",
        "The client asks again while an ask runs.",
        "session.playback",
        "            if not (is_asked and given.seq in self.recorded.idle) and not",
        "            if not",
    ),
    Mutant(
        "inputs-again-after-the-restart",
        "A new process posts the inputs of the client from the beginning.",
        "session.playback",
        "            if self.inputs and is_same_input(event, self.inputs[-1]):\n",
        "            if not is_same_input(event, event):\n",
    ),
    Mutant(
        "permission-of-the-origin",
        "An answer by permission names the event of the origin.",
        "session.playback",
        "    if found.is_permitted:\n        permission",
        "    if False:\n        permission",
    ),
    Mutant(
        "approval-without-a-result",
        "An approval is given again although its tool has no recorded result.",
        "session.playback",
        "        return self.recorded.has_result(request, given, self._reader)",
        "        return True",
    ),
    Mutant(
        "last-answer-first",
        "Recorded answers are given in the opposite order.",
        "session.playback",
        "        heapq.heappush(self.held, _Held(found.seq, request.seq, request, found))\n",
        "        heapq.heappush(self.held, _Held(-found.seq, request.seq, request, found))\n",
    ),
    Mutant(
        "cancellations-are-given",
        "A recorded cancellation is given to a request that is still wanted.",
        "session.playback",
        "    if found.is_cancelled and gate.is_wanted(request.seq):\n",
        "    if found.is_cancelled and not gate.is_wanted(request.seq):\n",
    ),
    Mutant(
        "state-not-compared",
        "A recorded result is given although its tool would read another shared state.",
        "session.recorded_answers",
        "        return all(_value(shared, key) == value for key, value in self.read.items())\n",
        "        return True\n",
    ),
    Mutant(
        "timers-fire-early",
        "A timer without a recorded firing fires two seconds before it is due.",
        "session.playback",
        "if one.recorded is None and one.due <= at\n        ]\n",
        "if one.recorded is None and one.due <= at + 2_000\n        ]\n",
    ),
    Mutant(
        "live-reads-unmarked",
        "The result of a read tool that ran in a fork looks like one of the origin.",
        "session.port_gate",
        "        self.is_fork |= isinstance(event.body, Forked)\n",
        "        self.is_fork |= False\n",
    ),
    Mutant(
        "open-answers-forgotten",
        "A request under way at the base of a fork does not get its recorded answer.",
        "session.recorded_answers",
        "            self.open_at_base[event.cause] = found\n",
        "            pass\n",
    ),
    Mutant(
        "steps-do-not-wait",
        "An answer is given before the program has made the step behind which it was recorded.",
        "session.playback",
        "            if not one.found.is_step:\n                yield one.seq, one.found.at",
        "            if True:\n                yield one.seq, one.found.at",
    ),
)

ONCE: Final = (
    Mutant(
        "given-result-offered",
        "A later process offers the result of an effect that an earlier one has given.",
        "session.playback",
        "                self.recorded.use_up(reused)\n",
        "                pass\n",
    ),
    Mutant(
        "chosen-result-at-its-own-place",
        "A result that a person chose for another call is given to its own call as well.",
        "session.recorded_answers",
        "        for known in (self.answers[key], *self._same.values()):\n",
        "        for known in self._same.values():\n",
    ),
    Mutant(
        "chosen-twice",
        "A result is chosen for two calls that were offered it side by side.",
        "session.recorded_answers",
        "return seq in self._once and self._spend(seq)",
        "return seq in self._once",
    ),
    Mutant(
        "offered-after-its-own-call",
        "A result that its own call has is offered to later ones.",
        "session.recorded_answers",
        "            self._spend(found.seq)\n        elif",
        "            pass\n        elif",
    ),
    Mutant(
        "spent-and-left",
        "A result that is used up can be chosen.",
        "session.recorded_answers",
        "        self._results[call].discard(seq)\n",
        "",
    ),
)

FILES: Final = (
    Mutant(
        "files-not-compared",
        "A recorded result is given in a copy that has other files than its call found.",
        "session.file_history",
        "        if here is not None and here.state != bases[path]:\n",
        "        if False:\n",
    ),
    Mutant(
        "lost-files-given",
        "A recorded result is given in a copy although the log lacks the bytes of its file.",
        "session.file_history",
        "        if version.left_out and not skips_lost:\n",
        "        if version.left_out and skips_lost:\n",
    ),
    Mutant(
        "changed-result-without-files",
        "A changed result loses the files that its call wrote.",
        "session.recorded_answers",
        "                files=body.files,\n",
        "",
    ),
    Mutant(
        "bases-after-the-call",
        "The files that a recorded call found are taken from behind it.",
        "session.file_history",
        "        found.setdefault(version.path, (before or version).state)\n",
        "        found.setdefault(version.path, version.state)\n",
    ),
    Mutant(
        "bytes-left-in-the-origin",
        "A fork names a version whose bytes only its origin has.",
        "session.file_history",
        "        while digest not in known and digest not in found and digest in contents:\n",
        "        while digest not in known and digest not in found and not contents:\n",
    ),
    Mutant(
        "copy-forgotten",
        "A fork with a copy takes recorded results as one without.",
        "session.copied_files",
        "        if self.has_copy and isinstance(body, ToolReturned) and body.files:\n",
        "        if False and isinstance(body, ToolReturned) and body.files:\n",
    ),
)

STARTS: Final = (
    Mutant(
        "missed-calls-start-in-silence",
        "The log does not say that a call runs whose recorded answer did not fit.",
        "session.fork_starts",
        "    start, call = gate.start_of(request), request.body\n",
        "    start, call = Start(request), request.body\n",
    ),
    Mutant(
        "waiting-calls-look-started",
        "A call that waits for its recorded answer is announced as one that runs.",
        "session.fork_starts",
        "    if start.announcement is None:\n        return start\n",
        "    if True:\n        return start\n",
    ),
)

TESTED_ALONE: Final = (
    Mutant(
        "begun-calls-asked-about",
        "A later process asks a person about a call that an earlier one was allowed to run.",
        "session.playback",
        ' or body.effect == "read" or request.seq in self._begun:',
        ' or body.effect == "read":',
    ),
    Mutant(
        "begun-calls-held-again",
        "A later process holds the recorded answer of a call that has begun to run.",
        "session.playback",
        "if not key or request.seq in self._begun or (",
        "if not key or (",
    ),
    Mutant(
        "begun-idempotent-calls-interrupted",
        "An idempotent call whose recorded answer did not fit is not made again after a crash.",
        "session.port_table",
        "    return interrupted(request, repeated) if has_started and is_write else None\n",
        "    return interrupted(request, repeated) if has_started else None\n",
    ),
    Mutant(
        "answers-of-one-request-stick",
        "The first of several recorded answers to a request is given again and again.",
        "session.recorded_answers",
        "            del self.answers[key][0]\n",
        "            pass\n",
    ),
    Mutant(
        "errors-are-offered",
        "The result of an effect that failed is offered to the same call in another turn.",
        "session.recorded_answers",
        'if body.status == "ok":',
        "if body.status:",
    ),
    Mutant(
        "idempotent-results-twice",
        "The result of an idempotent tool is given to several calls.",
        "session.recorded_answers",
        '_same_call(self._keys, event) if body.effect != "read" else None',
        '_same_call(self._keys, event) if body.effect == "write" else None',
    ),
    Mutant(
        "a-question-is-an-effect",
        "A question about a tool ends the reuse of reads, whatever the person says.",
        "session.playback",
        "                return Asked(same)\n",
        "                self.is_after_effect = True\n                return Asked(same)\n",
    ),
    Mutant(
        "nothing-to-choose",
        "A question does not name the result of the same call in another turn.",
        "session.playback",
        "                return Asked(same)\n",
        "                return Asked(None)\n",
    ),
    Mutant(
        "asked-and-under-way",
        "A later process of a fork that asks forgets an idempotent tool that was under way.",
        "session.fork_starts",
        'case CallTool(effect="idempotent") if effects != "recorded":',
        'case CallTool(effect="idempotent") if effects == "live":',
    ),
    Mutant(
        "errors-had-no-effect",
        "A later process takes a tool that failed for one that did not run.",
        "session.fork_starts",
        '_UNRUN: Final = frozenset({"cancelled", "needs_effect"})',
        '_UNRUN: Final = frozenset({"cancelled", "needs_effect", "error"})',
    ),
    Mutant(
        "fires-where-it-was-recorded",
        "A timer that is due later than recorded fires at its recorded place.",
        "session.playback",
        "if one.at >= due)",
        "if one.at)",
    ),
    Mutant(
        "recorded-time-while-a-port-works",
        "An input comes before its time while a port works.",
        "session.playback",
        "is_later = first is not None and is_working and not self.held and first[1] > now",
        "is_later = False",
    ),
    Mutant(
        "answers-before-a-due-timer",
        "A recorded answer is given before a timer whose time comes first.",
        "session.playback",
        "        if passed := self._take_passed(at):\n            return (passed,)\n        if kind",
        "        if kind",
    ),
    Mutant(
        "last-timer-first",
        "Of two timers that are due, the later one fires first.",
        "session.playback",
        "when, timer = min(due)",
        "when, timer = max(due)",
    ),
    Mutant(
        "wakes-when-due-not-when-recorded",
        "A fork wakes for a timer before the time at which it fires.",
        "session.playback",
        "[one.recorded.at if one.recorded else one.due for",
        "[one.due for",
    ),
)
"""Each shows in one decision of the playback: unit tests look at it, with clocks and calls of their own."""

UNSIMULATED: Final = (
    Mutant(
        "need-of-an-effect-reused",
        "A call that an earlier fork did not run is not run in a fork of it either.",
        "session.recorded_answers",
        '    return isinstance(body, ToolReturned) and body.status == "needs_effect"\n',
        '    return isinstance(body, ToolReturned) and body.status == "needs nothing"\n',
    ),
    Mutant(
        "children-of-programs-by-ordinal",
        "A child of a program is known by its ordinal, which an ask before it shifts.",
        "session.call_places",
        "            if len(place) == 2:  # of a program\n",
        "            if False and len(place) == 2:  # of a program\n",
    ),
)
"""One needs a fork of a fork, which the simulator does not make; one only costs calls. Tests find both."""

FORKS: Final = (*LOOK_UP, *PLAYBACK, *ONCE, *FILES, *STARTS, *TESTED_ALONE, *UNSIMULATED)
