// Command mock answers hello.v1.Greeter/SayHello with one message that never changes, as a server that
// somebody wrote in place of a mock: with connect-go, or with grpc-go. It prints its address first.
//
// Usage: mock connect|grpc
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"

	"connectrpc.com/connect"
	"google.golang.org/grpc"

	"protocols/hello"
	"protocols/hello/helloconnect"
)

var reply = &hello.Hello{Name: "Hello from a mock", N: 42}

type overConnect struct {
	helloconnect.UnimplementedGreeterHandler
}

func (overConnect) SayHello(context.Context, *connect.Request[hello.Hello]) (*connect.Response[hello.Hello], error) {
	return connect.NewResponse(reply), nil
}

type overGRPC struct {
	hello.UnimplementedGreeterServer
}

func (overGRPC) SayHello(context.Context, *hello.Hello) (*hello.Hello, error) {
	return reply, nil
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: mock connect|grpc")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	if os.Args[1] == "grpc" {
		server := grpc.NewServer()
		hello.RegisterGreeterServer(server, overGRPC{})
		log.Fatal(server.Serve(listener))
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	mux := http.NewServeMux()
	mux.Handle(helloconnect.NewGreeterHandler(overConnect{}))
	server := &http.Server{Handler: mux, Protocols: protocols}
	log.Fatal(server.Serve(listener))
}
