"""A host that has a text reviewed by two agents, and publishes it only if both agree."""

from pydantic import BaseModel

from callboard import Agent, tool


class Verdict(BaseModel):
    """The report of a reviewer."""

    is_good: bool
    reason: str


@tool(effect="read")
def read_draft() -> str:
    """Read the draft."""
    return "Cats are liquid. They fill any box that holds them."


@tool(effect="write")
def publish() -> str:
    """Publish the draft. It cannot be taken back."""
    return "published"


style = Agent("style", description="Judges style.", tools=[read_draft], output_schema=Verdict)
facts = Agent("facts", description="Judges facts.", tools=[read_draft], output_schema=Verdict)
host = Agent(
    "editor",
    instructions="Let both reviewers judge the draft. Publish it if both say that it is good.",
    agents=[style, facts],
    tools=[publish],
)
