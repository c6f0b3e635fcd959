"""The testing kit: for users to test their own agents, protocols and stores. No session needs it to run.

Public as `callboard.testing`. Each module opens with its rules; this is their order, from the bottom up:

  worlds      world (the interface of the explorer), program (any protocol as a world), canonical (bytes)
  one run     schedulers, schedule (a run as text), run, happens_before (its races)
              monitors (the rules of a run, and the one that it stays the same when it is made again)
  a campaign  explore, statistics, parallel (in several processes)
  a finding   shrink (make a run small), findings (show it)
  processes   determinism (every run again, in another process)
  Hypothesis  strategies (agents, limits, replies, sessions), machine (an interactive session)

sessions: whole sessions as worlds, without the runtime
  one session  scenario (its parts), scripted_replies, ports, board (its core), scripted_session,
               world (its moves), names and captions (of moves), digest (equal ends), memory (shared results)
  faults       faults (how often each may occur), injection (as moves), resumes (a crash after every event)
  rules        monitors (all of them), call_rules, conserved (sums in the books)
  several      shared_session; capacity_world and capacity_monitors; budget_world; fork_world and fork_rules

rules: the rules of any log, simulated or recorded
  their base   base (a rule), facts (the session after each event), lives (of its agents), in_force,
               ledger (its books), dearest (the most that a call can cost), conversation_parts
  all of them  invariants (`check_log`), requests (`check_requests`)
  life         ends, stops, latches, beginnings, reports, background, task_waits, programs, changes
  limits       timers, caps, budgets, books, admission
  duties       approvals, permissions, isolation, model_choice, repeated_requests, tool_results

input_rules: the requests that a model's service refuses, by dialect; problems (`request_problem`)
stores: the contract of a store (`StoreContract`) and its cases: writing, reading, catalog, forks; events
agents: agents as users write them, the only folder that loads the runtime
  runs (`Scenario`, `simulate`, `explore`), scenario_arguments, simulated_ports, recorded_scenario
  remarks (on tools), repeating (the line that repeats a finding), subject (for commands and pytest)
"""

if __name__ != "callboard.replay.testing":
    raise ImportError(
        "import callboard.replay.testing, not testing: the folder is reached through the callboard package, "
        "a second copy of its classes would not compare equal"
    )
