"""The rules of a session, each in one sentence, checked on any log: simulated or recorded."""
