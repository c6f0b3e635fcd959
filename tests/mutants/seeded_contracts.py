"""Mutants of contracts: inputs that are not checked, presets that get lost, ends that lose their kind."""

from typing import Final

from tests.mutants.mutant import Mutant

INPUTS: Final = (
    Mutant(
        "input-unchecked",
        "An agent with a contract begins without a check of its input.",
        "supervisor.delegating",
        "has_input = request.input != NULL",
        "has_input = False",
    ),
    Mutant(
        "any-input-accepted",
        "An agent begins although its input does not match.",
        "supervisor.reports",
        """    if checked.status == "ok":
        begin_if_ready(work, parent, delegation)
    elif checked.status == "invalid":""",
        """    if checked.status != "failed":
        begin_if_ready(work, parent, delegation)
    elif checked.status == "invalid":""",
    ),
    Mutant(
        "input-does-not-wait",
        "A delegation with a context begins before its input is checked.",
        "supervisor.delegating",
        "waits=is_unchecked + len(prepared) + has_input)",
        "waits=is_unchecked + len(prepared) + (has_input and not prepared))",
    ),
    Mutant(
        "input-checked-by-report-schema",
        "An input is checked against the schema of the report.",
        "supervisor.delegating",
        "schema=profile.input_schema,",
        "schema=profile.schema,",
    ),
    Mutant(
        "input-checked-without-type",
        "An input does not pass the validators of its type.",
        "supervisor.delegating",
        "output_type=profile.input_type,",
        'output_type="",',
    ),
    Mutant(
        "preset-by-the-model",
        "A call that names a preset field sets it.",
        "protocol.contracts",
        "        fields.setdefault(name, value)",
        "        fields[name] = value",
    ),
    Mutant(
        "presets-forgotten",
        "An agent begins without its presets.",
        "agent.delegations",
        "prompt = input_prompt(callee.input_schema, callee.presets, given)",
        "prompt = input_prompt(callee.input_schema, NULL, given)",
    ),
    Mutant(
        "program-input-without-presets",
        "An agent that a program calls begins without its presets.",
        "agent.delegations",
        "prompt, given = input_prompt(callee.input_schema, callee.presets, task.input), task.input",
        "prompt, given = input_prompt(callee.input_schema, NULL, task.input), task.input",
    ),
    Mutant(
        "contracts-untold",
        "An agent is not told of the contracts of the agents that it may call.",
        "supervisor.contracts",
        "tuple((one.name, one.description) for one in known), callees_of(known)",
        "tuple((one.name, one.description) for one in known), ()",
    ),
    Mutant(
        "prompt-for-a-contract",
        "An agent with a contract may be given a prompt.",
        "supervisor.resolving",
        "if profile.has_contract != (request.input != NULL):",
        "if not profile.has_contract and request.input != NULL:",
    ),
)
FOLDS: Final = (
    Mutant(
        "unavailable-begins",
        "An agent that was found broken begins.",
        "supervisor.resolving",
        "        if profile.unavailable:",
        "        if profile.unavailable and not profile.has_contract:",
    ),
    Mutant(
        "instance-unmade",
        "An agent of a factory begins before its instance is made.",
        "protocol.profiles",
        "return bool(self.context or self.factory)",
        "return bool(self.context)",
    ),
    Mutant(
        "wrong-input-without-problems",
        "A wrong input ends like any other denial.",
        "supervisor.reports",
        'end_delegation(work, parent, delegation, "denied", detail=WRONG_INPUT, problems=problems)',
        'end_delegation(work, parent, delegation, "denied", detail=WRONG_INPUT)',
    ),
    Mutant(
        "failed-check-denies",
        "A check of an input that failed counts as a wrong input.",
        "supervisor.reports",
        '        end_delegation(work, parent, delegation, "unavailable", detail=detail)',
        '        end_delegation(work, parent, delegation, "denied", detail=detail)',
    ),
    Mutant(
        "metadata-of-the-denied",
        "A call that is denied at once ends without metadata.",
        "supervisor.delegating",
        "    if request.profiles:\n        end = described_end",
        "    if not request.profiles:\n        end = described_end",
    ),
    Mutant(
        "metadata-lost",
        "A call that has begun ends without metadata.",
        "supervisor.delegating",
        "        callee=callee_of(work.state, request),",
        '        callee="",',
    ),
    Mutant(
        "every-failure-is-the-input",
        "A failure of the agent is told as a wrong input.",
        "protocol.folded_results",
        '    return "invalid_input" if end.problems else "unavailable"',
        '    return "invalid_input"',
    ),
)
