"""Embedders: the hashed one, functions, endpoints, the cache over any; names, prefixes, broken promises."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

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
from sanderling.world.dense.embedders import (
    CachedEmbedder,
    CallableEmbedder,
    EmbedderOutageError,
    EndpointEmbedder,
    HashedEmbedder,
    Kind,
    embed_units,
    open_embedder,
)
from sanderling.world.disk.index import SearchMode
from sanderling.world.disk.store import build_world, open_world
from sanderling.world.opening import open_as_met


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


@pytest.mark.parametrize("spec", ["callable:{}:lengths", "{}.py:lengths", "{}:lengths"])
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
        open_embedder(f"callable:{module}:{function}").embed(["a"], Kind.QUERY)


@pytest.mark.parametrize("spec", ["callable:", "callable:x", "callable::f", "callable:no_such_module_anywhere:f"])
def test_a_function_that_is_not_there(spec: str) -> None:
    with pytest.raises(UserError, match=r"give hashed|can be imported"):
        open_embedder(spec)


def test_rows_that_are_no_rows_are_told() -> None:
    with pytest.raises(UserError, match="no row of numbers"):
        _ = CallableEmbedder(lambda texts, kind: [1.0 for _ in texts], "flat").dimension


class Counting(HashedEmbedder):
    """Keeps the texts it was asked for."""

    def __init__(self, dimension: int = 16) -> None:
        super().__init__(dimension)
        self.asked: list[str] = []

    def embed(self, texts, kind):
        self.asked += texts
        return super().embed(texts, kind)


def test_equal_texts_are_asked_for_once(tmp_path: Path) -> None:
    inner = Counting()
    cached = CachedEmbedder(inner, tmp_path / "c")
    texts = ["river", "stone", "river", ""]
    expected = HashedEmbedder(16).embed(texts, Kind.QUERY)
    for embedder in (cached, cached, CachedEmbedder(inner, tmp_path / "c")):
        assert np.array_equal(embedder.embed(texts, Kind.QUERY), expected)
    assert inner.asked == ["river", "stone", ""]
    assert cached.embed([], Kind.QUERY).shape == (0, 16)
    assert (cached.model, cached.dimension) == (inner.model, 16)


def test_model_kind_and_text_make_the_key(tmp_path: Path) -> None:
    small, large = Counting(16), Counting(32)
    CachedEmbedder(small, tmp_path / "c").embed(["river"], Kind.QUERY)
    CachedEmbedder(small, tmp_path / "c").embed(["river"], Kind.DOCUMENT)
    assert CachedEmbedder(large, tmp_path / "c").embed(["river"], Kind.QUERY).shape == (1, 32)
    assert (small.asked, large.asked) == (["river", "river"], ["river"])


def test_threads_share_it(tmp_path: Path) -> None:
    cached = CachedEmbedder(Counting(), tmp_path / "c")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: cached.embed([f"word {n % 5}", "same"], Kind.QUERY), range(60)))
    assert all(np.array_equal(found[n], found[n % 5]) for n in range(60))


CHILD = """
import os, signal, sys
from pathlib import Path
from sanderling.world.dense.embedders import CachedEmbedder
from sanderling.world.dense.embedders import Kind
from sanderling.world.dense.embedders import HashedEmbedder
cached = CachedEmbedder(HashedEmbedder(16), Path(sys.argv[1]))
for number in range(10_000):
    cached.embed([f"word {number}"], Kind.QUERY)
    print(number, flush=True)
"""


def test_killed_it_keeps_what_it_had_said(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD, tmp_path / "c"], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        said = [int(child.stdout.readline()) for _ in range(20)]
        os.kill(child.pid, signal.SIGKILL)
    inner = Counting()
    found = CachedEmbedder(inner, tmp_path / "c").embed([f"word {number}" for number in said], Kind.QUERY)
    assert inner.asked == []
    assert np.array_equal(found, inner.embed([f"word {number}" for number in said], Kind.QUERY))


def test_a_broken_promise_is_not_kept(tmp_path: Path) -> None:
    class Broken(Counting):
        def embed(self, texts, kind):
            return np.full((len(texts), 16), np.nan, np.float32)

    CachedEmbedder(Broken(), tmp_path / "c").embed(["river"], Kind.QUERY)
    inner = Counting()
    CachedEmbedder(inner, tmp_path / "c").embed(["river"], Kind.QUERY)
    assert inner.asked == ["river"]


def test_where_nothing_can_be_written_it_only_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    CachedEmbedder(Counting(), tmp_path / "c").embed(["river"], Kind.QUERY)
    monkeypatch.setattr("sanderling.world.dense.embedders.os.access", lambda *_: False)
    inner = Counting()
    for path in (tmp_path / "c", tmp_path / "none"):
        CachedEmbedder(inner, path).embed(["river", "stone"], Kind.QUERY)
    assert inner.asked == ["stone", "river", "stone"]
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("kind", ["directory", "text"])
def test_what_is_no_cache_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "c"
    path.mkdir() if kind == "directory" else path.write_text("these are no vectors " * 100)
    with pytest.raises(UserError, match="cannot be used"):
        CachedEmbedder(Counting(), path)


class Changed(Counting):
    """Another model under the same name, with vectors of another length."""

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        self.model = "same"


def test_vectors_of_another_length_under_the_same_name_are_refused(tmp_path: Path) -> None:
    CachedEmbedder(Changed(16), tmp_path / "c").embed(["river"], Kind.QUERY)
    with pytest.raises(UserError, match="has vectors of 16 dimensions under the name same, which has 32: choose another file"):
        CachedEmbedder(Changed(32), tmp_path / "c").embed(["river", "stone"], Kind.QUERY)


def test_a_torn_vector_is_one_sentence(tmp_path: Path) -> None:
    cached = CachedEmbedder(Counting(), tmp_path / "c")
    cached.embed(["river"], Kind.QUERY)
    with sqlite3.connect(tmp_path / "c") as connection:
        connection.execute("UPDATE vectors SET vector = x'010203'")
    with pytest.raises(UserError, match=r"cannot be used .* remove it"):
        cached.embed(["river"], Kind.QUERY)


HASHED = HashedEmbedder(32)


class Server:
    """Speaks `/v1/embeddings`; says what it is told to first."""

    def __init__(self) -> None:
        self.bodies: list[dict] = []
        self.keys: list[str] = []
        self.script: list[tuple[int, dict[str, str], bytes]] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                owner.bodies.append(body)
                owner.keys.append(self.headers.get("authorization", ""))
                status, headers, text = owner.script.pop(0) if owner.script else (200, {}, owner.answer(body))
                self.send_response(status)
                for name, value in {**headers, "content-length": str(len(text))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @staticmethod
    def answer(body: dict) -> bytes:
        """Rows in another order than the texts."""
        rows = HASHED.embed(body["input"], Kind.DOCUMENT)
        data = [{"index": number, "embedding": [float(value) for value in row]} for number, row in enumerate(rows)]
        return json.dumps({"data": data[::-1], "model": body["model"]}).encode()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.stop()


def embedder(server: Server, pauses: list[float] | None = None, **options) -> EndpointEmbedder:
    return EndpointEmbedder(server.url, "m", sleep=[].append if pauses is None else pauses.append, **options)


def test_rows_come_in_the_order_of_the_texts_from_several_requests(server: Server) -> None:
    texts = [f"harbour {number}" for number in range(7)]
    found = embedder(server, batch=3, key="secret").embed(texts, Kind.QUERY)
    assert np.array_equal(found, HASHED.embed(texts, Kind.QUERY))
    assert [body["input"] for body in server.bodies] == [texts[:3], texts[3:6], texts[6:]]
    assert {body["model"] for body in server.bodies} == {"m"} and set(server.keys) == {"Bearer secret"}


def test_the_dimension_is_asked_for_once_or_known(server: Server) -> None:
    asking = embedder(server)
    assert (asking.dimension, asking.dimension, len(server.bodies)) == (32, 32, 1)
    assert embedder(server, dimension=9).dimension == 9 and len(server.bodies) == 1
    assert asking.embed([], Kind.QUERY).shape == (0, 32)


def test_a_busy_server_is_asked_again_with_growing_pauses(server: Server) -> None:
    server.script = [
        (429, {"retry-after": "7"}, b"slow down"),
        (500, {}, b""),
        (200, {"content-encoding": "gzip"}, b"no gzip"),
        (503, {"retry-after": "\u00b2"}, b"[" * 100_000),
        (503, {"retry-after": "3600"}, b""),
    ]
    pauses: list[float] = []
    assert embedder(server, pauses).embed(["a"], Kind.QUERY).shape == (1, 32)
    assert pauses == [7.0, 2.0, 4.0, 8.0, 30.0]


def test_a_server_that_stays_busy_is_an_outage(server: Server) -> None:
    server.script = [(500, {}, b"out of memory")] * 3
    with pytest.raises(EmbedderOutageError, match=r"no embeddings in 3 attempts \(status 500: out of memory\)"):
        embedder(server, retries=2).embed(["a"], Kind.QUERY)
    server.stop()
    with pytest.raises(EmbedderOutageError, match="in 2 attempts"):
        embedder(server, retries=1).embed(["a"], Kind.QUERY)


@pytest.mark.parametrize("status", [400, 401, 404, 413])
def test_a_refusal_is_told_in_the_servers_words_at_once(server: Server, status: int) -> None:
    server.script = [(status, {}, b'{"error":\n "no such model"}')]
    with pytest.raises(UserError, match="no such model") as raised:
        embedder(server).embed(["a"], Kind.QUERY)
    assert not isinstance(raised.value, EmbedderOutageError) and len(server.bodies) == 1


@pytest.mark.parametrize(
    "text",
    [
        b"[]",
        b"{}",
        b'{"data": []}',
        b'{"data": [{"index": 1, "embedding": [1]}, {"index": 2, "embedding": [1]}]}',
        b'{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}',
        b'{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1, 2]}]}',
        b'{"data": [{"index": 0, "embedding": "AAAA"}, {"index": 1, "embedding": "AAAA"}]}',
        b'{"data": [{"index": 0, "embedding": []}, {"index": 1, "embedding": []}]}',
        b'{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1]}, {"index": 2, "embedding": [1]}]}',
        b'{"data": [{"index": 0, "embedding": [1%s]}, {"index": 1, "embedding": [1]}]}' % (b"0" * 400),
        b'{"data": [{"index": 1e999, "embedding": [1]}]}',
    ],
)
def test_what_are_no_embeddings_is_refused(server: Server, text: bytes) -> None:
    server.script = [(200, {}, text)]
    with pytest.raises(UserError, match="embedding model"):
        embedder(server).embed(["a", "b"], Kind.QUERY)


def test_another_dimension_is_refused(server: Server) -> None:
    with pytest.raises(UserError, match="32 dimensions instead of 64"):
        embedder(server, dimension=64).embed(["a"], Kind.QUERY)


@pytest.mark.parametrize(
    "spec", ["http://", "http://h/v1", "http://h:0/v1#m", "http://[::1#m", "http://h:x/v1#m", "http://h/v1?bach=3#m",
             "http://h/v1?batch=0#m",
        "http://h/v1?retries=few#m", "http://h/v1?key_env=NOT_SET_ANYWHERE#m"]
)  # fmt: skip
def test_a_wrong_address_is_one_sentence(spec: str) -> None:
    with pytest.raises(UserError):
        open_embedder(spec)


def test_the_key_comes_from_the_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBED_KEY", "from-env")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    open_embedder(f"{server.url}?key_env=EMBED_KEY&batch=1#m").embed(["a", "b"], Kind.QUERY)
    open_embedder(f"{server.url}#m").embed(["a"], Kind.QUERY)
    assert server.keys == ["Bearer from-env", "Bearer from-env", ""]


async def test_a_world_over_an_endpoint_from_the_command_line_to_an_outage(server: Server, tmp_path: Path) -> None:
    build_world(tmp_path / "w", made_pages(30), name="t", source="test")
    command = ["embed", str(tmp_path / "w"), "--embedder", f"{server.url}?retries=0#m", "--cache", str(tmp_path / "c")]
    done = CliRunner().invoke(app, [*command, "--set", "prefixes.query=query: ", "--set", "prefixes.document=passage: "])
    assert done.exit_code == 0 and "30 pages as 30 passages of 32 dimensions by m" in done.output
    passages = [text for body in server.bodies for text in body["input"] if text != "dimension"]
    assert len(passages) == 30 and all(text.startswith("passage: ") for text in passages)
    hybrid = open_as_met(tmp_path / "w", search=SearchMode.HYBRID)
    asked = len(server.bodies)
    first = await hybrid.search_many(["river stone", "poet"])
    assert [body["input"] for body in server.bodies[asked:]] == [["query: river stone", "query: poet"]]
    server.stop()
    again = open_as_met(tmp_path / "w", search=SearchMode.HYBRID)
    assert (await again.search_many(["river stone", "poet"])) == first, "queries that were asked once need no server"
    profile = get_profile("tiny")
    with pytest.raises(ToolOutageError, match="no embeddings"):
        await world_tools(again, profile)[profile.tools.search]({profile.tools.search_query: ["school"]}, ToolContext())
    assert (await again.search("   ")).hits == () and (await open_world(tmp_path / "w").search("school")).hits
