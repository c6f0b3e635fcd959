"""The session around the deciders: events in, posts and port actions out. No I/O, no clock, no task.

A session is a log. Every event gets the next seq, goes into its recipient's mailbox and past the port gate.
A decider handles the head of a mailbox; its posts are the next events. The gate says when a port may act on
a request, and lets exactly one answer in. Live runs, resume, simulation and verification drive the same core:

    live        feeds it from ports, and makes events durable
    resume      decides on the log again, posts the missing outputs, then asks the open requests again
    simulate    chooses which mailbox or port is next
    verify      compares the posts with those in the log
    fork        plays recorded answers back wherever the same request is asked again

  The core
    step, core                              one decision, and the rounds of a session
    port_gate, port_actions, port_table     when a port may act, its actions, and each kind of request

  Going on
    recovery, open_request                  from a prefix of the log to the point where ports may act
    fork_plan, playback                     a fork: where it begins, its changes, what happens when
    recorded_answers, request_keys          which recorded answer fits which request
    fork_starts                             in a fork, which calls wait for their answers, and which ran
    not_run, copied_files                   a call that a fork does not run, and files that fit its copy
    call_places, place_names                the same call in two sessions; names of places, and checkpoints

  Folds of the whole log
    shared_state, cached_results            keys that tools write, results that are given again
    permissions, file_labels                what a person has allowed for good, and who wrote a file
    file_history                            the versions of files, and the folder as of any event
    contexts                                what a parent knew when it delegated

  Beyond one session
    capacity, token_bucket                  which waiting model call of all sessions is next
    budgets, budget_limits, budget_keys     which call a budget above sessions has room for
    budget_scope                            the books of one such budget
    usage_books                             the charges of a session by day, model and profile
"""
