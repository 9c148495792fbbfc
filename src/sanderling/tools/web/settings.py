"""Where the live web is asked, and how patiently. Keys come from the environment and are in no settings file."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from sanderling.core.errors import UserError

SEARCH_URL = "https://google.serper.dev"
READER_URL = "https://r.jina.ai"
SEARCH_KEY_ENV = "SERPER_API_KEY"
READER_KEY_ENV = "JINA_API_KEY"


class WebSettings(BaseModel):
    """Settings of the live tools."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    search_url: str = SEARCH_URL
    """Base URL of a service that answers ``POST /search {"q", "num"}`` as Serper does."""
    reader_url: str = READER_URL
    """Base URL of a service that answers ``POST / {"url"}`` as Jina Reader does."""
    search_key: SecretStr | None = None
    reader_key: SecretStr | None = None
    timeout_s: float = Field(default=60.0, gt=0)
    """For one attempt."""
    attempts: int = Field(default=3, ge=1)
    """For one request, where the service is busy or broken."""
    pause_s: float = Field(default=1.0, ge=0)
    """Before the second attempt; doubled before each further one, unless the service says how long."""
    concurrent: int = Field(default=4, ge=1)
    """Requests to each service at a time."""


def web_settings(search_url: str = SEARCH_URL, reader_url: str = READER_URL, *, env: Mapping[str, str]) -> WebSettings:
    """Settings with the keys of an environment. Raises UserError for a bad address, and where Serper itself has no key."""
    for option, url in (("--search-url", search_url), ("--reader-url", reader_url)):
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise UserError(f"{option} {url} is no web address: give one such as http://127.0.0.1:8018.")
    search_key, reader_key = env.get(SEARCH_KEY_ENV, "").strip(), env.get(READER_KEY_ENV, "").strip()
    if not search_key and search_url.rstrip("/") == SEARCH_URL:
        raise UserError(f"Serper wants a key: put it into {SEARCH_KEY_ENV}, or name another service with --search-url.")
    return WebSettings(
        search_url=search_url.rstrip("/"),
        reader_url=reader_url.rstrip("/"),
        search_key=SecretStr(search_key) if search_key else None,
        reader_key=SecretStr(reader_key) if reader_key else None,
    )
