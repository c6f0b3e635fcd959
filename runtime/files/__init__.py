"""Files for tools: one folder, opened so that no path leads out of it."""
