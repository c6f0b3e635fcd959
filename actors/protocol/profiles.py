"""The pure description of an agent, as the log holds it. Nothing in it can be called."""

from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal, TypeAlias

import msgspec

from callboard.actors.protocol.bundles import NO_BUNDLE, Bundle
from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.failures import FailureKind
from callboard.actors.protocol.immutable import NULL, Json, Part, Value
from callboard.actors.protocol.limits import Dollars, Limits
from callboard.actors.protocol.near_names import NamedFields
from callboard.actors.protocol.origin import Origin, named

Approval: TypeAlias = Literal["never", "before", "interrupted", "always"]
"""The calls that a person has to approve: none, each, each interrupted one before it is repeated, or both."""

ContextPlace: TypeAlias = Literal["message", "system"]
"""The place of a context: in the message of the prompt, before it, or at the end of the system prompt."""

OnFinish: TypeAlias = Literal["wait", "cancel"]
"""The effect of an agent's last word on its running background delegations: wait for them, or cancel them."""


SCHEMA_ARG: Final = "output_schema"
"""The argument of a delegation that holds the schema of its report, unless the profile names another."""


class ToolOrigin(Part, frozen=True):
    """The place of a tool that was listed elsewhere. source: its label. name: of the tool there."""

    source: str
    name: str


class CacheRules(Value, frozen=True):
    """The rules by which the results of a `read` tool are given again in the same session.

    ttl_ms: milliseconds after which a result is too old; 0 for no such time. over_writes: True if results
    outlive the calls of tools with an effect.
    """

    ttl_ms: int = 0
    over_writes: bool = False


class ToolSpec(Part, frozen=True):
    """A tool, as the model and the runtime know it.

    input_schema: the JSON schema of its arguments. extra: further keys for the model (`strict`, ...).
    approval_timeout_ms: milliseconds that a question about it waits for a person; 0 for the agent's limit.
    origin: of a tool that was listed by an MCP server; None for a function of the program.
    capabilities: that a call needs, such as `network`. labels: of the tool's results, such as `untrusted`.
    version: of its function, as its author counts. cache: None for results that are never given again.
    keep: True if its results stay in the conversation when older ones are cleared.
    """

    name: str
    description: str
    input_schema: Json
    effect: Effect = "write"
    extra: Json = NULL
    approval: Approval = "never"
    approval_timeout_ms: int = 0
    origin: ToolOrigin | None = None
    capabilities: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    version: str = ""
    cache: CacheRules | None = None
    keep: bool = False


class ToolsChange(Part, frozen=True):
    """Other tools for one agent, or for every agent of a profile. tools: all that it has from then on.

    address: of the agent; profile: the name of the profile. One of them is empty.
    """

    tools: tuple[ToolSpec, ...]
    address: str = ""
    profile: str = ""


FREE: Final = Dollars()


class Rates(Value, frozen=True, metaclass=NamedFields):
    """US dollars per million tokens. Raises ValueError for a price below 0 or not a finite number."""

    input_usd: Dollars
    output_usd: Dollars
    cache_read_usd: Dollars = FREE
    cache_write_usd: Dollars = FREE

    def __post_init__(self) -> None:
        for name in Rates.__struct_fields__:
            value = getattr(self, name)
            is_number = isinstance(value, int | Dollars) and not isinstance(value, bool)
            if not is_number or not 0 <= value < 1_000_000:
                raise ValueError(f"Prices.{name} is US dollars per million tokens, not {value!r}")
            # The encoder leaves out a default by its identity.
            msgspec.structs.force_setattr(self, name, Dollars(value) or FREE)


class PriceTier(Rates, frozen=True, kw_only=True):
    """Other prices for long prompts: for all tokens of a call whose prompt has more tokens than this.

    Raises ValueError for a price or a number of tokens below 0.
    """

    above_tokens: int

    def __post_init__(self) -> None:
        if type(self.above_tokens) is not int or self.above_tokens < 0:
            raise ValueError(f"PriceTier.above_tokens is a number of tokens, not {self.above_tokens!r}")
        super().__post_init__()


class Prices(Rates, frozen=True):
    """US dollars per million tokens. tiers: other prices for long prompts, the shortest first.

    A prompt counts with its cached tokens. Raises ValueError for a price below 0 or not a finite number, and
    for tiers in another order.

    >>> Prices(3, 15, tiers=(PriceTier(6, 22.5, above_tokens=200_000),)).rates_at(200_001).input_usd
    6.0
    """

    tiers: tuple[PriceTier, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.tiers, tuple) or not all(isinstance(one, PriceTier) for one in self.tiers):
            raise ValueError(f"Prices.tiers is a tuple of PriceTier, not {self.tiers!r:.80}")
        starts = [one.above_tokens for one in self.tiers]
        if any(one >= other for one, other in pairwise(starts)):
            raise ValueError(f"each PriceTier begins above more tokens than the last, not above {starts}")

    def rates_at(self, prompt_tokens: int) -> Rates:
        """Return the prices of a call whose prompt has this many tokens."""
        return self.reached(prompt_tokens)[-1] if self.tiers else self

    def reached(self, prompt_tokens: int) -> tuple[Rates, ...]:
        """Return the prices that a call with a prompt of at most this many tokens can have."""
        return (self, *(one for one in self.tiers if one.above_tokens < prompt_tokens))


class ModelSpec(Part, frozen=True, metaclass=NamedFields):
    """A model and the parameters of its calls.

    name: by which the runtime finds it. max_tokens: the most that one answer may have.
    params: further parameters of a call, a JSON object. prices: None if they are unknown. inline_tools: True
    if a conversation may hold messages that change the tools.
    kind: `program` for an agent that is a program: its steps cost nothing, and its sub-agents do not inherit
    it. `function` for a function of the user, which costs nothing, too.
    origin: of the messages that it answers with, None for a model that its name tells from all others.
    checks_usage: True if the service's count of a prompt is used only if it is plausible. overhead_tokens:
    the most that it adds to each prompt. image_tokens, file_tokens: the most of one image or file, 0 if that
    is not known.
    fallback: the models to ask, in this order, after a failure of this one; none of them has a fallback.
    fallback_on: the kinds of failures after which the next one is asked.
    context_tokens: the most tokens of a request and its answer together, 0 if that is not known.
    """

    name: str
    max_tokens: int = 8_192
    params: Json = NULL
    prices: Prices | None = None
    inline_tools: bool = False
    kind: Literal["service", "program", "function"] = "service"
    origin: Origin | None = None
    checks_usage: bool = False
    overhead_tokens: int = 0
    image_tokens: int = 0
    file_tokens: int = 0
    fallback: "tuple[ModelSpec, ...]" = ()
    fallback_on: tuple[FailureKind, ...] = ()
    context_tokens: int = 0

    @property
    def all_specs(self) -> "tuple[ModelSpec, ...]":
        """Return this model and those that it falls back to."""
        return (self, *self.fallback)

    @property
    def unpriced(self) -> str:
        """Return the name of the first of these models without known prices; empty if all have prices."""
        if self.is_free:
            return ""
        return next((one.name for one in self.all_specs if one.prices is None), "")

    def spec_named(self, name: str) -> "ModelSpec":
        """Return the one of these models with this name; the first one for an empty name."""
        return next((one for one in self.fallback if one.name == name), self)

    @property
    def is_program(self) -> bool:
        """Return True if the answers are the steps of a program, which cost nothing."""
        return self.kind == "program"

    @property
    def is_free(self) -> bool:
        """Return True if its answers cost neither tokens nor money."""
        return self.kind != "service"

    @property
    def made_by(self) -> Origin:
        """Return the origin of its messages, unless an answer says otherwise."""
        return self.origin or named(self.name)


class CompactRules(Part, frozen=True):
    """The rules by which an agent's conversation is shortened.

    percent: of the model's window; a request that may need more is preceded by a compaction. keep: the number
    of last turns that stay as they are. instructions: to the model that writes a summary, empty for
    callboard's own. model: the model that writes it, None for the agent's own. has_summaries: False if old
    results are cleared, and nothing is summarised.
    """

    percent: int = 80
    keep: int = 4
    instructions: str = ""
    model: ModelSpec | None = None
    has_summaries: bool = True


class Profile(Part, frozen=True):
    """An agent's description.

    instructions: a JSON string, a list of content blocks, or null. server_tools: tools that the model's own
    service runs. agents: names of the profiles it may delegate to. schema: of its report, unless the call
    has one. model: None for the parent's. output_type: the name of the Python type that the schema was made
    of, empty for none. context: the name of the function that makes the context of its delegations, empty for
    none. context_in: its place, before the prompt or behind the instructions.
    background: True if it may delegate work that runs while it goes on. on_finish: `wait` if its last word
    waits for the ends of that work, `cancel` if it ends that work.
    turns: `all` if a turn waits for all calls of the reply before it, `any` if for one call, as a program's.
    models: the models that a program may ask by name, beside its default one.
    default_model: of a program's questions and of its sub-agents; None for the one that it inherits.
    lossy: True if a block that a model's service cannot take is replaced by a text; False if the call fails.
    permissions: of the agent and of those below it.
    input_schema: of its input, without the preset fields; null if its input is a prompt. input_type: the name
    of the Python type whose validators an input has to pass too, empty for none. presets: the fields that its
    callers neither see nor set, a JSON object; null for none.
    schema_arg: the argument by which a calling model gives the schema of the report; empty if it may not.
    factory: the name of the function that makes a new instance for each call, empty for none.
    unavailable: the reason for which it cannot begin, empty if it can.
    model_reason: why its model is not the parent's.
    compact: the rules by which its conversation is shortened, None if it is not.
    """

    name: str
    description: str = ""
    instructions: Json = NULL
    tools: tuple[ToolSpec, ...] = ()
    server_tools: tuple[Json, ...] = ()
    agents: tuple[str, ...] = ()
    schema: Json = NULL
    limits: Limits = Limits()
    model: ModelSpec | None = None
    output_type: str = ""
    background: bool = False
    on_finish: OnFinish = "wait"
    context: str = ""
    turns: Literal["all", "any"] = "all"
    models: tuple[ModelSpec, ...] = ()
    lossy: bool = False
    permissions: Bundle = NO_BUNDLE
    input_schema: Json = NULL
    input_type: str = ""
    presets: Json = NULL
    schema_arg: str = SCHEMA_ARG
    factory: str = ""
    unavailable: str = ""
    model_reason: str = ""
    context_in: ContextPlace = "message"
    default_model: ModelSpec | None = None
    compact: CompactRules | None = None

    @property
    def has_contract(self) -> bool:
        """Return True if its input is the fields of a contract, and no prompt."""
        return self.input_schema != NULL

    @property
    def is_folded(self) -> bool:
        """Return True if a failure of it is one result of a fixed form for the calling model."""
        return self.has_contract or bool(self.factory or self.unavailable)

    @property
    def is_prepared(self) -> bool:
        """Return True if a delegation to it waits for its context, or for a new instance."""
        return bool(self.context or self.factory)

    @property
    def is_eager(self) -> bool:
        """Return True if the agent asks for its next turn as soon as one call is answered."""
        return self.turns == "any"

    def own_model(self, inherited: ModelSpec) -> ModelSpec:
        """Return the model, or the program, that answers this agent's turns. inherited: its parent's."""
        return self.model or inherited

    def model_below(self, inherited: ModelSpec) -> ModelSpec:
        """Return the model that its sub-agents inherit: of a program, that of its questions."""
        own = self.default_model if self.model is not None and self.model.is_program else self.model
        return own or inherited


@lru_cache(maxsize=1_024)
def read_profile(raw: bytes) -> Profile:
    """Decode a profile that the runtime's own encoder has encoded."""
    return msgspec.json.decode(raw, type=Profile)
