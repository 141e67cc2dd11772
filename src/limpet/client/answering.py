"""The verbs by which people and programs tell runs something: answer, take a question back, send a message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from limpet.client.opened import OpenedStore
from limpet.engine.clock import SYSTEM_CLOCK
from limpet.model.waits import Question

if TYPE_CHECKING:
    from limpet.engine.answering import Inbox


class Answering(OpenedStore):
    """``questions``, ``question``, ``answer``, ``withdraw`` and ``send``."""

    def questions(self, state_id: str | None = None, *, to: str | None = None) -> list[Question]:
        """What is asked and not answered, in one state or in all, the oldest first; with ``to`` only what is for them.

        Raises UnknownState.
        """
        headers = None if state_id is None else [self._header(state_id)]
        asked: Iterable[Question] = self._inbox().open_questions(headers)
        return [question for question in asked if to is None or question.to == to]

    def question(self, state_id: str, address: str | None = None) -> Question:
        """The question that ``answer`` would answer, also where it was answered before. Raises as ``answer`` does."""
        return self._inbox().question(self._header(state_id), address)

    def answer(self, state_id: str, value: object, *, by: str = "", address: str | None = None) -> Question:
        """Answer a question of a state, and give the question. Any process may, also while another one runs the state.

        The value is of the type that was asked for, or what JSON has of it. ``address`` is that of the question, or the
        end of it, where several are open. Saying the same twice is one answer. A run that waits in memory goes on by
        itself; otherwise run it again.

        Raises WrongAnswer where the value does not fit, and the question stays open; AlreadyAnswered where something
        else was said before, or it is too late; UnknownState, UnknownAddress, AmbiguousAddress, ValueNotReadable where
        a class of the type is not imported, or UsageError where the state asks nothing, or several things and none is
        named.
        """
        return self._inbox().answer(self._header(state_id), address, value, by, SYSTEM_CLOCK.now())

    def withdraw(self, state_id: str, *, by: str = "", address: str | None = None) -> Question:
        """Take a question of a state back, and give it. QuestionWithdrawn is raised where it was asked.

        Raises AlreadyAnswered, UnknownState, AmbiguousAddress, or UsageError where the state asks nothing.
        """
        return self._inbox().withdraw(self._header(state_id), address, by)

    def send(self, state_id: str, topic: str, value: object, *, key: str | None = None, by: str = "") -> None:
        """Send a message about a topic to a state, for its ``wait_for_message``, now or later.

        It is given there once. With a ``key`` it is one message, however often this is called. Raises UnknownState,
        ValueNotStorable, or UsageError where the state has ended, the topic cannot be one, or another message was sent
        with that key.
        """
        self._inbox().send(self._header(state_id), topic, value, key, by)

    def _inbox(self) -> Inbox:
        from limpet.engine.answering import Inbox

        return Inbox(self._writer, self._stored, self.agent_of)
