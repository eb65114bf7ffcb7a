"""The parts of the process pool by themselves; what really crashes is in tests/faults."""

from __future__ import annotations

import os
import pickle
import socket

import pytest

from steelyard.types import Verdict
from steelyard.verification import FunctionVerifier, as_verifier
from steelyard.verification.processes.frames import LARGEST, BrokenFrameError, JsonReader, frame, json_frame, receive
from steelyard.verification.processes.output import Output
from steelyard.verification.transport import pack, unpack
from tests.unit.verification.checkers import declared, length


def test_messages_are_read_whole_however_they_arrive() -> None:
    stream = json_frame({"a": 1}) + json_frame([2, "é"])
    for size in (1, 3, 7, len(stream)):
        reader = JsonReader()
        parts = [stream[at : at + size] for at in range(0, len(stream), size)]
        assert [message for part in parts for message in reader.feed(part)] == [{"a": 1}, [2, "é"]]


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(BrokenFrameError, match="no JSON"):
        list(JsonReader().feed(frame(pickle.dumps({"a": 1}))))
    with pytest.raises(BrokenFrameError, match="bytes"):
        list(JsonReader().feed((LARGEST + 1).to_bytes(8, "little")))


def test_receiving_waits_for_the_whole_and_notices_the_end() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(frame(b"x" * 100) + frame(b"y")[:4])
        theirs.close()
        assert receive(ours) == b"x" * 100
        assert receive(ours) is None


def test_output_is_bounded_and_starts_anew_with_every_item() -> None:
    output = Output(16 * 1024)
    try:
        os.write(output.descriptor, b"first item")
        assert output.tail() == "first item"
        assert not output.overflowed
        output.start()
        os.write(output.descriptor, b"second")
        assert output.tail() == "second"
        assert os.write(output.descriptor, b"z" * 2**16) < 2**14, "as much as there is room for"
        with pytest.raises(OSError, match="not permitted"):
            os.write(output.descriptor, b"z" * 5000)
        assert output.overflowed
        assert output.tail(10) == "…" + "z" * 10
    finally:
        output.close()


def test_importable_functions_travel_by_name(caplog: pytest.LogCaptureFixture) -> None:
    for verifier in (as_verifier(length), as_verifier([length, declared])):
        payload = pack(verifier)
        assert b"length" in payload
        assert len(payload) < 1500, "a name and no code"
    again = unpack(pack(declared))
    assert isinstance(again, FunctionVerifier)
    assert again.function is declared.function, "the decorated function itself"
    assert again.floor == -1.0
    assert caplog.text == ""


def test_the_rest_travels_by_value_and_that_is_said(item, caplog: pytest.LogCaptureFixture) -> None:
    bonus = 3.0
    again = unpack(pack(as_verifier(lambda task, text: bonus + len(text))))
    assert again.verify([item("ab")]) == [Verdict.scored(5.0, success=True)]
    assert "<lambda>: not importable by name" in caplog.text
