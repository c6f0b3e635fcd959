"""Mutants of conversations in which several models take part."""

from typing import Final

from tests.mutants.mutant import Mutant

REPAIRS: Final = (
    Mutant(
        "repair-level-not-told",
        "A request at a higher repair level does not say so.",
        "agent.turns",
        "    if state.new_labels or state.repair is not None:\n        state, request = _with_rest",
        "    if state.new_labels:\n        state, request = _with_rest",
    ),
    Mutant(
        "repair-level-lost-in-the-attempt",
        "The attempt at the next repair level does not say so.",
        "agent.failed_calls",
        "    if state.repair is not None:\n        again = replace(again, repair=state.repair)\n",
        "",
    ),
    Mutant(
        "repair-keeps-the-cache",
        "A raised repair level does not break the cache.",
        "agent.state",
        "        is_anew=True,\n        context_tokens=state.context_tokens + calls",
        "        is_anew=state.is_anew,\n        context_tokens=state.context_tokens + calls",
    ),
    Mutant(
        "digest-forgets-the-repair",
        "The digest of a request does not count a raised repair level.",
        "agent.state",
        "digest=rolled(state.digest, repair.mark),",
        "digest=state.digest,",
    ),
    Mutant(
        "repaired-again-and-again",
        "A turn has an attempt at each repair level.",
        "agent.failed_calls",
        "is_first, state = state.raised != state.turn, with_next_repair(state)",
        "is_first, state = True, with_next_repair(state)",
    ),
    Mutant(
        "unreadable-is-empty",
        "Arguments that are not an object go back as an empty one.",
        "protocol.repairs",
        'return {"input": unreadable(Json(use.input))}',
        'return {"input": Json(b"{}")}',
    ),
)
"""Mutants of replies that are repaired on their way back."""

MAKERS: Final = (
    Mutant(
        "maker-is-the-model-asked",
        "A reply that says who made it counts as one of the model that was asked.",
        "agent.decider",
        "origin or state.model.made_by",
        "state.model.made_by",
    ),
    Mutant(
        "first-maker-of-all",
        "The maker of the first message counts as that of all.",
        "protocol.makers",
        "return origins if origins.last() == origin else origins.put(place, origin)",
        "return origins",
    ),
    Mutant(
        "makers-slip",
        "The makers stay at their places when messages about tools go.",
        "protocol.makers",
        "makers = with_reply(makers, kept.size, made)",
        "makers = with_reply(makers, place, made)",
    ),
    Mutant(
        "makers-not-taken-back",
        "A turn that is taken back leaves the makers of its conversation.",
        "agent.turns",
        "        origins=unsent.origins,\n",
        "",
    ),
    Mutant(
        "other-origin-keeps-the-cache",
        "A request to another origin does not say that it begins anew.",
        "agent.state",
        "mark(model.made_by)), is_anew=True)",
        "mark(model.made_by)), is_anew=state.is_anew)",
    ),
    Mutant(
        "digest-forgets-the-origin",
        "The digest of a request does not count a change of origin.",
        "agent.state",
        "digest=rolled(state.digest, mark(model.made_by)),",
        "digest=state.digest,",
    ),
    Mutant(
        "count-of-another-tokenizer",
        "The tokens that one model has counted bound the request to another.",
        "agent.input_bound",
        "    tokens = max(state.context_tokens, _prompt_bytes(books, state.model))",
        "    tokens = state.context_tokens",
    ),
    Mutant(
        "reserve-of-the-last-count",
        "A delegation leaves its parent what the last model's count of tokens needs.",
        "agent.state",
        "input_tokens += max(0, books.input_bytes - state.context_tokens)",
        "input_tokens += 0",
    ),
    Mutant(
        "unreadable-changes-of-tools",
        "A model that reads no changes of tools is sent them.",
        "agent.state",
        "if prefix.is_changed and not model.inline_tools:",
        "if False:",
    ),
)

TRANSLATION: Final = (
    Mutant(
        "same-adapter-same-origin",
        "The messages of another model behind the same adapter go back as they came.",
        "protocol.translation",
        "elif maker == self._origin and not self._level:",
        "elif maker.adapter == self._origin.adapter and not self._level:",
    ),
    Mutant(
        "ids-of-the-maker-alone",
        "Calls of different messages with one id get one id again.",
        "protocol.repairs",
        'rolled(f"{reply}.{number}", Json(theirs.encode()))',
        'rolled("", Json(theirs.encode()))',
    ),
    Mutant(
        "results-keep-their-ids",
        "The result of a call that got another id keeps the first.",
        "protocol.translation",
        'changed["tool_use_id"] = text_json(ours.popleft())',
        "ours.popleft()",
    ),
    Mutant(
        "images-before-results",
        "The images of a model stand before the results.",
        "protocol.translation",
        "blocks[results:results] = ",
        "blocks[:0] = ",
    ),
    Mutant(
        "two-models-in-a-row",
        "No user speaks between the messages of two models.",
        "protocol.translation",
        'self._part_from(self._last != "heard")',
        "self._part_from(False)",
    ),
    Mutant(
        "always-lossy",
        "A text stands for a block that cannot be sent, whatever the profile says.",
        "protocol.translation",
        "if self._is_lossy or (self.read, at) < self._handed:",
        "if True:",
    ),
    Mutant(
        "texts-with-their-marks",
        "The text of another model keeps all that stood beside it.",
        "protocol.blocks",
        "return [text_block(text)] if text.strip() else []",
        "return [block] if text.strip() else []",
    ),
    Mutant(
        "reasoning-is-no-private-matter",
        "The reasoning of another model is treated as a block that should be said.",
        "protocol.blocks",
        'return kind in _PRIVATE or kind.endswith("_tool_result")',
        'return kind.endswith("_tool_result")',
    ),
    Mutant(
        "files-of-another-service",
        "An image by the id of a file at another service is sent.",
        "protocol.blocks",
        "    if source_of(block) not in _SOURCES:\n        return None\n",
        "",
    ),
)
