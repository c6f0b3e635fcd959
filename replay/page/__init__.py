"""A session as one HTML page: its data (`lines`), their form (`packing`), the page (`building`)."""
