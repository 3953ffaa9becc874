import json
import math
import os
import socket
import struct
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rightfast import messages, protocol
from pytest_rightfast.messages import (
    KINDS,
    Collected,
    Done,
    ProtocolError,
    Sample,
    Sampled,
    Verified,
    decode,
    encode,
)
from pytest_rightfast.protocol import MAGIC, Channel, ClosedError, SlowError


@pytest.fixture
def wire():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Channel(ours), theirs


def frame(body, magic=MAGIC, length=None):
    return struct.pack(">4sI", magic, len(body) if length is None else length) + body


class TestMessages:
    @given(st.lists(st.floats(allow_nan=False, allow_infinity=False)), st.integers(0, 2**53))
    def test_what_is_sent_is_received(self, seconds, number):
        assert decode(encode(number, Sampled(seconds))) == (number, Sampled(seconds))

    @given(st.dictionaries(st.text(), st.none() | st.floats(allow_nan=False, allow_infinity=False)))
    def test_names_and_missing_numbers(self, errors):
        assert decode(encode(1, Verified("ok", errors=errors)))[1].errors == errors

    def test_every_kind_has_its_own_name(self):
        assert len(KINDS) == len(messages.typing.get_args(messages.Message))

    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
    def test_a_number_that_json_has_not_is_refused_when_sent(self, bad):
        with pytest.raises(ProtocolError, match="sampled message holds what is not strict JSON"):
            encode(1, Sampled([bad]))

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            (b"hello", "not strict JSON"),
            (b"\xff\xfe", "not strict JSON"),
            (b"[]", "expected number, kind and body"),
            (b'{"number": 1, "kind": "done"}', "expected number, kind and body"),
            (b'{"number": 1, "kind": "dance", "body": {}}', "expected a message of"),
            (b'{"number": "1", "kind": "done", "body": {}}', "expected a message of"),
            (b'{"number": true, "kind": "done", "body": {}}', "expected a message of"),
            (b'{"number": 1, "kind": [], "body": {}}', "expected a message of"),
            (b'{"number": 1, "kind": "done", "body": {"x": 1}}', r"missing or unknown: \['x'\]"),
            (b'{"number": 1, "kind": "count", "body": {}}', r"missing or unknown: \['case'\]"),
            (b'{"number": 1, "kind": "count", "body": {"case": 1}}', "count.case: expected"),
            (
                b'{"number": 1, "kind": "sampled", "body": '
                b'{"seconds": [NaN], "check": "", "refuted": ""}}',
                "NaN is not JSON",
            ),
            (
                b'{"number": 1, "kind": "sampled", "body": '
                b'{"seconds": ["1"], "check": "", "refuted": ""}}',
                "sampled.seconds: expected",
            ),
            (
                b'{"number": 1, "kind": "sampled", "body": '
                b'{"seconds": [true], "check": "", "refuted": ""}}',
                "sampled.seconds: expected",
            ),
            (b'{"number": 1, "number": 2, "kind": "done", "body": {}}', "stands twice"),
        ],
    )
    def test_what_is_no_message_is_refused(self, body, words):
        with pytest.raises(ProtocolError, match=words):
            decode(body)

    def test_whole_numbers_pass_for_seconds(self):
        body = json.dumps(
            {"number": 1, "kind": "sampled", "body": {"seconds": [1], "check": "", "refuted": ""}}
        )
        assert decode(body.encode())[1] == Sampled([1])


class TestChannel:
    def test_a_message_larger_than_the_sockets_buffer(self, wire):
        ours, theirs = wire
        sent = Collected([f"test_{i}" for i in range(100_000)])
        thread = threading.Thread(target=Channel(theirs).send, args=(3, sent))
        thread.start()
        assert ours.receive(30) == (3, sent)
        thread.join()

    def test_a_message_in_pieces(self, wire):
        ours, theirs = wire
        whole = frame(encode(1, Done()))
        for i in range(len(whole)):
            theirs.sendall(whole[i : i + 1])
        assert ours.receive(5) == (1, Done())

    @pytest.mark.parametrize("kept", [0, 3, 8, 12])
    def test_an_end_in_the_middle(self, wire, kept):
        ours, theirs = wire
        theirs.sendall(frame(encode(1, Done()))[:kept])
        theirs.close()
        with pytest.raises(ClosedError, match="ended after"):
            ours.receive(5)

    def test_a_silent_worker_runs_out_of_time(self, wire):
        ours, theirs = wire
        theirs.sendall(frame(encode(1, Done()))[:10])
        with pytest.raises(SlowError, match="2 of"):
            ours.receive(0.2)

    def test_a_dead_worker_whose_child_holds_the_wire_open(self, wire):
        ours, _ = wire
        with pytest.raises(ClosedError, match="died after 0 of 8"):
            ours.receive(60, lambda: False)

    def test_what_it_wrote_before_its_death_is_read(self, wire):
        ours, theirs = wire
        theirs.sendall(frame(encode(1, Done())))
        assert ours.receive(60, lambda: False) == (1, Done())

    def test_a_foreign_writer(self, wire):
        ours, theirs = wire
        theirs.sendall(b"Traceback (most recent call last):")
        with pytest.raises(ProtocolError, match=r"expected b'RFW1', got b'Trac'"):
            ours.receive(5)

    def test_another_version(self, wire):
        ours, theirs = wire
        theirs.sendall(frame(encode(1, Done()), magic=b"RFW2"))
        with pytest.raises(ProtocolError, match="another version"):
            ours.receive(5)

    def test_an_announced_monster_is_not_waited_for(self, wire):
        ours, theirs = wire
        theirs.sendall(frame(b"", length=2**31))
        with pytest.raises(ProtocolError, match="the limit is"):
            ours.receive(5)

    def test_too_long_a_message_is_refused_when_sent(self, wire, monkeypatch):
        monkeypatch.setattr(protocol, "LIMIT", 10)
        with pytest.raises(ProtocolError, match="the limit is 10"):
            wire[0].send(1, Sample("case", 1))

    def test_sending_to_no_one(self, wire):
        ours, theirs = wire
        theirs.close()
        with pytest.raises(ClosedError, match="gone"):
            ours.send(1, Done())

    def test_programs_that_the_case_starts_do_not_inherit_the_wire(self):
        ours, theirs = socket.socketpair()
        theirs.set_inheritable(True)
        with ours:
            channel = Channel.from_fd(theirs.detach())
            assert not os.get_inheritable(channel._end.fileno())
            channel.close()
