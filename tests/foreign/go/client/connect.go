package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"tidewire.test/foreign/gen/behaviourv1"
	"tidewire.test/foreign/gen/behaviourv1/behaviourv1connect"
)

// way is one protocol, codec and HTTP version of connect-go.
type way struct {
	name    string
	http2   bool
	grpc    bool
	options []connect.ClientOption
	// The response header that names the compression of a unary reply.
	encodingHeader string
	// The request header that carries a deadline, and one of 50 ms.
	timeoutHeader, timeoutValue string
}

func ways() []way {
	return []way{
		{"connect-proto-h1", false, false, nil, "Content-Encoding", "Connect-Timeout-Ms", "50"},
		{"connect-json-h1", false, false, []connect.ClientOption{connect.WithProtoJSON()}, "Content-Encoding", "Connect-Timeout-Ms", "50"},
		{"connect-proto-h2", true, false, nil, "Content-Encoding", "Connect-Timeout-Ms", "50"},
		{"connect-json-h2", true, false, []connect.ClientOption{connect.WithProtoJSON()}, "Content-Encoding", "Connect-Timeout-Ms", "50"},
		{"grpc-h2", true, true, []connect.ClientOption{connect.WithGRPC()}, "Grpc-Encoding", "Grpc-Timeout", "50m"},
		{"grpcweb-h1", false, true, []connect.ClientOption{connect.WithGRPCWeb()}, "Grpc-Encoding", "Grpc-Timeout", "50m"},
		{"grpcweb-h2", true, true, []connect.ClientOption{connect.WithGRPCWeb()}, "Grpc-Encoding", "Grpc-Timeout", "50m"},
	}
}

// wire is an HTTP transport that remembers the last exchange and can add a request header.
type wire struct {
	inner http.RoundTripper

	mutex        sync.Mutex
	addName      string
	addValue     string
	lastMethod   string
	lastResponse http.Header
	lastVersion  int
}

func newWire(overHTTP2 bool) *wire {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!overHTTP2)
	protocols.SetUnencryptedHTTP2(overHTTP2)
	return &wire{inner: &http.Transport{Protocols: protocols, DisableCompression: true}}
}

func (w *wire) RoundTrip(request *http.Request) (*http.Response, error) {
	w.mutex.Lock()
	if w.addName != "" {
		request = request.Clone(request.Context())
		request.Header.Set(w.addName, w.addValue)
	}
	w.mutex.Unlock()
	response, err := w.inner.RoundTrip(request)
	if err == nil {
		w.mutex.Lock()
		w.lastMethod, w.lastResponse, w.lastVersion = request.Method, response.Header, response.ProtoMajor
		w.mutex.Unlock()
	}
	return response, err
}

// last is the method, the HTTP version and a response header of the last exchange.
func (w *wire) last(header string) (method string, version int, value string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.lastMethod, w.lastVersion, w.lastResponse.Get(header)
}

// session is a client of one way.
type session struct {
	way
	wire   *wire
	base   string
	client behaviourv1connect.BehaviourServiceClient
}

func newSession(address string, way way, more ...connect.ClientOption) *session {
	wire := newWire(way.http2)
	base := "http://" + address
	options := append(append([]connect.ClientOption{}, way.options...), more...)
	client := behaviourv1connect.NewBehaviourServiceClient(&http.Client{Transport: wire}, base, options...)
	return &session{way, wire, base, client}
}

func connectCases(r *run) {
	for _, way := range ways() {
		prefix := "connect-go/" + way.name + "/"
		s := newSession(r.address, way)
		for _, sample := range samples() {
			r.try(prefix+"echo-"+sample.name, func(ctx context.Context) error { return s.echo(ctx, sample.message) })
		}
		r.try(prefix+"http-version", s.httpVersion)
		r.try(prefix+"headers-and-trailers", s.headersAndTrailers)
		r.try(prefix+"look", s.look)
		if !way.grpc {
			get := newSession(r.address, way, connect.WithHTTPGet())
			r.try(prefix+"look-by-get", get.lookByGet)
		}
		gzip := newSession(r.address, way, connect.WithSendGzip())
		r.try(prefix+"gzip", gzip.gzip)
		r.try(prefix+"gzip-streams", gzip.sum)
		r.try(prefix+"count", s.count)
		r.try(prefix+"count-none", s.countNone)
		r.try(prefix+"count-fails-midway", s.countFails)
		r.try(prefix+"sum", s.sum)
		r.try(prefix+"sum-none", s.sumNone)
		if way.http2 {
			r.try(prefix+"chat", s.chat)
		}
		for code := connect.CodeCanceled; code <= connect.CodeUnauthenticated; code++ {
			r.try(prefix+"fail-"+code.String(), func(ctx context.Context) error { return s.fail(ctx, code) })
		}
		r.try(prefix+"panic", s.panics)
		r.try(prefix+"deadline", s.deadline)
		late := newSession(r.address, way)
		late.wire.addName, late.wire.addValue = way.timeoutHeader, way.timeoutValue
		r.try(prefix+"deadline-kept-by-the-server", late.deadlineAtServer)
		r.try(prefix+"unknown-method", func(ctx context.Context) error {
			return s.unknown(ctx, behaviourv1connect.BehaviourServiceName+"/Missing")
		})
		r.try(prefix+"unknown-service", func(ctx context.Context) error {
			return s.unknown(ctx, "tidewire.test.v1.MissingService/Echo")
		})
		r.try(prefix+"many-at-once", s.manyAtOnce)
	}
}

func (s *session) echo(ctx context.Context, message *behaviourv1.EchoRequest) error {
	reply, err := s.client.Echo(ctx, connect.NewRequest(message))
	if err != nil {
		return err
	}
	return echoed(message, reply.Msg)
}

func (s *session) httpVersion(ctx context.Context) error {
	if err := s.echo(ctx, &behaviourv1.EchoRequest{Text: "version"}); err != nil {
		return err
	}
	want := 1
	if s.http2 {
		want = 2
	}
	_, version, _ := s.wire.last("")
	return same("HTTP version", version, want)
}

func (s *session) headersAndTrailers(ctx context.Context) error {
	request := connect.NewRequest(&behaviourv1.EchoRequest{Text: "ping"})
	request.Header().Set("x-ping", "over there")
	reply, err := s.client.Echo(ctx, request)
	if err != nil {
		return err
	}
	if err := same("x-pong", reply.Header().Get("x-pong"), "over there"); err != nil {
		return err
	}
	return same("x-pong-trailer", reply.Trailer().Get("x-pong-trailer"), "over there")
}

func (s *session) look(ctx context.Context) error {
	reply, err := s.client.Look(ctx, connect.NewRequest(&behaviourv1.LookRequest{Key: "a b&c=ü"}))
	if err != nil {
		return err
	}
	return same("value", reply.Msg.Value, "value of a b&c=ü")
}

func (s *session) lookByGet(ctx context.Context) error {
	if err := s.look(ctx); err != nil {
		return err
	}
	method, _, _ := s.wire.last("")
	return same("HTTP method", method, http.MethodGet)
}

func (s *session) gzip(ctx context.Context) error {
	if err := s.echo(ctx, compressible()); err != nil {
		return err
	}
	_, _, encoding := s.wire.last(s.encodingHeader)
	return same(s.encodingHeader, encoding, "gzip")
}

func (s *session) count(ctx context.Context) error {
	stream, err := s.client.Count(ctx, connect.NewRequest(&behaviourv1.CountRequest{N: 1000}))
	if err != nil {
		return err
	}
	next := int32(1)
	for stream.Receive() {
		if err := same("number", stream.Msg().Number, next); err != nil {
			return err
		}
		next++
	}
	if err := stream.Err(); err != nil {
		return err
	}
	return same("messages", next-1, 1000)
}

func (s *session) countNone(ctx context.Context) error {
	stream, err := s.client.Count(ctx, connect.NewRequest(&behaviourv1.CountRequest{}))
	if err != nil {
		return err
	}
	if stream.Receive() {
		return errors.New("a message arrived, want none")
	}
	return stream.Err()
}

func (s *session) countFails(ctx context.Context) error {
	stream, err := s.client.Count(ctx, connect.NewRequest(&behaviourv1.CountRequest{N: 10, FailAfter: 3}))
	if err != nil {
		return err
	}
	messages := 0
	for stream.Receive() {
		messages++
	}
	if err := same("messages", messages, 3); err != nil {
		return err
	}
	failure, err := asError(stream.Err(), connect.CodeAborted)
	if err != nil {
		return err
	}
	return same("message", failure.Message(), "stopped after 3")
}

func (s *session) sum(ctx context.Context) error {
	stream := s.client.Sum(ctx)
	for value := int64(1); value <= 100; value++ {
		if err := stream.Send(&behaviourv1.SumRequest{Value: value}); err != nil {
			return err
		}
	}
	reply, err := stream.CloseAndReceive()
	if err != nil {
		return err
	}
	if err := same("messages", reply.Msg.Messages, 100); err != nil {
		return err
	}
	return same("total", reply.Msg.Total, 5050)
}

func (s *session) sumNone(ctx context.Context) error {
	reply, err := s.client.Sum(ctx).CloseAndReceive()
	if err != nil {
		return err
	}
	return same("messages", reply.Msg.Messages, 0)
}

// chat sends the next message only after the answer to the one before, so that a server which
// collects its input first would never answer.
func (s *session) chat(ctx context.Context) error {
	stream := s.client.Chat(ctx)
	for i := range 20 {
		text := fmt.Sprintf("message %d", i)
		if err := stream.Send(&behaviourv1.ChatRequest{Text: text}); err != nil {
			return err
		}
		reply, err := stream.Receive()
		if err != nil {
			return err
		}
		if err := same("text", reply.Text, text); err != nil {
			return err
		}
	}
	if err := stream.CloseRequest(); err != nil {
		return err
	}
	if _, err := stream.Receive(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the stream ended with %v, want its end", err)
	}
	return stream.CloseResponse()
}

func (s *session) fail(ctx context.Context, code connect.Code) error {
	withDetail := code%2 == 1
	_, err := s.client.Fail(ctx, connect.NewRequest(&behaviourv1.FailRequest{
		Code: int32(code), Message: failMessage, WithDetail: withDetail,
	}))
	failure, err := asError(err, code)
	if err != nil {
		return err
	}
	if err := same("message", failure.Message(), failMessage); err != nil {
		return err
	}
	if err := same("x-fail", failure.Meta().Get("x-fail"), "yes"); err != nil {
		return err
	}
	if !withDetail {
		return same("details", len(failure.Details()), 0)
	}
	if err := same("details", len(failure.Details()), 1); err != nil {
		return err
	}
	detail, err := failure.Details()[0].Value()
	if err != nil {
		return err
	}
	return checkDetail(detail, uint32(code))
}

func (s *session) panics(ctx context.Context) error {
	_, err := s.client.Panic(ctx, connect.NewRequest(&behaviourv1.PanicRequest{}))
	if _, err := asError(err, connect.CodeInternal); err != nil {
		return err
	}
	return s.look(ctx)
}

func (s *session) deadline(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err := s.client.Slow(short, connect.NewRequest(&behaviourv1.SlowRequest{Millis: 20_000}))
	_, err = asError(err, connect.CodeDeadlineExceeded)
	return err
}

// deadlineAtServer sends a deadline that connect-go knows nothing of: the answer is the server's.
func (s *session) deadlineAtServer(ctx context.Context) error {
	_, err := s.client.Slow(ctx, connect.NewRequest(&behaviourv1.SlowRequest{Millis: 20_000}))
	_, err = asError(err, connect.CodeDeadlineExceeded)
	return err
}

func (s *session) unknown(ctx context.Context, procedure string) error {
	client := connect.NewClient[behaviourv1.EchoRequest, behaviourv1.EchoReply](
		&http.Client{Transport: s.wire}, s.base+"/"+procedure, s.options...)
	_, err := client.CallUnary(ctx, connect.NewRequest(&behaviourv1.EchoRequest{}))
	_, err = asError(err, connect.CodeUnimplemented)
	return err
}

func (s *session) manyAtOnce(ctx context.Context) error {
	const calls = 64
	outcomes := make(chan error, calls)
	for number := range int64(calls) {
		go func() { outcomes <- s.echo(ctx, &behaviourv1.EchoRequest{Number: number}) }()
	}
	var first error
	for range calls {
		if err := <-outcomes; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// asError is the failure of a call, checked to have the code.
func asError(err error, code connect.Code) (*connect.Error, error) {
	if err == nil {
		return nil, fmt.Errorf("the call succeeded, want %s", code)
	}
	var failure *connect.Error
	if !errors.As(err, &failure) {
		return nil, err
	}
	if failure.Code() != code {
		return nil, fmt.Errorf("code is %s (%s), want %s", failure.Code(), failure.Message(), code)
	}
	return failure, nil
}
