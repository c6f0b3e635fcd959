"""Tools of MCP servers. The official SDK is imported when a server is first used."""
