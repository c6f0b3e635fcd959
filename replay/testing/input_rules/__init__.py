"""The input rules of model services: the requests that each of them refuses, each rule with its source."""
