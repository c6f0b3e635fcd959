"""HTTP for tools: `ctx.http`, within the hosts of the agent's bundles."""
