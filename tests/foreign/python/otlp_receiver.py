"""A collector of OpenTelemetry that prints each span it is sent, as a line of JSON.

It listens at a port of its own, which is its first line; the messages are those of the package
opentelemetry-proto.
"""

import json
from http.server import BaseHTTPRequestHandler, HTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


def text(value):
    """The one field of a value that is set."""
    kind = value.WhichOneof("value")
    return None if kind is None else getattr(value, kind)


def attributes(of):
    return {pair.key: text(pair.value) for pair in of.attributes}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.tell(resource.resource, span)
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def tell(self, resource, span):
        told = {
            "path": self.path,
            "type": self.headers["content-type"],
            "service": attributes(resource).get("service.name"),
            "trace": span.trace_id.hex(),
            "span": span.span_id.hex(),
            "parent": span.parent_span_id.hex(),
            "name": span.name,
            "kind": span.kind,
            "status": span.status.code,
            "nanoseconds": span.end_time_unix_nano - span.start_time_unix_nano,
            "attributes": attributes(span),
            "events": [event.name for event in span.events],
        }
        print(json.dumps(told), flush=True)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
