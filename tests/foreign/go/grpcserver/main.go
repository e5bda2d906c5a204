// Command grpcserver serves tidewire.test.v1.BehaviourService with grpc-go on one cleartext port: a
// foreign peer for Tidewire's own client. Panic is left unimplemented.
//
// Usage: grpcserver [ADDRESS [REFLECTION]]. The default is a free port on 127.0.0.1; the first line of
// output is `listening on ADDRESS`. REFLECTION is `v1` or `v1alpha`, the only version that is there;
// without it there is none.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	v1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"

	"tidewire.test/foreign/gen/behaviourv1"
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
	server := grpc.NewServer()
	behaviourv1.RegisterBehaviourServiceServer(server, behaviour{})
	if len(os.Args) > 2 {
		switch os.Args[2] {
		case "v1":
			reflection.RegisterV1(server)
		case "v1alpha":
			old := reflection.NewServer(reflection.ServerOptions{Services: server})
			v1alpha.RegisterServerReflectionServer(server, old)
		default:
			log.Fatalf("%s is not a version of reflection; there are v1 and v1alpha", os.Args[2])
		}
	}
	log.Fatal(server.Serve(listener))
}

type behaviour struct {
	behaviourv1.UnimplementedBehaviourServiceServer
}

func (behaviour) Echo(ctx context.Context, in *behaviourv1.EchoRequest) (*behaviourv1.EchoReply, error) {
	if incoming, ok := metadata.FromIncomingContext(ctx); ok {
		if ping := incoming.Get("x-ping"); len(ping) > 0 {
			if err := grpc.SetHeader(ctx, metadata.Pairs("x-pong", ping[0])); err != nil {
				return nil, err
			}
			if err := grpc.SetTrailer(ctx, metadata.Pairs("x-pong-trailer", ping[0])); err != nil {
				return nil, err
			}
		}
	}
	return &behaviourv1.EchoReply{
		Text: in.Text, Tags: in.Tags, Nested: in.Nested, Number: in.Number,
		Data: in.Data, Ratio: in.Ratio, Counts: in.Counts, At: in.At,
	}, nil
}

// Look is unavailable to callers with the header x-pushback, and says when they may come again.
func (behaviour) Look(ctx context.Context, in *behaviourv1.LookRequest) (*behaviourv1.LookReply, error) {
	if incoming, ok := metadata.FromIncomingContext(ctx); ok {
		if pushback := incoming.Get("x-pushback"); len(pushback) > 0 {
			if err := grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", pushback[0])); err != nil {
				return nil, err
			}
			return nil, status.Error(codes.Unavailable, "come again later")
		}
	}
	return &behaviourv1.LookReply{Value: "value of " + in.Key}, nil
}

func (behaviour) Count(in *behaviourv1.CountRequest, stream grpc.ServerStreamingServer[behaviourv1.CountReply]) error {
	for number := int32(1); number <= in.N; number++ {
		if in.FailAfter > 0 && number > in.FailAfter {
			return status.Errorf(codes.Aborted, "stopped after %d", in.FailAfter)
		}
		if err := stream.Send(&behaviourv1.CountReply{Number: number}); err != nil {
			return err
		}
	}
	stream.SetTrailer(metadata.Pairs("x-counted", fmt.Sprint(in.N)))
	return nil
}

func (behaviour) Sum(stream grpc.ClientStreamingServer[behaviourv1.SumRequest, behaviourv1.SumReply]) error {
	reply := &behaviourv1.SumReply{}
	for {
		request, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(reply)
		}
		if err != nil {
			return err
		}
		reply.Total += request.Value
		reply.Messages++
	}
}

func (behaviour) Chat(stream grpc.BidiStreamingServer[behaviourv1.ChatRequest, behaviourv1.ChatReply]) error {
	for {
		request, err := stream.Recv()
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

func (behaviour) Fail(ctx context.Context, in *behaviourv1.FailRequest) (*behaviourv1.FailReply, error) {
	if err := grpc.SetHeader(ctx, metadata.Pairs("x-fail", "yes")); err != nil {
		return nil, err
	}
	failure := status.New(codes.Code(in.Code), in.Message)
	if in.WithDetail {
		detailed, err := failure.WithDetails(&behaviourv1.FailDetail{Reason: "asked for", Number: in.Code})
		if err != nil {
			return nil, err
		}
		failure = detailed
	}
	return nil, failure.Err()
}

func (behaviour) Slow(ctx context.Context, in *behaviourv1.SlowRequest) (*behaviourv1.SlowReply, error) {
	select {
	case <-time.After(time.Duration(in.Millis) * time.Millisecond):
		return &behaviourv1.SlowReply{Millis: in.Millis}, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}
