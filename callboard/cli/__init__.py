"""The command line. The one place that imports click and rich."""
