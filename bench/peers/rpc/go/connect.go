package main

import (
	"context"
	"net"
	"net/http"

	"connectrpc.com/connect"

	"rpc/rpcv1"
	"rpc/rpcv1/rpcv1connect"
)

type handlers struct {
	answers answers
}

func (h handlers) Sum(ctx context.Context, r *connect.Request[rpcv1.Two]) (*connect.Response[rpcv1.One], error) {
	return response(h.answers.Sum(ctx, r.Msg))
}

func (h handlers) GetUser(ctx context.Context, r *connect.Request[rpcv1.Id]) (*connect.Response[rpcv1.User], error) {
	return response(h.answers.GetUser(ctx, r.Msg))
}

func (h handlers) SayHello(ctx context.Context, r *connect.Request[rpcv1.Hello]) (*connect.Response[rpcv1.Hello], error) {
	return response(h.answers.SayHello(ctx, r.Msg))
}

func (handlers) Items(_ context.Context, r *connect.Request[rpcv1.Many], stream *connect.ServerStream[rpcv1.Item]) error {
	item := &rpcv1.Item{Data: make([]byte, r.Msg.Bytes)}
	for range r.Msg.Count {
		if err := stream.Send(item); err != nil {
			return err
		}
	}
	return nil
}

func (h handlers) Burn(ctx context.Context, r *connect.Request[rpcv1.Micros]) (*connect.Response[rpcv1.One], error) {
	return response(h.answers.Burn(ctx, r.Msg))
}

func response[T any](message *T, err error) (*connect.Response[T], error) {
	return connect.NewResponse(message), err
}

func serveConnect(listener net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle(rpcv1connect.NewRpcHandler(handlers{}))
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return (&http.Server{Handler: mux, Protocols: protocols}).Serve(listener)
}

type overConnect struct {
	client rpcv1connect.RpcClient
}

// JSON over HTTP/1.1, with as many connections kept as calls are under way.
func dialConnect(address string) caller {
	transport := &http.Transport{MaxIdleConns: 1024, MaxIdleConnsPerHost: 1024}
	client := rpcv1connect.NewRpcClient(&http.Client{Transport: transport}, "http://"+address, connect.WithProtoJSON())
	return overConnect{client}
}

func (c overConnect) sum(ctx context.Context, a, b int32) (int64, error) {
	one, err := c.client.Sum(ctx, connect.NewRequest(&rpcv1.Two{A: a, B: b}))
	if err != nil {
		return 0, err
	}
	return one.Msg.N, nil
}

func (c overConnect) user(ctx context.Context, id int64) (int64, error) {
	user, err := c.client.GetUser(ctx, connect.NewRequest(&rpcv1.Id{Id: id}))
	if err != nil {
		return 0, err
	}
	return user.Msg.Id, nil
}

func (c overConnect) hello(ctx context.Context) (int32, error) {
	hello, err := c.client.SayHello(ctx, connect.NewRequest(greeting()))
	if err != nil {
		return 0, err
	}
	return hello.Msg.N, nil
}

func (c overConnect) items(ctx context.Context, count, bytes uint32, each func(int) bool) error {
	items, err := c.client.Items(ctx, connect.NewRequest(&rpcv1.Many{Count: count, Bytes: bytes}))
	if err != nil {
		return err
	}
	for items.Receive() {
		if !each(len(items.Msg().Data)) {
			return items.Close()
		}
	}
	return items.Err()
}

func (c overConnect) burn(ctx context.Context, micros uint32) error {
	_, err := c.client.Burn(ctx, connect.NewRequest(&rpcv1.Micros{Micros: micros}))
	return err
}
