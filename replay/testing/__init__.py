"""The testing kit: for users to test their own agents, protocols and stores. No session needs it to run.

Public as `callboard.testing`. Exploring, from the bottom up (each module opens with its rules):

  world          the interface of the explorer: moves, steps, and options (Heals, Touches, Covers, Forks)
  program        any protocol as a world: actors with pure step functions, first-in-first-out inboxes; fast
  network        the same on a network that reorders, loses and duplicates
  canonical      bytes of any frozen value, for digests

  schedulers     the interface; walk (random, no run twice), pos, pct, delays, exhaustive, replayed; the
                 default is portfolio, which gives each of several its turn
  happens_before the partial order of a run, and its races
  state_space    all states of a small model, counted

  schedule       a run as text: short, and refused where it does not fit
  run            one run in two parts, with faults and without
  monitors       rules: always, at_rest, eventually; goals: sometimes
  explore        a campaign: `explore(make_world, rules, ...)`; parallel, shards: the same in processes
  statistics     its figures: partial orders, end states, coverage, faults, the bound of PCT
  candidate, shrink  a run that breaks a rule, made small
  race_reversal  the same run with one race reversed
  determinism    every run made again in a replica_process, with state_digests compared
  chart, findings    a result as lines: the rule, a message-sequence chart, the overtakings
  stopwatch      the only clock in here

The folders: sessions (of agents, as worlds), rules (of their logs), stores (the contract of a store).
"""

if __name__ != "callboard.replay.testing":
    raise ImportError(
        "import callboard.replay.testing, not testing: the folder is reached through the callboard package, "
        "a second copy of its classes would not compare equal"
    )
