"""The testing kit: for users to test their own agents, protocols and stores. No session needs it to run.

Public as `callboard.testing`. Each module opens with its rules; this is their order, from the bottom up:

  worlds      world (the interface of the explorer), program (any protocol as a world), canonical (bytes)
  one run     schedulers, schedule (a run as text), run, monitors (its rules), happens_before (its races)
  a campaign  explore, statistics, parallel (in several processes)
  a finding   shrink (make a run small), findings (show it)
  processes   determinism (every run again), worker_process

The folders: sessions (of agents, as worlds), rules (of their logs), stores (the contract of a store).
"""

if __name__ != "callboard.replay.testing":
    raise ImportError(
        "import callboard.replay.testing, not testing: the folder is reached through the callboard package, "
        "a second copy of its classes would not compare equal"
    )
