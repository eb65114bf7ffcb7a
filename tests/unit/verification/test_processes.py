"""The parts of the process pool. Tests with real crashes are in tests/faults."""

from __future__ import annotations

import os
import pickle
import socket

import pytest

from steelyard.types import Verdict
from steelyard.verification import FunctionVerifier, as_verifier
from steelyard.verification.processes.frames import (
    MAX_MESSAGE_BYTES,
    BrokenFrameError,
    JsonReader,
    frame,
    json_frame,
    receive,
)
from steelyard.verification.processes.output import WorkerOutput
from steelyard.verification.transport import pack, unpack
from tests.unit.verification.checkers import declared, length


def test_messages_are_decoded_however_they_are_split() -> None:
    stream = json_frame({"a": 1}) + json_frame([2, "é"])
    for size in (1, 3, 7, len(stream)):
        reader = JsonReader()
        parts = [stream[at : at + size] for at in range(0, len(stream), size)]
        assert [message for part in parts for message in reader.feed(part)] == [{"a": 1}, [2, "é"]]


def test_invalid_messages_are_rejected() -> None:
    with pytest.raises(BrokenFrameError, match="not JSON"):
        list(JsonReader().feed(frame(pickle.dumps({"a": 1}))))
    with pytest.raises(BrokenFrameError, match="bytes"):
        list(JsonReader().feed((MAX_MESSAGE_BYTES + 1).to_bytes(8, "little")))


def test_receive_waits_for_a_complete_message_and_detects_the_end() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(frame(b"x" * 100) + frame(b"y")[:4])
        theirs.close()
        assert receive(ours) == b"x" * 100
        assert receive(ours) is None


def test_output_is_bounded_and_restarts_with_every_call() -> None:
    output = WorkerOutput(16 * 1024)
    try:
        os.write(output.descriptor, b"first item")
        assert output.tail() == "first item"
        assert not output.overflowed
        output.start()
        os.write(output.descriptor, b"second")
        assert output.tail() == "second"
        assert os.write(output.descriptor, b"z" * 2**16) < 2**14, "only as much as fits is written"
        with pytest.raises(OSError, match="not permitted"):
            os.write(output.descriptor, b"z" * 5000)
        assert output.overflowed
        assert output.tail(10) == "…" + "z" * 10
    finally:
        output.close()


def test_importable_functions_are_sent_by_name(caplog: pytest.LogCaptureFixture) -> None:
    for verifier in (as_verifier(length), as_verifier([length, declared])):
        payload = pack(verifier)
        assert b"length" in payload
        assert len(payload) < 1500, "a name instead of code"
    again = unpack(pack(declared))
    assert isinstance(again, FunctionVerifier)
    assert again.function is declared.function, "the function that was decorated"
    assert again.floor == -1.0
    assert caplog.text == ""


def test_other_functions_are_sent_by_value_with_a_warning(item, caplog: pytest.LogCaptureFixture) -> None:
    bonus = 3.0
    declared = as_verifier(lambda task, text: bonus + len(text))
    again = unpack(pack(declared))
    assert again.verify([item("ab")]) == [Verdict.scored(5.0, success=True)]
    pack(declared)
    assert caplog.text.count("<lambda> is not importable by name") == 1, "reported only once"
