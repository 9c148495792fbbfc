"""Which tools an agent of a profile has, written out. Knows no model."""

from sanderling.core.profiles import Profile
from sanderling.tools.contract import Tool
from sanderling.tools.extractor.contract import Extractor
from sanderling.tools.search import SearchTool
from sanderling.tools.visit import VisitTool
from sanderling.world.contract import World


def world_tools(world: World, profile: Profile, extractor: Extractor | None = None) -> dict[str, Tool]:
    """Search and visit over a world, by the names the profile gives them; ``extractor``: a model that reads the pages."""
    return {profile.tools.search: SearchTool(world, profile), profile.tools.visit: VisitTool(world, profile, extractor)}


def tool_roles(profile: Profile) -> dict[str, str]:
    """What each of the profile's tools is: its name -> ``"search"`` or ``"visit"``."""
    return {profile.tools.search: "search", profile.tools.visit: "visit"}
