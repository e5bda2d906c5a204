// Command grpc is grpc-go with generated code. First line of output is the address.
package main

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"

	"protocols/hello"
)

type greeter struct {
	hello.UnimplementedGreeterServer
}

func (greeter) SayHello(_ context.Context, request *hello.Hello) (*hello.Hello, error) {
	return request, nil
}

func (greeter) LookHello(_ context.Context, request *hello.Hello) (*hello.Hello, error) {
	return request, nil
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer()
	hello.RegisterGreeterServer(server, greeter{})
	fmt.Println(listener.Addr())
	panic(server.Serve(listener))
}
