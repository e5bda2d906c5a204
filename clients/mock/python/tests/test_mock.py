"""The package against the program that TIDEWIRE names."""

import concurrent.futures
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import traceback
import urllib.error
import urllib.request

import grpc
import pytest
from conftest import PROTOS
from google.protobuf import api_pb2, source_context_pb2, type_pb2

from tidewire_mock import Mock, MockError, VerifyError

GET_PRICE = "shop.v1.Cart/GetPrice"


def call(scope, method, document, **headers):
    request = scope.request(f"/shop.v1.Cart/{method}", document, **headers)
    try:
        with urllib.request.urlopen(request) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return json.load(error)


def test_it_answers_as_it_was_told_and_from_its_schema_where_it_was_not(session):
    rule = session.on(GET_PRICE).with_("sku", "tea").with_header("x-tenant", {"in": ["acme"]})
    rule.reply(unit_price=4)
    rule = session.on(GET_PRICE).with_(quantity={"gte": 100}).delay(0.001).header("x-a", "b")
    rule.reply({"note": "bulk"})
    assert call(session, "GetPrice", {"sku": "tea"}, **{"x-tenant": "acme"}) == {"unitPrice": "4"}
    assert call(session, "GetPrice", {"quantity": 250}) == {"note": "bulk"}
    assert set(call(session, "GetPrice", {"sku": "tea"})) == {"note", "sku", "unitPrice"}


def test_it_fails_so_often_and_answers_then(session):
    session.on(GET_PRICE).times(1).fail("unavailable", "try again")
    session.on(GET_PRICE).reply(unit_price=9)
    assert call(session, "GetPrice", {}) == {"code": "unavailable", "message": "try again"}
    assert call(session, "GetPrice", {}) == {"unitPrice": "9"}


def test_a_client_of_grpc_gets_messages_of_protobuf_and_a_stream(session):
    wanted = source_context_pb2.SourceContext(file_name="shop.proto")
    message = api_pb2.Method(name="GetPrice", request_streaming=True, syntax=type_pb2.SYNTAX_PROTO3)
    session.on("shop.v1.Cart/Find").with_(wanted).reply(message)
    session.on("shop.v1.Cart/WatchPrice").reply_stream([{"sku": "a"}, {"sku": "b"}])
    with grpc.insecure_channel(session.target) as channel:
        find = channel.unary_unary(
            "/shop.v1.Cart/Find",
            request_serializer=source_context_pb2.SourceContext.SerializeToString,
            response_deserializer=api_pb2.Method.FromString,
        )
        assert find(wanted, metadata=session.metadata) == message
        watch = channel.unary_stream("/shop.v1.Cart/WatchPrice")
        # Field 1 of the reply.
        assert list(watch(b"", metadata=session.metadata)) == [b"\n\1a", b"\n\1b"]
    session.verify("shop.v1.Cart/Find", wanted, exactly=1)


def test_sessions_that_run_beside_one_another_are_apart(mock):
    def one(number):
        session = mock.session()
        session.on(GET_PRICE).times(2).reply(unit_price=number)
        session.on(GET_PRICE).fail("not_found", "used up")
        replies = [call(session, "GetPrice", {"quantity": number}) for _ in range(3)]
        found = [reply.get("unitPrice", reply.get("code")) for reply in replies]
        assert found == [str(number), str(number), "not_found"]
        session.verify(GET_PRICE, {"quantity": number}, exactly=3)
        return session

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        sessions = list(pool.map(one, range(1, 21)))
    sessions[0].reset()
    assert sessions[0].calls() == []
    assert len(sessions[1].calls(GET_PRICE)) == 3
    assert call(sessions[0], "GetPrice", {}).get("code") != "not_found", "its rules are gone"


def test_it_tells_the_calls_and_those_that_no_rule_was_for(session):
    session.on(GET_PRICE).with_("sku", "tea").reply()
    call(session, "GetPrice", {"sku": "milk"})
    (one,) = session.calls()
    assert (one.method, one.session, one.code) == (GET_PRICE, session.name, "ok")
    assert one.requests == [{"sku": "milk"}]
    (miss,) = session.near_misses()
    assert miss.misses == ['request.sku is "milk", wanted "tea"']


def test_verify_fails_with_the_calls_that_came_near(session):
    call(session, "GetPrice", {"sku": "milk", "quantity": 7})
    session.verify(GET_PRICE)
    session.verify(GET_PRICE, {"sku": "tea"}, exactly=0)
    near = (
        r'expected exactly 3 calls of .*, got 0\n  closest: call \d+\n    sku is "milk", wanted "tea"'
    )
    with pytest.raises(VerifyError, match=near):
        session.verify(GET_PRICE, {"sku": "tea", "quantity": 7}, exactly=3)


@pytest.mark.parametrize(
    ("add", "why"),
    [
        (
            lambda rule: rule.reply(unit_prise=4),
            "GetPriceReply has no field unit_prise; write unit_price",
        ),
        (lambda rule: rule.reply(unit_price="dear"), '"dear" is not a valid int64'),
        (lambda rule: rule.with_(skuu="tea").reply(), "GetPriceRequest has no field skuu"),
        (lambda rule: rule.fail("unavaliable"), "not a code of an error; write unavailable"),
        (lambda rule: rule.fault("rset").reply(), "not a kind of fault"),
    ],
)
def test_a_wrong_rule_is_refused_where_it_is_added(mock, add, why):
    with pytest.raises(MockError, match=re.escape(why)) as raised:
        add(mock.on(GET_PRICE))
    assert raised.value.code == "invalid_argument"
    assert any("add(mock.on(" in frame.line for frame in traceback.extract_tb(raised.tb))


def test_a_method_that_is_not_there_is_told(mock):
    with pytest.raises(MockError, match="no method is called"):
        mock.on("shop.v1.Cart/GetPrize").reply()


def test_answers_go_wrong_where_they_are_told_to(session):
    session.on(GET_PRICE).fault("truncate", after=3).reply(note="long enough")
    with pytest.raises((ValueError, http.client.HTTPException)):
        call(session, "GetPrice", {})


def test_it_ends_when_the_test_that_started_it_is_killed():
    script = f"""
import os, tidewire_mock
mock = tidewire_mock.Mock.start({str(PROTOS)!r})
mock.on({GET_PRICE!r}).reply(note=str(os.getpid()))
print(mock.url, flush=True)
input()
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", script], **pipes) as child:
        url = child.stdout.readline().strip() + "/" + GET_PRICE

        def note():
            asked = urllib.request.Request(url, b"{}", {"content-type": "application/json"})
            try:
                with urllib.request.urlopen(asked, timeout=300) as response:
                    return json.load(response).get("note")
            except (OSError, http.client.HTTPException):
                return None

        assert note() == str(child.pid)
        child.kill()
        # Until nobody answers, or another mock has its port.
        hang = time.monotonic() + 60
        while note() == str(child.pid):
            assert time.monotonic() < hang, "the mock goes on"


def test_a_port_that_is_taken_and_a_program_that_is_not_there_or_is_another_one_are_told():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(MockError, match=f"127.0.0.1:{port} is in use by another program"):
            Mock.start(PROTOS, port=port)
    for options, why in [
        ({"program": "/no/tidewire"}, "put tidewire on PATH"),
        ({"program": "true"}, "true mock ended with code 0"),
        ({"arguments": ["--newer"]}, "too old for this package[^$]*--newer"),
        ({"protos": "/no/protos"}, "there is no service in /no/protos"),
    ]:
        with pytest.raises(MockError, match=why):
            Mock.start(**{"protos": PROTOS, **options})


def test_a_mock_that_has_ended_says_so_and_how():
    mock = Mock.start(PROTOS)
    os.kill(mock.pid, signal.SIGKILL)
    with pytest.raises(MockError, match="the mock ended with signal 9") as raised:
        mock.on(GET_PRICE).reply()
    assert raised.value.code == "unavailable"
    mock.close()
