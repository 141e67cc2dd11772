"""The verbs that run an agent: begin a run, go on with it, or run it on from an earlier point."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TypedDict, TypeVar, Unpack

from limpet.client.agents import Given, call_of, checked_agent
from limpet.client.opened import OpenedStore
from limpet.engine.actors import Actor
from limpet.engine.bus import EventBus
from limpet.engine.declared import find_actor
from limpet.engine.limits import Limits
from limpet.engine.live import PATIENCE_S
from limpet.engine.methods import resumed_method, tell_not_resumable, with_owner
from limpet.engine.named_agent import named_agent
from limpet.engine.run import MakeTimeline, Run, run_to_end
from limpet.engine.watching import Checker
from limpet.errors import UsageError
from limpet.model import (
    Budget,
    CheckpointPolicy,
    EventRecord,
    OnDrift,
    OnSaveError,
    Record,
    StateHeader,
    StateMetadata,
    checked_state_id,
)
from limpet.model.checkpoints import on_save_error_of, policy_of
from limpet.model.waits import Question

R = TypeVar("R")


class StoppingOptions(TypedDict, total=False):
    """What may stop a run, how it waits, and when it is saved; ``Running.run`` says what each does."""

    timeout_s: float | None
    deadline: datetime | None
    budget: Budget | None
    interrupt_checker: Checker | None
    handle_signals: bool
    on_first_signal: Callable[[], None] | None
    on_question: Callable[[Question], Any] | None
    patience_s: float
    checkpoint_policy: CheckpointPolicy | str | None
    on_save_error: OnSaveError | str | None


class Said(NamedTuple):
    """What is said of a run and has a default in the settings."""

    event_bus: EventBus | None
    record_inputs: bool | None
    wait_s: float | None
    on_drift: OnDrift | str | None


_OPTIONS_OF_RUN = frozenset(
    {
        "state_id",
        "metadata",
        "event_bus",
        "record_inputs",
        "wait_s",
        "on_drift",
        "store",
        *StoppingOptions.__annotations__,
    }
)


class Running(OpenedStore):
    """``run``, ``run_sync``, ``resume``."""

    async def run(
        self,
        agent: Given[R],
        /,
        *args: Any,
        state_id: str | None = None,
        metadata: StateMetadata | None = None,
        event_bus: EventBus | None = None,
        record_inputs: bool | None = None,
        wait_s: float | None = None,
        on_drift: OnDrift | str | None = None,
        timeout_s: float | None = None,
        deadline: datetime | None = None,
        budget: Budget | None = None,
        interrupt_checker: Checker | None = None,
        handle_signals: bool = False,
        on_first_signal: Callable[[], None] | None = None,
        on_question: Callable[[Question], Any] | None = None,
        patience_s: float = PATIENCE_S,
        checkpoint_policy: CheckpointPolicy | str | None = None,
        on_save_error: OnSaveError | str | None = None,
        **kwargs: Any,
    ) -> R:
        """Run an agent durably and give its result: ``run(research, "kelp")``, or ``run(research("kelp"))``.

        Idempotent by ``state_id``: an unknown one starts, an unfinished one is taken up where it stands, a completed
        one gives its recorded result without running anything. Without an id a new one is made.

        Raises what the run fails of, StateMismatch where the id belongs to another agent or input, LeaseHeld where
        another process is running it (after waiting ``wait_s``, if given), ValueNotStorable where the input cannot be
        stored. An ``async def`` agent runs on the current event loop. ``on_drift`` says what happens where the code no
        longer fits what is recorded: 'warn', 'error' (Drift is raised) or 'ignore'.

        The run is stopped, and can be taken up again, when ``timeout_s`` have passed, at the ``deadline``, when its
        ``budget`` is used up, when ``interrupt_checker`` says so, and with ``handle_signals`` by SIGINT and SIGTERM:
        the first one finishes what is being executed (``on_first_signal`` is called then), the second one does not.
        ExecutionInterrupted is raised then, or BudgetExceeded. A run whose task is cancelled, or whose program ends, is
        handed back: whoever comes next resumes it, as after a kill. Where it is not known whether a call that is
        declared ``once`` was executed, OutcomeUnknown is raised, and the state awaits what ``settle`` says.

        A run that has nothing left to do but to wait leaves memory: AwaitingAnswer is raised where it has asked
        something, Awaiting where it waits for a message, or for a time that is more than ``patience_s`` away. Run it
        again when that has come. ``on_question``, a function, plain or async, is given each Question first; what it
        gives is the answer, unless that is None.

        ``checkpoint_policy`` says when what is recorded is saved, 'every_step' unless another is given or configured;
        ``on_save_error`` what is done while the store takes nothing: 'fail', 'pause' or 'continue'.
        """
        actor, args, kwargs = self._call_to_run(agent, args, kwargs)
        run = self._run_with(
            Said(event_bus, record_inputs, wait_s, on_drift),
            self._limits(
                timeout_s=timeout_s,
                deadline=deadline,
                budget=budget,
                interrupt_checker=interrupt_checker,
                handle_signals=handle_signals,
                on_first_signal=on_first_signal,
                on_question=on_question,
                patience_s=patience_s,
                checkpoint_policy=checkpoint_policy,
                on_save_error=on_save_error,
            ),
            actor=actor,
            args=args,
            kwargs=kwargs,
            state_id=new_state_id(actor.name) if state_id is None else checked_state_id(state_id),
            metadata=metadata or StateMetadata(),
        )
        return await run_to_end(self._writer, run)

    def _call_to_run(
        self, given: Given[R], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Actor[..., R], tuple[Any, ...], dict[str, Any]]:
        """The agent of a run that is asked for, and its arguments. Raises UsageError or TypeError where they are none,
        and warns where no other process could resume it."""
        if isinstance(given, Actor):
            _require_other_names(given)
        actor, args, kwargs = call_of(given, args, kwargs)
        actor = with_owner(actor, self._stored)
        if self.backend.outlives_process:
            tell_not_resumable(actor)
        return actor, args, kwargs

    def _run_with(self, said: Said, limits: Limits, **what: Any) -> Run:
        """A run as it is asked for, with the settings of the store for what nothing is said of."""
        values = self._followed()
        return Run(
            stored=self._stored,
            bus=said.event_bus or EventBus(),
            wait_s=said.wait_s,
            records_inputs=values.record_inputs if said.record_inputs is None else said.record_inputs,
            capture=values.capture,
            on_drift=OnDrift(self._said("on_drift", values) if said.on_drift is None else said.on_drift),
            limits=limits,
            **what,
        )

    def _limits(self, **options: Unpack[StoppingOptions]) -> Limits:
        timeout_s, budget = options.get("timeout_s"), options.get("budget")
        follow = partial(self._saving_of, options.get("checkpoint_policy"), options.get("on_save_error"))
        policy, on_save_error = follow()
        return Limits(
            retry=self._retry_levels(),
            timeout_s=self.config.values.timeout_s if timeout_s is None else timeout_s,
            deadline=options.get("deadline"),
            budget=self.config.budget if budget is None else budget,
            checker=options.get("interrupt_checker"),
            handles_signals=options.get("handle_signals", False),
            on_first_signal=options.get("on_first_signal"),
            on_question=options.get("on_question"),
            patience_s=options.get("patience_s", PATIENCE_S),
            policy=policy,
            on_save_error=on_save_error,
            follow=follow,
        )

    def _saving_of(
        self, policy: CheckpointPolicy | str | None, on_save_error: OnSaveError | str | None
    ) -> tuple[CheckpointPolicy, OnSaveError]:
        """When a run is saved of which this was said, and what is done where that fails. Raises UsageError."""
        usual = self._saving()
        return (
            usual[0] if policy is None else policy_of(policy),
            usual[1] if on_save_error is None else on_save_error_of(on_save_error),
        )

    def run_sync(self, agent: Given[R], /, *args: Any, **kwargs: Any) -> R:
        """As ``run``, from plain code."""
        _require_no_loop("run_sync", "run")
        return asyncio.run(self.run(agent, *args, **kwargs))

    async def resume(
        self,
        state_id: str,
        *,
        agent: Actor[..., R] | None = None,
        event_bus: EventBus | None = None,
        record_inputs: bool | None = None,
        wait_s: float | None = None,
        on_drift: OnDrift | str | None = None,
        retry_caught: bool = False,
        **stopping: Unpack[StoppingOptions],
    ) -> R:
        """Take a stored run up again, with the input it was begun with, and give its result.

        The agent is the one given, else one that this process has declared, else the one that the state names to
        import, if that is of the current project or was allowed. What may stop it is said as for ``run``.
        ``retry_caught`` executes again also the calls whose failure the program had caught; otherwise such a failure is
        raised again. Raises UnknownState, AgentNotFound, AgentNotAllowed, StateCorrupted where the header names another
        agent than the journal, and what ``run`` raises.
        """
        run = await self._recorded_run(
            self._header(state_id),
            agent,
            event_bus=event_bus,
            record_inputs=record_inputs,
            wait_s=wait_s,
            on_drift=on_drift,
            retry_caught=retry_caught,
            **stopping,
        )
        return await run_to_end(self._writer, run)

    async def _recorded_run(
        self,
        header: StateHeader,
        agent: Actor[..., Any] | None,
        *,
        event_bus: EventBus | None = None,
        record_inputs: bool | None = None,
        wait_s: float | None = None,
        on_drift: OnDrift | str | None = None,
        new_timeline: MakeTimeline | None = None,
        repeats_once: bool = False,
        retry_caught: bool = False,
        first: Record | None = None,
        **stopping: Unpack[StoppingOptions],
    ) -> Run:
        """The run of a state, with its agent and the input that it was begun with."""
        if first is None:
            first = self._first_record(header)
        named = named_agent(header, first)
        if named is None or not isinstance(first, EventRecord) or first.input is None:
            raise UsageError(
                f"State {header.state_id!r} was made in the explicit form, so there is no agent to resume.",
                "Load it with `ExecutionState.load_from_state_id`.",
            )
        actor = find_actor(named.reference, named.name, self.allowed_code) if agent is None else checked_agent(agent)
        recorded = await self._stored.decode_record(first.input, first.artifacts)
        actor = resumed_method(actor, recorded, named.reference, self._stored)
        args, kwargs = actor.arguments_of(recorded)
        return self._run_with(
            Said(event_bus, record_inputs, wait_s, on_drift),
            self._limits(**stopping),
            actor=actor,
            args=args,
            kwargs=kwargs,
            state_id=header.state_id,
            metadata=header.metadata,
            create=False,
            new_timeline=new_timeline,
            repeats_once=repeats_once,
            retry_caught=retry_caught,
        )


def new_state_id(name: str) -> str:
    """An id that nobody has, beginning with what can be read of the name."""
    readable = "".join(
        character for character in name if (character.isascii() and character.isalnum()) or character in "-_"
    )
    return f"{readable.strip('-_')[:40] or 'run'}-{secrets.token_hex(6)}"


def _require_other_names(agent: Actor[..., Any]) -> None:
    taken = agent.only_named & _OPTIONS_OF_RUN
    if taken:
        raise UsageError(
            f"The agent {agent.name!r} has the parameter {', '.join(sorted(taken))}, which `run` takes for itself.",
            f"Give it in the call, `run({agent.name}(…))`, or give the parameter another name.",
        )


def _require_no_loop(verb: str, instead: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(
        f"`{verb}` was called in async code, where it would stop the event loop.", f"Use `await …{instead}`."
    )
