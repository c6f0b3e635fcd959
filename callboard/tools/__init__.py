"""Tools that are ready for agents: `callboard.tools.files` and `callboard.tools.shell`."""
