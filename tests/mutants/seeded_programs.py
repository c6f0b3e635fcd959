"""Mutants of programs: eager turns, calls given up, deadlines, lines, free steps, questions to models.

The sessions of `scenarios_programs` find them: `tests/mutants/test_programs.py`.
"""

from typing import Final

from tests.mutants.mutant import Mutant

STEPS: Final = (
    Mutant(
        "program-waits-for-all",
        "A program's next step waits until every open call has its answer, as a model's turn does.",
        "agent.answers",
        " else state.calls.answers.size > 0\n",
        " else state.calls.answers.size > 0 and not state.calls.open.size\n",
    ),
    Mutant(
        "answers-dropped-while-a-step-is-out",
        "Answers that come while a step is out are lost.",
        "agent.answers",
        "    return state.program is None or _is_wanted(state, call)\n",
        '    return state.program is None or (state.phase == "acting" and not call.is_given_up)\n',
    ),
    Mutant(
        "answers-heard-twice",
        "Answers stay with the agent after the step that had them, and go with the next one too.",
        "agent.open_calls",
        "    return replace(calls, answers=NOTHING_UNHEARD) if calls.open.size else NO_CALLS\n",
        "    return calls if calls.open.size else NO_CALLS\n",
    ),
    Mutant(
        "answers-wait-for-one-more",
        "A step is not asked for although an answer came while the one before was out.",
        "agent.program",
        "    if not state.calls.answers.size:\n        return state, _with_settlement",
        "    if state.calls.open.size:\n        return state, _with_settlement",
    ),
    Mutant(
        "answers-not-named",
        "A step does not name the events that brought its answers.",
        "agent.program",
        "sum(map(len, blocks)), names=seqs)",
        "sum(map(len, blocks)))",
    ),
    Mutant(
        "calls-closed-by-a-step",
        "A step forgets the calls that earlier steps have left open.",
        "agent.program",
        "    posts: list[Post] = []\n    if step.cancels:",
        "    posts: list[Post] = []\n    state = replace(state, eager=replace(eager.EMPTY, wake=_books(state).wake))\n    if step.cancels:",
    ),
    Mutant(
        "stuck-forever",
        "A program that waits for nothing is left waiting.",
        "agent.program",
        "    if _program(state).is_stuck(state.calls):\n",
        "    if False:\n",
    ),
    Mutant(
        "asks-at-the-cap",
        "A program at its cap of steps takes one more.",
        "agent.state",
        "        return state.turns_used < (state.limits.max_steps or 0)\n",
        "        return state.turns_used <= (state.limits.max_steps or 0)\n",
    ),
    Mutant(
        "steps-capped-as-turns",
        "A program's steps count in max_iterations.",
        "agent.state",
        "        return state.turns_used < (state.limits.max_steps or 0)\n",
        "        return state.turns_used < (state.limits.max_iterations or 0)\n",
    ),
    Mutant(
        "line-of-tools-over-the-cap",
        "A program runs one tool more at a time than it may.",
        "agent.calls",
        "        elif tools >= places:\n",
        "        elif tools >= places + (state.program is not None):\n",
    ),
    Mutant(
        "line-of-tools-not-served",
        "An answer does not start the next tool in line.",
        "agent.answers",
        "    if state.calls.line.size:\n",
        "    if state.calls.line.size and program is None:\n",
    ),
    Mutant(
        "line-jumped",
        "New asks get tickets from 1 again with each step, so they pass those that stand in line.",
        "agent.calls",
        "    tools, questions, first = known.tools, known.questions, known.next_ticket\n",
        "    tools, questions, first = known.tools, known.questions, known.next_ticket\n"
        "    first = first if state.program is None else 100 * (10 - state.turn)\n",
    ),
)

GIVING_UP: Final = (
    Mutant(
        "cancel-delivered",
        "The answer of a call that was given up goes with the next step.",
        "agent.answers",
        'return state.phase in ("thinking", "acting") and not call.is_given_up\n',
        'return state.phase in ("thinking", "acting")\n',
    ),
    Mutant(
        "cancel-not-posted",
        "A call that is given up goes on at its port.",
        "agent.program",
        "        posts.append(_cancel(call))\n",
        '        if call.stage == "task":\n            posts.append(_cancel(call))\n',
    ),
    Mutant(
        "cancel-posted-twice",
        "A call that was given up is cancelled again when its program ends.",
        "agent.program",
        "        if call.is_given_up or not is_wanted(call):\n",
        "        if not is_wanted(call):\n",
    ),
    Mutant(
        "cancelled-in-line-starts",
        "A call that is given up in line starts when its turn comes.",
        "agent.program",
        '        if call.stage == "line":\n            calls = drop(calls, call)\n            continue\n',
        '        if call.stage == "line":\n            continue\n',
    ),
    Mutant(
        "end-before-drained",
        "A program ends while calls that it gave up have no answer.",
        "agent.program",
        "    if not state.calls.open.size:\n        return conclude(state, coming, settled)\n",
        "    if not state.calls.open.size or last is not None:\n"
        "        return conclude(state, coming, settled)\n",
    ),
    Mutant(
        "end-never-comes",
        "A program whose open calls have drained does not end.",
        "agent.answers",
        "        return (state, ()) if state.calls.open.size else conclude(state, program.end)\n",
        "        return state, ()\n",
    ),
    Mutant(
        "crash-forgets-calls",
        "A program that raises leaves its open calls to themselves.",
        "agent.program",
        "    if state.program is None:\n        return finish(state, kind, settled, detail)\n",
        '    if state.program is None or kind == "crashed":\n'
        "        return finish(state, kind, settled, detail)\n",
    ),
    Mutant(
        "gate-gives-up-another-call",
        "A `CancelCall` ends every call of its turn.",
        "session.port_gate",
        "            if (request.turn, request.call) == (body.turn, body.call) and not opened.is_given_up:\n",
        "            if request.turn == body.turn and not opened.is_given_up:\n",
    ),
    Mutant(
        "repeats-what-was-given-up",
        "After a crash the port is asked again for a call that was given up.",
        "session.recovery",
        "            if not self.gate.is_wanted(request.seq):\n",
        "            if opened.is_unwanted:\n",
    ),
    Mutant(
        "interrupted-and-given-up-asks-a-person",
        "A call that was given up and interrupted asks a person whether it may run again.",
        "agent.answers",
        "    asked = question_after(state, call, returned) if _is_wanted(state, call) else None\n",
        '    is_running = state.phase in ("thinking", "acting")\n'
        "    asked = question_after(state, call, returned) if is_running else None\n",
    ),
    Mutant(
        "approved-and-given-up-runs",
        "A call that was given up runs if its approval crosses the cancel.",
        "agent.answers",
        "after_answer(call.use, given) if _is_wanted(state, call) else None",
        'after_answer(call.use, given) if state.phase in ("thinking", "acting") else None',
    ),
)

DEADLINES: Final = (
    Mutant(
        "deadline-of-before",
        "A program is woken for a deadline that it has replaced.",
        "agent.program",
        "    if program is None or program.wake != woken.until:\n",
        "    if program is None:\n",
    ),
    Mutant(
        "deadline-not-replaced",
        "A new deadline does not cancel the timer of the one before.",
        "supervisor.timers",
        "    work.cancel_timer(books.wake_timer)\n    timer",
        "    timer",
    ),
    Mutant(
        "deadline-outlives-its-program",
        "A program that ends keeps the timer of its deadline.",
        "supervisor.ending",
        "        work.cancel_timer(record.program.wake_timer)\n",
        "        pass\n",
    ),
    Mutant(
        "deadline-from-now",
        "A deadline counts from the event that sets it, not from 1970.",
        "session.port_gate",
        "max(0, body.until - event.at)",
        "max(0, body.until % 1_000)",
    ),
    Mutant(
        "deadline-lost-with-a-step",
        "A deadline that comes while a step is out is not set again.",
        "agent.program",
        "    state = replace(state, program=replace(program, wake=None))\n    # A step",
        '    wake = program.wake if state.phase == "thinking" else None\n'
        "    state = replace(state, program=replace(program, wake=wake))\n"
        "    # A step",
    ),
    Mutant(
        "deadline-not-told",
        "The timer of a deadline fires, and the program is not woken.",
        "supervisor.timers",
        "    work.post(timer.address, Woken(timer.until))\n",
        "",
    ),
)

COSTS: Final = (
    Mutant(
        "granted-without-a-slot",
        "The first turn of a question is granted with its Begin though no slot is free.",
        "supervisor.turns",
        "        if not _fits_at_once(work, ancestry, first.need):\n            return False\n",
        "",
    ),
    Mutant(
        "granted-and-not-reserved",
        "The first turn that is granted with a Begin is not reserved in the budgets above the question.",
        "supervisor.turns",
        "        reserved = budgets.reserve(ancestry, first.need)\n        work.in_flight += 1\n    ancestry",
        "        reserved = first.need\n        work.in_flight += 1\n    ancestry",
    ),
    Mutant(
        "granted-and-requested",
        "A question whose first turn is granted with its Begin requests that turn as well.",
        "agent.decider",
        "(state, posts) if begin.granted is None else (state, _as_granted(state, seq, posts))",
        "(state, posts) if begin.granted is None else (state, (*posts, *_as_granted(state, seq, posts)))",
    ),
    Mutant(
        "step-with-a-need",
        "A program's step needs what a model's turn with that conversation would.",
        "agent.turns",
        "    need = NOTHING if model.is_free else bound(",
        "    need = bound(",
    ),
    Mutant(
        "step-in-line",
        "A program's step stands in line for a slot.",
        "supervisor.turns",
        "    if need == NOTHING:\n        work.put_record(_called",
        "    if False:\n        work.put_record(_called",
    ),
    Mutant(
        "step-frees-a-slot",
        "The settlement of a step frees a slot that it never held.",
        "supervisor.turns",
        "    if need == NOTHING:\n        work.put_record(replace",
        "    if False:\n        work.put_record(replace",
    ),
    Mutant(
        "step-is-a-call",
        "A step whose process is cut off counts as a model call.",
        "supervisor.budgets",
        "    if need == NOTHING:\n        return ZERO\n",
        "",
    ),
    Mutant(
        "copies-over-the-cap",
        "A program has one live copy more than it may.",
        "supervisor.line",
        "    return parent.turn_children + count <= (parent.limits.max_children or 0)\n",
        "    return parent.turn_children + count <= (parent.limits.max_children or 0) + 1\n",
    ),
    Mutant(
        "copies-denied",
        "A delegation over the cap of a program's copies is denied instead of standing in line.",
        "supervisor.resolving",
        "    children = 0 if parent.profile.is_eager else parent.turn_children\n",
        "    children = parent.turn_children\n",
    ),
    Mutant(
        "line-of-copies-passed",
        "A delegation that fits passes those that stand in line.",
        "supervisor.line",
        "    if not is_first and parent.program is not None and parent.program.line.size:\n        return False\n",
        "",
    ),
    Mutant(
        "places-kept",
        "A copy that has drained keeps its place.",
        "supervisor.ending",
        "        work.free_places(parent, 1)\n",
        "",
    ),
    Mutant(
        "places-of-unbegun-kept",
        "A delegation that ends before it began keeps its places.",
        "supervisor.line",
        "        work.free_places(parent, len(delegation.racers))\n",
        "        pass\n",
    ),
    Mutant(
        "places-reset-by-a-step",
        "A program's copies are counted per step.",
        "supervisor.turns",
        "    if is_keeping and request.attempt == 1 and not record.profile.is_eager:\n",
        "    if is_keeping and request.attempt == 1:\n",
    ),
    Mutant(
        "ended-in-line-begins",
        "A delegation that ends in line keeps its place in it.",
        "supervisor.line",
        "    work.update_record(parent, program=replace(books, line=books.line.drop(delegation.key)))\n",
        "    pass\n",
    ),
    Mutant(
        "question-is-an-agent",
        "A question to a model takes one of the session's agent slots.",
        "supervisor.delegating",
        "    if request.implicit == NULL:\n        work.update_session",
        "    if True:\n        work.update_session",
    ),
    Mutant(
        "question-needs-leave",
        "A question to a model is bound by depth and allowlist.",
        "supervisor.resolving",
        "    if request.implicit == NULL:\n        if parent.depth",
        "    if True:\n        if parent.depth",
    ),
    Mutant(
        "question-has-many-turns",
        "A question without a schema may take as many turns as an agent.",
        "agent.delegations",
        "    turns = 1 if asked.schema == NULL else state.limits.max_report_attempts\n",
        "    turns = state.limits.max_report_attempts\n",
    ),
    Mutant(
        "program-handed-down",
        "A program's sub-agents inherit the program as their model.",
        "protocol.profiles",
        "        own = self.default_model if self.model is not None and self.model.is_program else self.model\n",
        "        own = self.model\n",
    ),
    Mutant(
        "default-model-unused",
        "A program with a model of its own hands down the one that it inherits.",
        "protocol.profiles",
        "        own = self.default_model if self.model is not None and self.model.is_program else self.model\n",
        "        own = None if self.model is not None and self.model.is_program else self.model\n",
    ),
)

LINES: Final = (
    Mutant(
        "context-of-another-event",
        "A delegation that has stood in line asks for its contexts as of the event that freed its place.",
        "supervisor.delegating",
        "start(work, parent, delegation, profiles, seq)",
        "start(work, parent, delegation, profiles, work.seq)",
    ),
    Mutant(
        "no-place-while-prepared",
        "Copies that begin with a context take no place.",
        "supervisor.delegating",
        "    taken = record.turn_children + count\n",
        "    taken = record.turn_children + count * (not _prepared(profiles))\n",
    ),
    Mutant(
        "one-place-for-prepared-copies",
        "All copies that begin with a context take one place together.",
        "supervisor.delegating",
        "    taken = record.turn_children + count\n",
        "    taken = record.turn_children + (1 if _prepared(profiles) else count)\n",
    ),
    Mutant(
        "unprepared-place-kept",
        "A delegation whose context fails keeps its places.",
        "supervisor.line",
        "    if not out_of_line(work, parent, delegation):\n",
        "    if not out_of_line(work, parent, delegation) and not delegation.waits:\n",
    ),
    Mutant(
        "out-of-the-line-unprepared",
        "A delegation that has stood in line begins without its context.",
        "supervisor.delegating",
        "    prepared = _prepared(profiles)\n    has_input",
        "    prepared = _prepared(profiles) if seq == work.seq else ()\n    has_input",
    ),
    Mutant(
        "schema-or-context",
        "A delegation waits for its schema or for its contexts, whichever takes more answers.",
        "supervisor.delegating",
        "waits=is_unchecked + len(prepared) + has_input)",
        "waits=max(is_unchecked + has_input, len(prepared)))",
    ),
)
