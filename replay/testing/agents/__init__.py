"""Agents as users write them, in the kit: the only folder of it that loads the runtime."""
