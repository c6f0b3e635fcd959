"""The log: the EventLog protocol, its stores, and the hash chain of digests."""
