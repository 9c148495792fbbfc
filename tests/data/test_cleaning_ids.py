"""Ids and branches: what was sampled stays with what was said, and a branch stays only where it still tells the truth."""

from cleaning_makers import answer, chain, clean, message, results, search, seen, step, visit

from sanderling.core.profiles import get_profile
from sanderling.core.prompts import render_question
from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.core.types import Role
from sanderling.data.cleaning import CleaningRecipe, get_recipe
from sanderling.data.cleaning.draft import system_prompt

PROFILE = get_profile("dr-venus-4b")


def sampled(text: str, number: int) -> dict[str, object]:
    """Ids as of a loop: the turn's text begins inside the reasoning, as the prompt's tag has it."""
    ids = tuple(range(number, number + 3))
    return {"token_ids": ids, "logprobs": (-0.5,) * 3, "versions": (1,) * 3, "loss_mask": (True,) * 3}


def turn(text: str, number: int, **fields: object) -> Node:
    node = message(NodeKind.TURN, text, **sampled(text, number), **fields)
    return node.model_copy(update={"text": text.removeprefix("<think>\n")})


def given(text: str, kind: NodeKind) -> Node:
    return message(kind, text, token_ids=(9, 9))


def record(*nodes: Node) -> Trajectory:
    """An episode of our own loop, with ids throughout."""
    import datetime

    prompt = system_prompt(PROFILE, "", datetime.date(2026, 3, 1))
    opening = (given(prompt, NodeKind.SYSTEM), given(render_question(PROFILE, "Which city?"), NodeKind.QUESTION))
    return chain(*opening, *nodes, profile=PROFILE.name, tokenizer="fingerprint")  # pyright: ignore[reportArgumentType]


def cleaned(found: Trajectory) -> tuple[Trajectory, dict[str, int]]:
    (kept,), _, report = clean([found], get_recipe("dr-venus"))
    return kept, {code: count.number for one in report.steps for code, count in one.notes.items()}


def test_what_is_well_formed_is_not_touched() -> None:
    found = record(turn(search("a"), 0), given(seen(results("a")), NodeKind.OBSERVATION), turn(answer(), 3))
    assert cleaned(found) == (found, {})


def test_a_removed_turn_leaves_the_others_their_ids_but_later_ones_no_log_probabilities() -> None:
    seen_ = given(seen(results("a")), NodeKind.OBSERVATION)
    found = record(turn(search("a"), 0), seen_, turn(search("a"), 3), seen_, turn(answer(), 6))
    kept, counts = cleaned(found)
    assert [node.token_ids for node in kept.branch()][2:] == [(0, 1, 2), (9, 9), (6, 7, 8)]
    first, last = [node for node in kept.branch() if node.kind is NodeKind.TURN]
    assert (first.logprobs, first.versions) == ((-0.5,) * 3, (1,) * 3)
    assert (last.logprobs, last.versions) == (None, (1,) * 3)
    assert counts["logprobs_dropped"] == 1
    assert kept.token_ids() == [9, 9, 9, 9, 0, 1, 2, 9, 9, 6, 7, 8]


def test_a_rewritten_turn_has_no_ids_and_the_untouched_keep_theirs() -> None:
    recipe = CleaningRecipe(steps=("names",))
    odd = search("a").replace('"search"', '"google_search"')
    found = record(turn(odd, 0), given(seen(results("a")), NodeKind.OBSERVATION), turn(answer(), 3))
    (kept,), _, _ = clean([found], recipe)
    rewritten, observation, last = kept.branch()[2:]
    assert (rewritten.text, rewritten.token_ids, rewritten.logprobs, rewritten.loss_mask) == (search("a"), None, None, None)
    assert (observation.token_ids, last.token_ids) == ((9, 9), (3, 4, 5))
    assert Trajectory.model_validate(kept.model_dump()) == kept


def test_the_whole_order_leaves_ids_throughout_or_none() -> None:
    """Training refuses a record with ids for some messages; turns are then written out with the prompt's tag."""
    odd = search("a").replace('"search"', '"google_search"')
    kept, counts = cleaned(record(turn(odd, 0), given(seen(results("a")), NodeKind.OBSERVATION), turn(answer(), 3)))
    assert {node.token_ids for node in kept.nodes} == {None}
    assert [node.text for node in kept.turns()] == [search("a"), answer()]
    assert counts["messages_without_ids"] == 4


def test_a_rejected_attempt_stays_where_its_context_stays() -> None:
    base = record(turn(search("a"), 0), given(seen(results("a")), NodeKind.OBSERVATION), turn(answer(), 3))
    rejected = message(NodeKind.TURN, "no form", rejected=True).model_copy(update={"parent": 3})
    found = base.model_copy(
        update={"nodes": (*base.nodes[:4], rejected, base.nodes[4].model_copy(update={"parent": 3})), "leaf": 5}
    )
    assert cleaned(found) == (found, {})


def test_a_branch_whose_context_changed_is_pruned_and_counted() -> None:
    seen_ = given(seen(results("a")), NodeKind.OBSERVATION)
    base = record(turn(search("a"), 0), seen_, turn(search("a"), 3), seen_, turn(visit("u"), 6), seen_, turn(answer(), 9))
    early = message(NodeKind.TURN, "no form", rejected=True).model_copy(update={"parent": 3})
    late = message(NodeKind.TURN, "no form", rejected=True).model_copy(update={"parent": 7})
    child = Node(parent=10, role=Role.USER, kind=NodeKind.HINT, text="Malformed.")
    found = base.model_copy(update={"nodes": (*base.nodes, early, late, child)})
    kept, counts = cleaned(found)
    assert counts["branch_messages_pruned"] == 2
    assert len(kept.nodes) == len(found.nodes) - 2 - 2
    assert kept.leaves() == [kept.leaf, len(kept.nodes) - 1]
    assert kept.nodes[-1].parent == 3 and kept.nodes[-1].rejected


def test_a_cut_answer_is_written_out_with_the_prompts_tag() -> None:
    found = record(turn(answer() + " And more.", 0))
    done = step("truncate", found).trajectory
    assert done is not None
    assert (done.nodes[-1].text, done.nodes[-1].token_ids) == (answer(), None)


def test_two_thousand_turns() -> None:
    nodes = [
        node
        for number in range(2_000)
        for node in (message(NodeKind.TURN, search(f"{number % 900}")), message(NodeKind.OBSERVATION, results("a")))
    ]
    opening = [message(NodeKind.SYSTEM, "x"), message(NodeKind.QUESTION, "Which city?")]
    kept, counts = cleaned(chain(*opening, *nodes, message(NodeKind.TURN, answer())))
    assert counts["turns_removed"] == 1_100
    assert len(kept.nodes) == 2 + 2 * 900 + 1
