"""The control socket: commands of this computer's user to the runtime that owns a log."""
