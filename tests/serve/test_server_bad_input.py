"""Whatever is sent, the reply is one sentence in JSON with the right status."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

POSTS = {
    "/v1/search": "queries",
    "/v1/visit": "urls",
    "/search": "q",
    "/serper/search": "q",
    "/literesearcher/search": "query",
    "/batch_search": "queries",
    "/check_url": "url",
    "/batch_check_url": "urls",
    "/web_parser": "url",
    "/query": "url",
    "/retrieve": "queries",
    "/": "url",
}


def refused(reply, status: int) -> str:
    assert reply.status_code == status, reply.text
    assert set(reply.json()) == {"error"}
    text = reply.json()["error"]
    assert text.endswith(".") and "\n" not in text and len(text) < 300
    return text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KNOWN = st.fixed_dictionaries(
    {},
    optional={
        name: JSON | st.text() | st.lists(st.text(), min_size=1, max_size=3)
        for name in ("q", "query", "queries", "url", "urls", "goal", "question", "num", "page", "limit", "topk", "masked")
    },
)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(list(POSTS)), body=JSON | KNOWN)
def test_no_json_makes_a_500(client, path, body):
    reply = client.post(path, content=json.dumps(body).encode("utf-8", "surrogatepass"))
    assert reply.status_code in (200, 400, 404)
    if reply.status_code != 200:
        refused(reply, reply.status_code)
