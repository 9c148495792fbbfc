"""A plain function as a tool: its schema comes from its signature, its description from its docstring.

@tool
def tides(place: str, days: int = 1) -> str:
    '''When the sand of a place is dry.'''
    return f"at noon, for {days} days"
"""

import inspect
from collections.abc import Callable
from typing import Any

from pydantic import ConfigDict, ValidationError, create_model

from sanderling.core.types import ToolSpec, ToolStatus
from sanderling.tools.contract import ToolContext, ToolResult

CONTEXT = "context"
"""A parameter of this name is handed the call's `ToolContext` and is no argument of the model's."""


class FunctionTool:
    """A function, or an async one, as a tool; it returns a text or a `ToolResult`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """Raises ValueError for a function without a docstring, which the model could not know how to use."""
        description = inspect.getdoc(function)
        if not description:
            raise ValueError(f"{function.__name__} needs a docstring: it is what the model is told about the tool")
        parameters = inspect.signature(function, eval_str=True).parameters
        fields: dict[str, Any] = {
            name: (
                Any if one.annotation is one.empty else one.annotation,
                ... if one.default is one.empty else one.default,
            )
            for name, one in parameters.items()
            if name != CONTEXT
        }
        self._function, self._takes_context = function, CONTEXT in parameters
        self._arguments = create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)
        schema = self._arguments.model_json_schema()
        self.spec = ToolSpec(name=function.__name__, description=description, parameters=_without_titles(schema))

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Run it. Arguments that do not fit the signature are answered with BAD_ARGUMENTS; what it raises is a bug of it."""
        try:
            given = self._arguments.model_validate(arguments)
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg'].lower()}" for one in error.errors())
            return ToolResult(text=f"{self.spec.name} cannot read its arguments ({wrong}).", status=ToolStatus.BAD_ARGUMENTS)
        values = {name: getattr(given, name) for name in type(given).model_fields}
        if self._takes_context:
            values[CONTEXT] = context
        found = self._function(**values)
        if inspect.isawaitable(found):
            found = await found
        return found if isinstance(found, ToolResult) else ToolResult(text=str(found))


def tool(function: Callable[..., Any]) -> FunctionTool:
    """The decorator; the tool goes to ``open_agent(..., tools=[tides])``, or as ``file.py:tides`` wherever tools are named."""
    return FunctionTool(function)


def _without_titles(schema: Any) -> Any:
    """A JSON schema without the titles that pydantic gives everything: they tell a model nothing."""
    if isinstance(schema, dict):
        return {key: _without_titles(value) for key, value in schema.items() if key != "title" or not isinstance(value, str)}
    return [_without_titles(one) for one in schema] if isinstance(schema, list) else schema
