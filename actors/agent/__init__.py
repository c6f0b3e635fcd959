"""The decider of an agent: an agent asks for turns, makes the calls of each reply, and reports.

A life of an agent, from `Begin` to `Finished` or `Stopped`:

    new -> thinking -> acting -> thinking ... -> judging -> idle
              ^           |          ^              |
              |           +-> parked-+              +-> thinking (an invalid report)
              +-- the host begins again with the next ask

`Begin` brings its profile, its prompt and its limits. The agent asks the supervisor for a turn, and the
model's answer comes as `ModelReplied`. The calls in it are opened, each as a request to a port or to the
supervisor. When their answers are there the agent asks for the next turn, with them as its new message. A
reply without calls is its last word, unless it owes a report. A stopped agent starts nothing, and says
`Stopped` when ports owe it no answer. A program lives in the same way: its replies are steps, and it goes on
with the first answer, not with the last.

  The turn
    decider, phases, state                    the messages, the table of phases, the memory
    turns, request_prefix, handed_history     what the next request holds, and the end of a life
    content, arguments                        the calls in a reply, and the arguments of our own tools
    input_bound, cache_keys                   bounds on what comes, keys of results that are given again

  The calls
    calls, open_calls, answers                from a reply to its answers: the one book of open calls
    delegations, continued_calls, rights      calls that delegate, are asked about, or are refused; labels
    tasks, waiting, background                work beside the agent, and the calls that wait for it
    tool_changes                              what answers change of the tools

  The conversation becomes shorter
    compaction, compacting                    the rules and the memory; the decision to clear or to summarise
    shortening, summaries                     the shorter conversation; the answer, and when it takes effect

  Programs
    program, program_state, program_step      steps, their calls and deadlines, and how a program ends
    latched                                   the end that its code cannot avert
    whole_requests, asked_requests            questions with messages and tools of the program's own

  When it goes wrong
    failed_calls, retry, fallback             a model call without an answer: again, later, or another model
    empty_answers, failing                    a last word without words; a decider that has raised
"""
