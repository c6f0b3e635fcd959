"""The decider of the supervisor: it begins, pays for, judges and ends every agent of a session.

A session, as its supervisor sees it:

    new -> open -> asking -> open ... -> closed

`SessionOpened` brings profiles, model and limits. An `Ask` is a delegation by the client, with the host as
its only racer. Each delegation is resolved and checked, takes its ordinals and slots, may wait for the schema
and for contexts, and begins its agents. Each turn of an agent is granted here: reserved in its scope and in
every scope above it, and settled when its answer has come. The first valid report wins; a cancel, a limit or
the end of the parent ends a delegation as well, and with it all agents below. The ask has its outcome when
the last agent has drained.

  The books
    decider                          each kind of message, with the function that handles it
    state, unit_of_work              the tree of agents and open delegations, and how one decision changes it

  Delegations
    resolving, contracts, rights     which agents, whether they may begin, with which rights
    delegating, contexts             slots, the checks of ports, `Begin`
    reports, ending                  judgements and ends

  Turns and budgets
    turns                            requests, grants and settlements
    line                             all that waits, for a slot, a budget or a child's place, and its order
    timers                           the reaction when one fires
    budgets, reserve, reserving      what a scope has left, and what an agent keeps of it for itself
    latching                         refusals that end a program

  The client
    asks                             opening, asking, cancelling, closing
    telling, tool_changes            words for a running agent, and other tools
    resuming                         another process goes on, with other agents and limits
"""
