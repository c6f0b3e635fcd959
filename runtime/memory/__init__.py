"""Long-term memory: texts that agents keep beyond a session, and find again by their words."""
