"""Workers: processes that share the sessions of one log on a server."""
