"""Whole sessions as worlds: supervisor, agents and scripted ports under a virtual clock, with every fault."""
