"""A real server in a process of its own, on loopback: the command line, a request in flight at SIGTERM, MCP both ways."""

import datetime
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from mcp import Client, StdioServerParameters
from typer.testing import CliRunner

from sanderling.cli.world import app
from sanderling.core.errors import UserError
from sanderling.world.disk.building import build_world
from sanderling.world.disk.store import open_world

FILM = "https://en.example/wiki/Alien_(film)"
MAIN = "from sanderling.cli.main import main; main()"
HELD = """
import sys, time
from pathlib import Path
from sanderling.cli.world import app
from sanderling.core.errors import UserError
from sanderling.world.contract import World, SearchReply
from sanderling.serve.app import serve
from sanderling.serve.limits import ServerSettings

class Held(World):
    name, fingerprint, page_count = "held", "0" * 64, 1
    visit = None
    async def search(self, query, **_):
        Path(sys.argv[1], "asked").touch()
        while not Path(sys.argv[1], "release").exists():
            time.sleep(0.01)
        return SearchReply(query=query, hits=())

serve(Held(), ServerSettings(port=0), lambda url: print("at", url, file=sys.stderr, flush=True))
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory, pages) -> Path:
    place = tmp_path_factory.mktemp("served") / "w"
    build_world(place, pages, name="small", source="test")
    return place


@contextmanager
def server(*arguments: str, code: str = MAIN, **env: str):
    """A server's process and base URL; killed at the end if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stderr=subprocess.PIPE, text=True, env=os.environ | env
    )
    try:
        assert process.stderr is not None
        first = process.stderr.readline()
        found = re.search(r"at (https?://\S+)", first)
        assert found, first + process.stderr.read()
        yield process, found[1]
    finally:
        process.kill()
        process.communicate()


def end(process: subprocess.Popen[str]) -> str:
    """Stop a server in order; what it said."""
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 0
    return said


def test_the_command_serves_and_ends_in_order(directory):
    with server("world", "serve", str(directory), "--port", "0") as (process, url):
        with httpx.Client(base_url=url, timeout=60) as client:
            assert client.get("/health").json() == {"status": "ok", "world": "small"}
            assert client.post("/search", json={"q": "ripley"}).json()["organic"][0]["link"] == FILM
            assert f"URL Source: {FILM}\n" in client.get(f"/r/{FILM}").text
            assert end(process) == ""  # an idle connection holds nothing up
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/health")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> Path:
    """A certificate that signs itself, for two names that programs have written in them, with its key."""
    place = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    names = x509.SubjectAlternativeName([x509.DNSName("google.serper.dev"), x509.DNSName("r.jina.ai")])
    now = datetime.datetime.now(datetime.UTC)
    unsigned = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    dated = unsigned.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1))
    identity = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    signed = (
        dated.add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(identity, critical=False)
        .sign(key, hashes.SHA256())
    )
    (place / "certificate.pem").write_bytes(signed.public_bytes(Encoding.PEM))
    (place / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return place / "certificate.pem"


def test_programs_with_fixed_https_addresses_are_served(directory, certificate):
    """Their names resolve to this machine, their certificate is trusted, their key is the token: the code stays as it is."""
    key = certificate.with_name("key.pem")
    arguments = ["--port", "0", "--set", f"certificate={certificate}", "--set", f"key={key}", "--token-env", "THE_KEY"]
    with server("world", "serve", str(directory), *arguments, THE_KEY="k") as (process, url):
        assert url.startswith("https://127.0.0.1:")
        trusted = ssl.create_default_context(cafile=str(certificate))
        with socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])), timeout=20) as plain:
            connection = http.client.HTTPSConnection("google.serper.dev", timeout=20)
            connection.sock = trusted.wrap_socket(plain, server_hostname="google.serper.dev")
            connection.request("POST", "/search", json.dumps({"q": "ripley", "gl": "us"}), {"X-API-KEY": "k"})
            reply = connection.getresponse()
            assert reply.status == 200 and json.loads(reply.read())["organic"][0]["link"] == FILM
            connection.close()
        assert end(process) == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "certificate={here}/text.pem"], "certificate"),
        (["--set", "certificate={here}/none"], "certificate"),
        (["--set", "key={here}/text.pem"], "certificate"),
        (["--host", "0.0.0.0"], "--token-env"),
        (["--dialect", "bing"], "choose among native"),
        (["--set", "threads=0"], "threads"),
        (["--token-env", "NO_SUCH_TOKEN"], "NO_SUCH_TOKEN is not set"),
    ],
)
def test_what_cannot_be_is_one_sentence(directory, tmp_path, arguments, words):
    (tmp_path / "text.pem").write_text("nothing")
    given = [argument.format(here=tmp_path) for argument in arguments]
    with pytest.raises(UserError, match=words) as refused:
        CliRunner().invoke(app, ["serve", str(directory), "--port", "0", *given], catch_exceptions=False)
    assert "\n" not in str(refused.value)


def test_a_port_that_is_taken_is_told(directory):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        arguments = ["serve", str(directory), "--port", str(taken.getsockname()[1])]
        with pytest.raises(UserError, match="choose another --host or --port"):
            CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_the_raw_request_line_survives(directory):
    """A client that escapes nothing: the bytes after the reader's address are the page's address."""
    with server("world", "serve", str(directory), "--port", "0", "--dialect", "jina") as (_, url):
        host, port = url.removeprefix("http://").split(":")
        for target, status in (
            (b"/https://en.example/wiki/Alien_(film)", b"200"),
            (b"/r/https://b.example/x?y=1&z=a%2Fb", b"200"),
            (b"/r/https://b.example/x?y=1&z=a%2fc", b"404"),
        ):
            with socket.create_connection((host, int(port)), timeout=20) as connection:
                connection.sendall(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                reply = b"".join(iter(lambda: connection.recv(65_536), b""))
            assert reply.startswith(b"HTTP/1.1 " + status), (target, reply)


def test_damage_is_a_503_and_a_line_in_the_log(directory, tmp_path):
    broken = shutil.copytree(directory, tmp_path / "w") / "pages-0.sqlite"
    broken.write_bytes(broken.read_bytes().replace(b"Sigourney Weaver", b"Sigourney Beaver", 1))
    with server("world", "serve", str(broken.parent), "--port", "0", "--dialect", "jina", "--dialect", "mcp") as (process, url):
        for address, status in ((FILM, 503), ("https://b.example/x?y=1&z=a%2Fb", 200), (FILM, 503)):
            reply = httpx.get(f"{url}/{address}", timeout=60)
            assert reply.status_code == status and "Beaver" not in reply.text and str(tmp_path) not in reply.text
        call = {"name": "visit", "arguments": {"urls": [FILM]}}
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        accept = {"Accept": "application/json, text/event-stream"}
        assert "cannot be read at the moment" in httpx.post(f"{url}/mcp", json=asked, headers=accept, timeout=60).text
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=20)
    lines = [line for line in log.splitlines() if "503" in line]
    assert len(lines) == 3 and all("page 0 does not agree with its checksum" in line for line in lines), log


def test_a_request_in_flight_finishes_after_sigterm(tmp_path):
    with server(str(tmp_path), code=HELD) as (process, url):
        replies: list[httpx.Response] = []
        asking = threading.Thread(
            target=lambda: replies.append(httpx.post(f"{url}/v1/search", json={"queries": ["x"]}, timeout=30))
        )
        asking.start()
        while not (tmp_path / "asked").exists():
            assert asking.is_alive()
            asking.join(0.01)
        process.send_signal(signal.SIGTERM)
        while True:  # it takes no new connections before it lets go of the old one
            try:
                socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=5).close()
            except OSError:
                break
        (tmp_path / "release").touch()
        asking.join(20)
        assert replies[0].status_code == 200 and replies[0].json()["replies"][0]["status"] == "ok"
        process.communicate(timeout=20)
        assert process.returncode == 0


async def converse(client: Client, own) -> None:
    """Both tools, and what they refuse."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == {"search", "visit"}
    assert tools["search"].input_schema["required"] == ["queries"]
    found = await client.call_tool("search", {"queries": ["ripley", "zzz"], "limit": 1})
    text = found.content[0].text
    assert FILM in text and (await own.search("ripley", limit=1)).hits[0].snippet in text and "nothing was found" in text
    read = await client.call_tool("visit", {"urls": [FILM, "https://no.example/"], "goal": "Ripley"})
    assert "Sigourney Weaver" in read.content[0].text and "https://no.example/: No page was found" in read.content[0].text
    ships = "https://sea.example/ships"
    read = await client.call_tool("visit", {"urls": [f"{ships}#page=2", f"{ships}#page=999"], "max_words": 400})
    assert f"Next: {ships}#page=3" in read.content[0].text and "has no part 999" in read.content[0].text
    for name, arguments in (
        ("search", {"queries": ["x"] * 1_000}), ("search", {"queries": 5}), ("visit", {}),
        ("visit", {"urls": ["x"], "max_words": 0}),
    ):  # fmt: skip
        refused = await client.call_tool(name, arguments)
        assert refused.is_error and "Traceback" not in refused.content[0].text


async def test_mcp_over_stdio(directory):
    command = StdioServerParameters(
        command=sys.executable,
        args=["-c", MAIN, "tools", "serve", "--world", str(directory)],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},  # the client hands on little of the environment by itself
    )
    async with Client(command) as client:
        assert len((await client.list_tools()).tools) == 2
        await converse(client, open_world(directory))
