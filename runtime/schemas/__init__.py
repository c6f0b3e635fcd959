"""The engine of the `schema` port: which schemas are accepted, and whether a report matches one."""
