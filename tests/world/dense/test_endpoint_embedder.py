"""An embedder behind HTTP, against a real server in this process: order, batches, patience, refusals, outages."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from dense_fakes import made_pages
from typer.testing import CliRunner

from sanderling.cli.world import app
from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.tools.contract import ToolContext, ToolOutageError
from sanderling.tools.world_tools import world_tools
from sanderling.world.dense.embedders import EmbedderOutageError, EndpointEmbedder, HashedEmbedder, Kind, open_embedder
from sanderling.world.dense.index import SearchChoice, SearchMode
from sanderling.world.opening import open_as_met
from sanderling.world.store import build_world, open_world

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
        (200, {}, b"<html>"),
        (503, {"retry-after": "soon"}, b""),
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
    done = CliRunner().invoke(app, [*command, "--query-prefix", "query: ", "--document-prefix", "passage: "])
    assert done.exit_code == 0 and "30 pages as 30 passages of 32 dimensions by m" in done.output
    passages = [text for body in server.bodies for text in body["input"] if text != "dimension"]
    assert len(passages) == 30 and all(text.startswith("passage: ") for text in passages)
    hybrid = open_as_met(tmp_path / "w", search=SearchChoice(SearchMode.HYBRID))
    asked = len(server.bodies)
    first = await hybrid.search_many(["river stone", "poet"])
    assert [body["input"] for body in server.bodies[asked:]] == [["query: river stone", "query: poet"]]
    server.stop()
    again = open_as_met(tmp_path / "w", search=SearchChoice(SearchMode.HYBRID))
    assert (await again.search_many(["river stone", "poet"])) == first, "queries that were asked once need no server"
    profile = get_profile("tiny")
    with pytest.raises(ToolOutageError, match="no embeddings"):
        await world_tools(again, profile)[profile.tools.search]({profile.tools.search_query: ["school"]}, ToolContext())
    assert (await again.search("   ")).hits == () and (await open_world(tmp_path / "w").search("school")).hits


@pytest.mark.parametrize("after", ["\u00b2", "soon", "-3", "nan", "inf", ""])
def test_a_pause_that_is_no_number_of_seconds_is_our_own(server: Server, after: str) -> None:
    pauses: list[float] = []
    server.script = [(429, {"retry-after": after}, b"busy")]
    embedder = EndpointEmbedder(server.url, "m", sleep=pauses.append)
    assert embedder.embed(["river"], Kind.QUERY).shape == (1, 32) and pauses == [1.0]


def test_a_reply_that_cannot_be_unpacked_is_tried_again(server: Server) -> None:
    server.script = [(200, {"content-encoding": "gzip"}, b"no gzip"), (200, {}, b"[" * 100_000)]
    assert EndpointEmbedder(server.url, "m", sleep=lambda _: None).embed(["river"], Kind.QUERY).shape == (1, 32)


@pytest.mark.parametrize("row", ['{"index": 0, "embedding": [1%s]}' % ("0" * 400), '{"index": 1e999, "embedding": [1]}'])
def test_numbers_beyond_all_bounds_are_no_embeddings(server: Server, row: str) -> None:
    server.script = [(200, {}, f'{{"data": [{row}]}}'.encode())]
    with pytest.raises(UserError, match="is it an embedding model"):
        EndpointEmbedder(server.url, "m").embed(["river"], Kind.QUERY)
