"""A folder of notes is a world: search it and read a page.

Run: python examples/world_from_folder.py FOLDER QUERY
"""

import asyncio
import sys

from sanderling import open_world


async def main() -> None:
    world = open_world(sys.argv[1])
    found = await world.search(sys.argv[2])
    print(*(f"{hit.url} {hit.snippet}" for hit in found.hits), sep="\n")
    page = await world.visit(found.hits[0].url, goal=sys.argv[2])
    print(page.text)


asyncio.run(main())
