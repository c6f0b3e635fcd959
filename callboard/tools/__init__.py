"""Tools that are ready for agents, in the modules `files`, `memory` and `shell`."""
