package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"tidewire.test/foreign/gen/behaviourv1"
)

// peer is a grpc-go client and what it saw on the wire.
type peer struct {
	connection *grpc.ClientConn
	client     behaviourv1.BehaviourServiceClient
	// The compression that the last response header named.
	compression atomic.Value
}

func grpcCases(r *run) {
	const prefix = "grpc-go/"
	p := &peer{}
	connection, err := grpc.NewClient("passthrough:///"+r.address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithStatsHandler(p))
	if err != nil {
		r.try(prefix+"connect", func(context.Context) error { return err })
		return
	}
	defer connection.Close()
	p.connection, p.client = connection, behaviourv1.NewBehaviourServiceClient(connection)

	for _, sample := range samples() {
		r.try(prefix+"echo-"+sample.name, func(ctx context.Context) error { return p.echo(ctx, sample.message) })
	}
	r.try(prefix+"headers-and-trailers", p.headersAndTrailers)
	r.try(prefix+"look", p.look)
	r.try(prefix+"gzip", p.gzip)
	r.try(prefix+"gzip-streams", func(ctx context.Context) error { return p.sum(ctx, 100, grpc.UseCompressor(gzip.Name)) })
	r.try(prefix+"count", func(ctx context.Context) error { return p.count(ctx, 1000) })
	r.try(prefix+"count-none", func(ctx context.Context) error { return p.count(ctx, 0) })
	r.try(prefix+"count-fails-midway", p.countFails)
	r.try(prefix+"sum", func(ctx context.Context) error { return p.sum(ctx, 100) })
	r.try(prefix+"sum-none", func(ctx context.Context) error { return p.sum(ctx, 0) })
	r.try(prefix+"chat", p.chat)
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		r.try(prefix+"fail-"+code.String(), func(ctx context.Context) error { return p.fail(ctx, code) })
	}
	r.try(prefix+"panic", p.panics)
	r.try(prefix+"deadline", p.deadline)
	r.try(prefix+"unknown-method", func(ctx context.Context) error {
		return p.unknown(ctx, "/tidewire.test.v1.BehaviourService/Missing")
	})
	r.try(prefix+"unknown-service", func(ctx context.Context) error {
		return p.unknown(ctx, "/tidewire.test.v1.MissingService/Echo")
	})
	r.try(prefix+"many-at-once", p.manyAtOnce)
}

func (p *peer) echo(ctx context.Context, message *behaviourv1.EchoRequest, options ...grpc.CallOption) error {
	reply, err := p.client.Echo(ctx, message, options...)
	if err != nil {
		return err
	}
	return echoed(message, reply)
}

func (p *peer) headersAndTrailers(ctx context.Context) error {
	var header, trailer metadata.MD
	ctx = metadata.AppendToOutgoingContext(ctx, "x-ping", "over there")
	_, err := p.client.Echo(ctx, &behaviourv1.EchoRequest{}, grpc.Header(&header), grpc.Trailer(&trailer))
	if err != nil {
		return err
	}
	if err := same("x-pong", fmt.Sprint(header.Get("x-pong")), "[over there]"); err != nil {
		return err
	}
	return same("x-pong-trailer", fmt.Sprint(trailer.Get("x-pong-trailer")), "[over there]")
}

func (p *peer) look(ctx context.Context) error {
	reply, err := p.client.Look(ctx, &behaviourv1.LookRequest{Key: "a b&c=ü"})
	if err != nil {
		return err
	}
	return same("value", reply.Value, "value of a b&c=ü")
}

func (p *peer) gzip(ctx context.Context) error {
	if err := p.echo(ctx, compressible(), grpc.UseCompressor(gzip.Name)); err != nil {
		return err
	}
	compression, _ := p.compression.Load().(string)
	return same("grpc-encoding", compression, "gzip")
}

func (p *peer) count(ctx context.Context, n int32) error {
	stream, err := p.client.Count(ctx, &behaviourv1.CountRequest{N: n})
	if err != nil {
		return err
	}
	for next := int32(1); ; next++ {
		reply, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return same("messages", next-1, n)
		}
		if err != nil {
			return err
		}
		if err := same("number", reply.Number, next); err != nil {
			return err
		}
	}
}

func (p *peer) countFails(ctx context.Context) error {
	stream, err := p.client.Count(ctx, &behaviourv1.CountRequest{N: 10, FailAfter: 3})
	if err != nil {
		return err
	}
	messages := 0
	for {
		if _, err = stream.Recv(); err != nil {
			break
		}
		messages++
	}
	if err := same("messages", messages, 3); err != nil {
		return err
	}
	failure, err := asStatus(err, codes.Aborted)
	if err != nil {
		return err
	}
	return same("message", failure.Message(), "stopped after 3")
}

func (p *peer) sum(ctx context.Context, messages int32, options ...grpc.CallOption) error {
	stream, err := p.client.Sum(ctx, options...)
	if err != nil {
		return err
	}
	var total int64
	for value := int64(1); value <= int64(messages); value++ {
		total += value
		if err := stream.Send(&behaviourv1.SumRequest{Value: value}); err != nil {
			return err
		}
	}
	reply, err := stream.CloseAndRecv()
	if err != nil {
		return err
	}
	if err := same("messages", reply.Messages, messages); err != nil {
		return err
	}
	return same("total", reply.Total, total)
}

func (p *peer) chat(ctx context.Context) error {
	stream, err := p.client.Chat(ctx)
	if err != nil {
		return err
	}
	for i := range 20 {
		text := fmt.Sprintf("message %d", i)
		if err := stream.Send(&behaviourv1.ChatRequest{Text: text}); err != nil {
			return err
		}
		reply, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := same("text", reply.Text, text); err != nil {
			return err
		}
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the stream ended with %v, want its end", err)
	}
	return nil
}

func (p *peer) fail(ctx context.Context, code codes.Code) error {
	withDetail := code%2 == 1
	var header, trailer metadata.MD
	_, err := p.client.Fail(ctx,
		&behaviourv1.FailRequest{Code: int32(code), Message: failMessage, WithDetail: withDetail},
		grpc.Header(&header), grpc.Trailer(&trailer))
	failure, err := asStatus(err, code)
	if err != nil {
		return err
	}
	if err := same("message", failure.Message(), failMessage); err != nil {
		return err
	}
	// A failed call may come as headers and trailers or as trailers only.
	if err := same("x-fail", fmt.Sprint(metadata.Join(header, trailer).Get("x-fail")), "[yes]"); err != nil {
		return err
	}
	details := failure.Details()
	if !withDetail {
		return same("details", len(details), 0)
	}
	if err := same("details", len(details), 1); err != nil {
		return err
	}
	detail, ok := details[0].(proto.Message)
	if !ok {
		return fmt.Errorf("the detail cannot be read: %v", details[0])
	}
	return checkDetail(detail, uint32(code))
}

func (p *peer) panics(ctx context.Context) error {
	_, err := p.client.Panic(ctx, &behaviourv1.PanicRequest{})
	if _, err := asStatus(err, codes.Internal); err != nil {
		return err
	}
	return p.look(ctx)
}

func (p *peer) deadline(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err := p.client.Slow(short, &behaviourv1.SlowRequest{Millis: 20_000})
	_, err = asStatus(err, codes.DeadlineExceeded)
	return err
}

func (p *peer) unknown(ctx context.Context, method string) error {
	err := p.connection.Invoke(ctx, method, &behaviourv1.EchoRequest{}, &behaviourv1.EchoReply{})
	_, err = asStatus(err, codes.Unimplemented)
	return err
}

func (p *peer) manyAtOnce(ctx context.Context) error {
	const calls = 64
	outcomes := make(chan error, calls)
	for number := range int64(calls) {
		go func() { outcomes <- p.echo(ctx, &behaviourv1.EchoRequest{Number: number}) }()
	}
	var first error
	for range calls {
		if err := <-outcomes; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// asStatus is the failure of a call, checked to have the code.
func asStatus(err error, code codes.Code) (*status.Status, error) {
	if err == nil {
		return nil, fmt.Errorf("the call succeeded, want %s", code)
	}
	failure, ok := status.FromError(err)
	if !ok {
		return nil, err
	}
	if failure.Code() != code {
		return nil, fmt.Errorf("code is %s (%s), want %s", failure.Code(), failure.Message(), code)
	}
	return failure, nil
}

// HandleRPC remembers how the last reply was compressed.
func (p *peer) HandleRPC(_ context.Context, event stats.RPCStats) {
	if header, ok := event.(*stats.InHeader); ok {
		p.compression.Store(header.Compression)
	}
}

// TagRPC, TagConn and HandleConn complete the stats handler and do nothing.
func (p *peer) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (p *peer) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (p *peer) HandleConn(context.Context, stats.ConnStats)                       {}
