"""Decide: the functional core. Messages, events, deciders and policy; no I/O, no clock, no chance.

Four parts, imported in one direction: protocol <- agent, supervisor <- session. The docstring of each part
tells its whole life. The life of a delegation goes through all of them. It is read in this order:

  Words and places
    protocol.messages           all kinds of messages, by sender and recipient
    protocol.port_messages      the same for the ports: model, tools, approvals, schema, context, clock
    protocol.profiles           the description of an agent, as the log holds it
    session.step                (state, event) -> (state', posts): the one call of every driver
    session.core                mailboxes around that call; the posts of one decision are the next events

  The parent delegates
    agent.decider               a turn of an agent: its reply, its calls, its last word
    agent.content               the calls in a reply
    agent.calls                 each call of a reply becomes a request, or an error at once
    agent.delegations           a `task` call becomes a `Delegate`
    agent.open_calls            the call is open, at the stage `task`, until its answer comes

  The supervisor begins the child
    supervisor.decider          each kind of message to the supervisor, with the function that handles it
    supervisor.state            the tree of agents, the open delegations, the running ask
    supervisor.resolving        names become profiles; the checks that may deny the delegation
    supervisor.rights           the layers of rights that the child is handed
    supervisor.reserving        the part of the budget that the parent keeps for the result
    supervisor.delegating       slots and ordinals; then the checks of ports, or `Begin` at once
    supervisor.line             what cannot go on yet: for want of a slot, of a budget, of a child's place
    supervisor.contexts         `Begin` after the last answer, if schema or context have to be waited for

  The child works
    agent.phases                what an agent takes in which phase: a table that its decider obeys
    agent.state                 the memory of an agent
    agent.request_prefix        the fixed part of its requests: system prompt and tools
    agent.turns                 it asks for a turn; it finishes; it drains
    supervisor.turns            the grant, `CallModel`: reserved before the call, settled after it
    supervisor.budgets          whether a call fits, in the scope of the agent and in all above it
    supervisor.timers           back-offs, deadlines, graces, and the deadlines of programs
    session.port_gate           when a port may act on a request
    agent.answers               the answers to its calls; the next turn when they are there
    agent.failed_calls          model calls without an answer: again, another model, or the end

  The delegation ends
    supervisor.reports          reports are judged in the order of the log; the first valid one wins
    supervisor.ending           the end of an agent and of all below it; `DelegationEnded` to the parent
    protocol.endings            the kinds of ends
    protocol.prompts            the words that the parent's model reads of the end

  The process ends before
    session.port_table          what becomes of each request that a crash leaves open
    session.recovery            from any prefix of the log to the point where ports may act again
"""

if __name__ != "callboard.actors":
    raise ImportError(
        "import callboard.actors, not actors: the folder is reached through the callboard package, "
        "a second copy of its classes would not compare equal"
    )
