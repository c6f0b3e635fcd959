"""Sessions on several machines, where another program places the workers: `ray`."""
