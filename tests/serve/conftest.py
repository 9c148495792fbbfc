import pytest
from serving import HeldWorld
from starlette.testclient import TestClient

from sanderling.serve.app import create_app
from sanderling.serve.limits import ServerSettings
from sanderling.world.contract import Page
from sanderling.world.local import LocalWorld

LONG = "\n\n".join(f"Paragraph {i} tells of ships, sails and tides in year {1500 + i}." for i in range(400))
PAGES = [
    Page(
        url="https://en.example/wiki/Alien_(film)",
        title="Alien (film)",
        text="# Alien\n\nAlien is a 1979 film by Ridley Scott.\n\nSigourney Weaver plays Ripley.",
        date="1979-05-25",
    ),
    Page(url="https://b.example/x?y=1&z=a%2Fb", title="Bees", text="Bees make honey; a film about bees followed."),
    Page(url="https://zh.example/维基/外星人", title="外星人", text="外星人 is a film known by many names."),
    Page(url="https://sea.example/ships", title="Ships", text=LONG),
]
LOCAL = "http://127.0.0.1:8018"


@pytest.fixture(scope="session")
def pages() -> list[Page]:
    return PAGES


@pytest.fixture(scope="session")
def world() -> LocalWorld:
    return LocalWorld.in_memory(PAGES, name="small")


@pytest.fixture(scope="session")
def client(world):
    with TestClient(create_app(world), base_url=LOCAL) as client:
        yield client


@pytest.fixture
def client_with(world):
    """Clients of servers with other settings, or of another world."""
    opened = []

    def make(over=None, headers=None, **settings) -> TestClient:
        app = create_app(over or world, ServerSettings(**settings))
        opened.append(TestClient(app, base_url=LOCAL, headers=headers))
        return opened[-1].__enter__()

    yield make
    for client in opened:
        client.__exit__(None, None, None)


@pytest.fixture
def held():
    world = HeldWorld()
    yield world
    world.released.set()
