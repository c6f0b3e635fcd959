"""What users test their own agents, protocols and stores with; nothing of it is needed to run a session.

Public as `callboard.testing`. Exploring, from the bottom up (each module opens with its rules):

  world       what can be explored: moves, steps; what worlds may also offer (Heals, Touches, Covers, Forks)
  program     any protocol as a world: actors with pure step functions, first-in-first-out inboxes; fast
  network     the same on a network that reorders, loses and duplicates
  canonical   bytes of any frozen value, for digests

  scheduler   what every scheduler is; walk (random, no run twice), pos, pct, delays, exhaustive, replayed
  portfolio   all of them in turn, the default; `scheduler_named`
  order       what happened before what, and which steps race
  reach       all states of a small model, counted

  schedule    a run as text: short, and refused where it does not fit
  run         one run in two parts, with faults and without
  monitors    rules: always, at_rest, eventually; goals: sometimes
  explore     a campaign: `explore(make_world, rules, ...)`; parallel, shares: the same in several
              processes
  seen        its figures: partial orders, end states, coverage, faults, the bound of PCT
  guess, shrink     a run that breaks a rule, made small
  swap              the same with one race the other way round
  chart, findings   what was found, as lines: the rule, a message-sequence chart, who overtook whom
  stopwatch   the only clock in here

Sessions of agents as worlds are in session_*, their rules in invariants*, the contract of stores in store_*.
"""

if __name__ != "callboard.replay.testing":
    raise ImportError(
        "import callboard.replay.testing, not testing: the folder is reached through the callboard package, "
        "a second copy of its classes would not compare equal"
    )
