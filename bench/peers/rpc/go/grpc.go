package main

import (
	"context"
	"errors"
	"io"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"rpc/rpcv1"
)

type answers struct {
	rpcv1.UnimplementedRpcServer
}

func (answers) Sum(_ context.Context, two *rpcv1.Two) (*rpcv1.One, error) {
	return &rpcv1.One{N: int64(two.A) + int64(two.B)}, nil
}

func (answers) GetUser(_ context.Context, id *rpcv1.Id) (*rpcv1.User, error) {
	return &rpcv1.User{Id: id.Id, Version: 1, CreatedAt: createdAt, ModifiedAt: createdAt + id.Id, Name: name, Email: email}, nil
}

func (answers) SayHello(_ context.Context, hello *rpcv1.Hello) (*rpcv1.Hello, error) {
	return hello, nil
}

func (answers) Items(many *rpcv1.Many, stream grpc.ServerStreamingServer[rpcv1.Item]) error {
	item := &rpcv1.Item{Data: make([]byte, many.Bytes)}
	for range many.Count {
		if err := stream.Send(item); err != nil {
			return err
		}
	}
	return nil
}

func (answers) Burn(_ context.Context, micros *rpcv1.Micros) (*rpcv1.One, error) {
	burn(micros.Micros)
	return &rpcv1.One{}, nil
}

func serveGRPC(listener net.Listener) error {
	server := grpc.NewServer(grpc.MaxConcurrentStreams(1024))
	rpcv1.RegisterRpcServer(server, answers{})
	return server.Serve(listener)
}

type overGRPC struct {
	client rpcv1.RpcClient
}

func dialGRPC(address string) caller {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	return overGRPC{rpcv1.NewRpcClient(connection)}
}

func (c overGRPC) sum(ctx context.Context, a, b int32) (int64, error) {
	one, err := c.client.Sum(ctx, &rpcv1.Two{A: a, B: b})
	return one.GetN(), err
}

func (c overGRPC) user(ctx context.Context, id int64) (int64, error) {
	user, err := c.client.GetUser(ctx, &rpcv1.Id{Id: id})
	return user.GetId(), err
}

func (c overGRPC) hello(ctx context.Context) (int32, error) {
	hello, err := c.client.SayHello(ctx, greeting())
	return hello.GetN(), err
}

func (c overGRPC) items(ctx context.Context, count, bytes uint32, each func(int) bool) error {
	items, err := c.client.Items(ctx, &rpcv1.Many{Count: count, Bytes: bytes})
	if err != nil {
		return err
	}
	for {
		item, err := items.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !each(len(item.Data)) {
			return nil
		}
	}
}

func (c overGRPC) burn(ctx context.Context, micros uint32) error {
	_, err := c.client.Burn(ctx, &rpcv1.Micros{Micros: micros})
	return err
}

func greeting() *rpcv1.Hello {
	return &rpcv1.Hello{
		Name: "it", D: 4.2, F: 4.2, B: true, N: greeted, L: 42, Choice: &rpcv1.Hello_C1{C1: "hello"},
		Pets: []*rpcv1.Pet{{Name: "Garfield", Color: "orange"}, {Name: "Snoopy", Color: "white"}},
	}
}
