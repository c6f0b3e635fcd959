"""The agent of the workers. Its model is a script; put a model of a provider in its place."""

from callboard import Agent, ScriptedModel, call, say, tool


@tool(effect="read")
def list_files() -> list[str]:
    """List the files."""
    return ["a.txt", "b.txt"]


model = ScriptedModel(lambda request: call("list_files") if request.turn == 1 else say("Two files."))
host = Agent("host", description="Answers questions about files.", tools=[list_files], model=model)
