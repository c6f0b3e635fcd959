"""The engine of the `schema` port: accepts schemas and checks reports against them."""
