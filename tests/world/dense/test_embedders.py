"""Embedders: the hashed one, functions, endpoints; names, prefixes, broken promises."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pytest
from dense_fakes import TableEmbedder, made_pages
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from sanderling.cli.world import app
from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.tools.contract import ToolContext, ToolOutageError
from sanderling.tools.world_tools import world_tools
from sanderling.world.disk import embedders
from sanderling.world.disk.building import build_world
from sanderling.world.disk.embedders import (
    CallableEmbedder,
    EmbedderOutageError,
    HashedEmbedder,
    Kind,
    embed_units,
    endpoint_embedder,
    open_embedder,
)
from sanderling.world.disk.index import SearchMode
from sanderling.world.disk.store import open_as_met, open_world


@given(st.lists(st.text(max_size=40), max_size=5))
def test_texts_together_are_texts_alone_and_of_unit_length(texts: list[str]) -> None:
    embedder = HashedEmbedder(64)
    together = embed_units(embedder, texts, Kind.DOCUMENT)
    assert together.shape == (len(texts), 64) and together.dtype == np.float32
    for text, row in zip(texts, together, strict=True):
        assert np.array_equal(row, embed_units(embedder, [text], Kind.DOCUMENT)[0])
        assert not row.any() or abs(np.linalg.norm(row) - 1) < 1e-5


@pytest.mark.parametrize(
    ("row", "reason"), [([1.0], "shape"), ([float("nan"), 1.0], "NaN"), ([float("inf"), 1.0], "NaN or infinity")]
)
def test_an_embedder_that_breaks_its_promise_is_named(row: list[float], reason: str) -> None:
    embedder = TableEmbedder({"a": row})
    with pytest.raises(UserError, match=rf"embedder table .*{reason}"):
        embed_units(embedder, ["a"], Kind.QUERY)


@pytest.mark.parametrize("spec", ["", "hash", "hashed:", "hashed:8", "hashed:x", "hashed:-64", "word2vec", "ftp://x#m"])
def test_a_wrong_name_is_told_the_forms(spec: str) -> None:
    if spec == "hashed:":
        assert open_embedder(spec).dimension == 512
        return
    with pytest.raises(UserError, match=r"hashed"):
        open_embedder(spec)


MODULE = """
import numpy as np
NUMBER = 3
def lengths(texts, kind):
    return [[len(text), 1.0 if kind == "query" else 2.0] for text in texts]
def words(texts, kind):
    return "none"
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "someones_model.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["", *__import__("sys").path])
    return "someones_model"


@pytest.mark.parametrize("spec", ["{}.py:lengths", "{}:lengths"])
def test_a_function_of_the_current_directory(module: str, spec: str) -> None:
    embedder = open_embedder(spec.format(module))
    assert (embedder.model, embedder.dimension) == (spec.format(module), 2)
    assert embedder.embed(["abc"], Kind.QUERY).tolist() == [[3, 1]]
    assert embedder.embed(["abc"], Kind.DOCUMENT).tolist() == [[3, 2]]
    assert np.allclose(np.linalg.norm(embed_units(embedder, ["a", "bb"], Kind.QUERY), axis=1), 1)


@pytest.mark.parametrize(
    ("function", "sentence"), [("none", "defines no 'none'"), ("NUMBER", "is no function"), ("words", "no array of numbers")]
)
def test_what_is_no_embedder_is_told(module: str, function: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        open_embedder(f"{module}:{function}").embed(["a"], Kind.QUERY)


HASHED = HashedEmbedder(32)


def answer(request: httpx.Request) -> httpx.Response:
    """Rows in another order than the texts."""
    rows = HASHED.embed(json.loads(request.content)["input"], Kind.DOCUMENT)
    data = [{"index": number, "embedding": [float(value) for value in row]} for number, row in enumerate(rows)]
    return httpx.Response(200, json={"data": data[::-1]})


class Server:
    """Speaks `/v1/embeddings`; gives the replies of its script first. Keeps what it was asked and how long was slept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requests: list[httpx.Request] = []
        self.script: list[httpx.Response | Exception] = []
        self.pauses: list[float] = []
        monkeypatch.setattr(embedders.time, "sleep", self.pauses.append)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        reply = self.script.pop(0) if self.script else answer(request)
        if isinstance(reply, Exception):
            raise reply
        return reply

    @property
    def asked(self) -> list[list[str]]:
        return [json.loads(request.content)["input"] for request in self.requests]

    def embedder(self, dimension: int = 0) -> CallableEmbedder:
        return endpoint_embedder("http://h/v1", "m", dimension, transport=httpx.MockTransport(self))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(monkeypatch)


def test_the_dimension_is_asked_for_once_or_known(server: Server) -> None:
    asking = server.embedder()
    assert (asking.dimension, asking.dimension, len(server.requests)) == (32, 32, 1)
    assert server.embedder(9).dimension == 9 and len(server.requests) == 1
    assert asking.embed([], Kind.QUERY).shape == (0, 32)


def test_a_busy_server_is_asked_again_with_growing_pauses_and_is_an_outage_in_the_end(server: Server) -> None:
    busy: Callable[[], list[httpx.Response | Exception]] = lambda: [httpx.Response(429), httpx.ConnectError("gone")]  # noqa: E731
    server.script = busy()
    assert server.embedder().embed(["a"], Kind.QUERY).shape == (1, 32) and server.pauses == [1.0, 2.0]
    server.script = [*busy(), *busy(), *busy()]
    with pytest.raises(EmbedderOutageError, match=r"no embeddings in 6 attempts \(gone\)"):
        server.embedder().embed(["a"], Kind.QUERY)
    assert server.pauses[2:] == [1.0, 2.0, 4.0, 8.0, 16.0]


def test_a_refusal_is_told_in_the_servers_words_at_once(server: Server) -> None:
    server.script = [httpx.Response(404, content=b'{"error":\n "no such model"}')]
    with pytest.raises(UserError, match="no such model") as raised:
        server.embedder().embed(["a"], Kind.QUERY)
    assert not isinstance(raised.value, EmbedderOutageError) and len(server.requests) == 1


@pytest.mark.parametrize("data", [None, [], [{"index": 1, "embedding": [1]}, {"index": 2, "embedding": [1]}]])
def test_what_are_no_embeddings_is_refused(server: Server, data: object) -> None:
    server.script = [httpx.Response(200, json={"data": data})]
    with pytest.raises(UserError, match="embedding model"):
        server.embedder().embed(["a", "b"], Kind.QUERY)
    with pytest.raises(UserError, match="32 dimensions instead of 64"):
        server.embedder(64).embed(["a"], Kind.QUERY)


@pytest.mark.parametrize("spec", ["http://", "http://h/v1", "http:///v1#m"])
def test_a_wrong_address_is_one_sentence(spec: str) -> None:
    with pytest.raises(UserError, match="names no model of a server"):
        open_embedder(spec)


async def test_a_world_over_an_endpoint_from_the_command_line_to_an_outage(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = httpx.Client
    monkeypatch.setattr(httpx, "Client", lambda **options: client(**options | {"transport": httpx.MockTransport(server)}))
    build_world(tmp_path / "w", made_pages(30), name="t", source="test")
    command = ["embed", str(tmp_path / "w"), "--embedder", "http://h/v1#m"]
    done = CliRunner().invoke(app, [*command, "--set", "prefixes.query=query: ", "--set", "prefixes.document=passage: "])
    assert done.exit_code == 0 and "30 pages as 30 passages of 32 dimensions by m" in done.output
    passages = [text for texts in server.asked for text in texts if text != "dimension"]
    assert len(passages) == 30 and all(text.startswith("passage: ") for text in passages)
    hybrid, asked = open_as_met(tmp_path / "w", search=SearchMode.HYBRID), len(server.requests)
    assert all(reply.hits for reply in await hybrid.search_many(["river stone", "poet"]))
    assert server.asked[asked:] == [["query: river stone", "query: poet"]]
    server.script = [httpx.ConnectError("gone")] * 6
    profile = get_profile("tiny")
    with pytest.raises(ToolOutageError, match="no embeddings"):
        await world_tools(hybrid, profile)[profile.tools.search]({profile.tools.search_query: ["school"]}, ToolContext())
    assert (await hybrid.search("   ")).hits == () and (await open_world(tmp_path / "w").search("school")).hits
