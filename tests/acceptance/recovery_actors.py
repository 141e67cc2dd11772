"""Actors of the explicit form that the stories of state recovery use."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pydantic import BaseModel

from limpet import ExecutionState, RetryConfig, Tool

executions: Counter[str] = Counter()
failing: set[str] = set()
"""The names of the actors whose service is down."""


class SimpleInput(BaseModel):
    value: int


class SimpleOutput(BaseModel):
    result: int


class APITimeoutError(Exception):
    """What the service of the documents raises."""


class AddOneActor(Tool):
    def __init__(self) -> None:
        async def handler(input_data: SimpleInput, context: Any, execution_state: ExecutionState) -> SimpleOutput:
            executions["add_one"] += 1
            return SimpleOutput(result=input_data.value + 1)

        super().__init__(
            name="add_one",
            description="Adds one to input",
            input_model=SimpleInput,
            output_model=SimpleOutput,
            handler=handler,
        )


class MultiplyByTwoActor(Tool):
    def __init__(self) -> None:
        async def handler(input_data: SimpleInput, context: Any, execution_state: ExecutionState) -> SimpleOutput:
            executions["multiply_by_two"] += 1
            return SimpleOutput(result=input_data.value * 2)

        super().__init__(
            name="multiply_by_two",
            description="Multiplies input by two",
            input_model=SimpleInput,
            output_model=SimpleOutput,
            handler=handler,
        )


class AddTenActor(Tool):
    def __init__(self) -> None:
        async def handler(input_data: SimpleInput, context: Any, execution_state: ExecutionState) -> SimpleOutput:
            executions["add_ten"] += 1
            return SimpleOutput(result=input_data.value + 10)

        super().__init__(
            name="add_ten",
            description="Adds ten to input",
            input_model=SimpleInput,
            output_model=SimpleOutput,
            handler=handler,
        )


class _Step(Tool):
    """A step of the longer stories: it takes a dict and gives it with one more entry."""

    def __init__(self, name: str, **entries: Any) -> None:
        async def handler(input_data: dict[str, Any], context: Any, execution_state: ExecutionState) -> dict[str, Any]:
            executions[name] += 1
            if name in failing:
                raise APITimeoutError(name)
            return {**input_data, name: executions[name], **entries}

        super().__init__(
            name=name,
            description=f"Does {name}",
            input_model=dict,
            output_model=dict,
            handler=handler,
            # The stories are of what a person does after a failure, which comes at once so.
            retry_config=RetryConfig(enabled=False),
        )


class ValidateDataActor(_Step):
    def __init__(self) -> None:
        super().__init__("validate_data")


class AnalyzeDataActor(_Step):
    def __init__(self) -> None:
        super().__init__("analyze_data")


class ProcessDecisionActor(_Step):
    def __init__(self) -> None:
        super().__init__("process_decision")


class ProcessDataActor(_Step):
    def __init__(self, debug_mode: bool = False) -> None:
        super().__init__("process_data", debug_mode=debug_mode)


class ReportActor(_Step):
    def __init__(self) -> None:
        super().__init__("report")
