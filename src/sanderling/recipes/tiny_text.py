"""Running text about generated worlds: what the tiny base model was trained on, and what SFT mixes in against forgetting.

Pages, fact sheets that list what a page says, and lists of titles, addresses and sentences: reading a fact back, and copying a
name never seen before, is what lowers the loss. After SFT without such text, names are copied the worse the further back they
stand; `benchmarks/copying.py` measures that, and docs/log.md has figures.
"""

import json
import math
import random
from collections.abc import Iterator

import numpy as np

from sanderling.core.chat import Tokenizer
from sanderling.train.random_model import END_OF_TEXT
from sanderling.train.rows import Row
from sanderling.world.encyclopedia import Encyclopedia, EncyclopediaPage, Site, generate_encyclopedia, render_pages

FIRST_WORLD = 1_000_000
"""Seed of the first world that texts are about; the recipe's own worlds have seeds below it."""
_SHEET_SHARE, _LIST_SHARE = 0.7, 0.6
"""Share of a text's pages whose claims are also listed; of texts with a list of titles, addresses and sentences."""
_TOKENS_PER_ENTITY = 220
"""About as long is what a text says of one entity: a text is to be about as long as a row, or its retellings would be lost."""
_FIRST_AMONG = FIRST_WORLD + 500_000  # of what is mixed in; the base model has read none of these
_JSON_SHARE = 0.5
"""Share of the mixed-in fact sheets that are JSON objects: a value follows a quotation mark there, not a space, and so has the
tokens that it has in an answer."""
_WORLD_SIZE, _ROWS, _ROW_TOKENS = 48, 4, 448  # of each such world: its entities, its rows, and tokens of a row


def text_among(tokens: int, share: float, tokenizer: Tokenizer) -> Iterator[Row]:
    """Rows of text that are this share of all tokens, beside others with so many ``tokens``."""
    wanted = tokens * share / (1 - share)
    for number in range(math.ceil(wanted / (_ROWS * _ROW_TOKENS))):
        yield from text_rows(tokenizer, _FIRST_AMONG + number, _WORLD_SIZE, _ROWS, _ROW_TOKENS, json_share=_JSON_SHARE)


def text_rows(
    tokenizer: Tokenizer, seed: int, world_size: int, rows: int, row_tokens: int, *, json_share: float = 0.0
) -> list[Row]:
    """So many rows about one world: every token is trained but the first."""
    rng = random.Random(f"base:{seed}")
    end = tokenizer.token_id(END_OF_TEXT)
    linked = max(1, round(row_tokens / _TOKENS_PER_ENTITY))
    texts = documents(generate_encyclopedia(world_size, seed), rng, linked, json_share=json_share)
    found: list[Row] = []
    for number in range(rows):
        ids: list[int] = []
        while len(ids) < row_tokens:
            ids += [end, *tokenizer.encode(next(texts))]
        array = np.array(ids[:row_tokens], dtype=np.int64)
        mask = np.ones(len(array), dtype=np.bool_)
        mask[0] = False
        found.append(Row(ids=array, loss_mask=mask, trajectory=f"world {seed} text {number}"))
    return found


def documents(world: Encyclopedia, rng: random.Random, linked: int = 2, *, json_share: float = 0.0) -> Iterator[str]:
    """Endless texts about a world, each of so many linked entities; of its fact sheets this share are JSON objects.

    Parts of a text (pages, fact sheets, a list of addresses) stand in any order, so that what is said again is said far
    apart as often as close by.
    """

    def sheet(
        item: EncyclopediaPage,
    ) -> str:  # where no JSON is asked for, nothing is drawn: the base model's texts stay the same
        return fact_sheet(world, item, rng, in_json=json_share > 0 and rng.random() < json_share)

    tellings = _tellings(world)
    while True:
        chosen = _walk(world, tellings, rng, linked)
        parts = [page_text(item, rng) for item in chosen]
        parts += [sheet(item) for item in chosen if rng.random() < _SHEET_SHARE]
        if rng.random() < _LIST_SHARE:
            parts.append("\n".join(f"{item.page.title}\n{item.page.url}\n{_lead(item, rng)}" for item in chosen))
        rng.shuffle(parts)
        yield "\n\n".join(parts)


def page_text(item: EncyclopediaPage, rng: random.Random) -> str:
    """A page as running text under its title, its address, or both."""
    title, url = item.page.title, item.page.url
    return "\n".join([*rng.choice(([title], [url], [title, url], [url, title])), item.page.text])


def fact_sheet(world: Encyclopedia, item: EncyclopediaPage, rng: random.Random, *, in_json: bool = False) -> str:
    """What a page claims, one relation a line or as a JSON object, in any order, under the page's address."""
    claims = [(name, world.facts.object_text(value)) for name, value in item.claims.items()]
    rng.shuffle(claims)
    listed = [json.dumps(dict(claims))] if in_json else [f"{name}: {said}" for name, said in claims]
    return "\n".join([item.page.url, *listed])


def _lead(item: EncyclopediaPage, rng: random.Random) -> str:
    sentences = item.page.text.split(". ")
    at = rng.randrange(len(sentences))
    return ". ".join(sentences[at : at + 2]).rstrip(".") + "."


def _tellings(world: Encyclopedia) -> dict[int, list[EncyclopediaPage]]:
    """Each entity's pages; those of the atlas and the archive, whose claims are settled, also in other words."""
    pages = [*world.pages]
    for extra in (1, 2):
        pages += [item for item in render_pages(world.facts, world.seed + extra) if item.site is not Site.GAZETTE]
    found: dict[int, list[EncyclopediaPage]] = {}
    for item in pages:
        found.setdefault(item.entity, []).append(item)
    return found


def _walk(
    world: Encyclopedia, tellings: dict[int, list[EncyclopediaPage]], rng: random.Random, linked: int
) -> list[EncyclopediaPage]:
    """One to three pages each of entities that a link or a name leads to from each other."""
    entities = world.facts.entities
    at = rng.choice(entities).id
    chosen: list[EncyclopediaPage] = []
    for _ in range(linked):
        chosen += rng.sample(tellings[at], k=min(len(tellings[at]), rng.randrange(1, 4)))
        claimed = [value for value in tellings[at][0].claims.values() if isinstance(value, int)]
        namesakes = [other.id for other in entities if other.name == entities[at].name and other.id != at]
        at = rng.choice(namesakes if namesakes and rng.random() < 0.3 else claimed)
    return chosen
