"""The generators by capability: a literal table."""

from collections.abc import Mapping

from sanderling.synth.graph.capabilities.aggregation import aggregation
from sanderling.synth.graph.capabilities.cross_verification import cross_verification
from sanderling.synth.graph.capabilities.direct import direct
from sanderling.synth.graph.capabilities.enumeration import enumeration
from sanderling.synth.graph.capabilities.statistics import statistics
from sanderling.synth.graph.contract import Capability
from sanderling.synth.graph.draft import Generator

GENERATORS: Mapping[Capability, Generator] = {
    Capability.DIRECT: direct,
    Capability.AGGREGATION: aggregation,
    Capability.ENUMERATION: enumeration,
    Capability.CROSS_VERIFICATION: cross_verification,
    Capability.STATISTICS: statistics,
}
