// Command server serves tidewire.test.v1.BehaviourService with connect-go, over Connect, gRPC and
// gRPC-Web on one cleartext port. It is the reference for the foreign clients (they must all pass
// against it) and a foreign peer for Tidewire's own client.
//
// Usage: server [ADDRESS]. The default is a free port on 127.0.0.1; the first line of output is
// `listening on ADDRESS`.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"

	"tidewire.test/foreign/gen/behaviourv1"
	"tidewire.test/foreign/gen/behaviourv1/behaviourv1connect"
)

func main() {
	address := "127.0.0.1:0"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on %s\n", listener.Addr())

	mux := http.NewServeMux()
	mux.Handle(behaviourv1connect.NewBehaviourServiceHandler(behaviour{}, connect.WithRecover(
		func(_ context.Context, _ connect.Spec, _ http.Header, _ any) error {
			return connect.NewError(connect.CodeInternal, errors.New("the handler panicked"))
		})))
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: mux, Protocols: protocols}
	log.Fatal(server.Serve(listener))
}

type behaviour struct{}

func (behaviour) Echo(_ context.Context, request *connect.Request[behaviourv1.EchoRequest]) (*connect.Response[behaviourv1.EchoReply], error) {
	in := request.Msg
	reply := connect.NewResponse(&behaviourv1.EchoReply{
		Text: in.Text, Tags: in.Tags, Nested: in.Nested, Number: in.Number,
		Data: in.Data, Ratio: in.Ratio, Counts: in.Counts, At: in.At,
	})
	if ping := request.Header().Get("x-ping"); ping != "" {
		reply.Header().Set("x-pong", ping)
		reply.Trailer().Set("x-pong-trailer", ping)
	}
	return reply, nil
}

func (behaviour) Look(_ context.Context, request *connect.Request[behaviourv1.LookRequest]) (*connect.Response[behaviourv1.LookReply], error) {
	return connect.NewResponse(&behaviourv1.LookReply{Value: "value of " + request.Msg.Key}), nil
}

func (behaviour) Count(_ context.Context, request *connect.Request[behaviourv1.CountRequest], stream *connect.ServerStream[behaviourv1.CountReply]) error {
	stop := request.Msg.FailAfter
	for number := int32(1); number <= request.Msg.N; number++ {
		if stop > 0 && number > stop {
			return connect.NewError(connect.CodeAborted, fmt.Errorf("stopped after %d", stop))
		}
		if err := stream.Send(&behaviourv1.CountReply{Number: number}); err != nil {
			return err
		}
	}
	return nil
}

func (behaviour) Sum(_ context.Context, stream *connect.ClientStream[behaviourv1.SumRequest]) (*connect.Response[behaviourv1.SumReply], error) {
	reply := &behaviourv1.SumReply{}
	for stream.Receive() {
		reply.Total += stream.Msg().Value
		reply.Messages++
	}
	if err := stream.Err(); err != nil {
		return nil, err
	}
	return connect.NewResponse(reply), nil
}

func (behaviour) Chat(_ context.Context, stream *connect.BidiStream[behaviourv1.ChatRequest, behaviourv1.ChatReply]) error {
	for {
		request, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(&behaviourv1.ChatReply{Text: request.Text}); err != nil {
			return err
		}
	}
}

func (behaviour) Fail(_ context.Context, request *connect.Request[behaviourv1.FailRequest]) (*connect.Response[behaviourv1.FailReply], error) {
	in := request.Msg
	failure := connect.NewError(connect.Code(in.Code), errors.New(in.Message))
	failure.Meta().Set("x-fail", "yes")
	if in.WithDetail {
		detail, err := connect.NewErrorDetail(&behaviourv1.FailDetail{Reason: "asked for", Number: in.Code})
		if err != nil {
			return nil, err
		}
		failure.AddDetail(detail)
	}
	return nil, failure
}

func (behaviour) Panic(context.Context, *connect.Request[behaviourv1.PanicRequest]) (*connect.Response[behaviourv1.PanicReply], error) {
	panic("asked to panic")
}

func (behaviour) Slow(ctx context.Context, request *connect.Request[behaviourv1.SlowRequest]) (*connect.Response[behaviourv1.SlowReply], error) {
	select {
	case <-time.After(time.Duration(request.Msg.Millis) * time.Millisecond):
		return connect.NewResponse(&behaviourv1.SlowReply{Millis: request.Msg.Millis}), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
