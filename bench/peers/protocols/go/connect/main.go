// Command connect is connect-go with generated code on net/http, which speaks HTTP/1.1 and HTTP/2 without TLS.
// First line of output is the address.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"

	"connectrpc.com/connect"

	"protocols/hello"
	"protocols/hello/helloconnect"
)

type greeter struct{}

func (greeter) SayHello(_ context.Context, request *connect.Request[hello.Hello]) (*connect.Response[hello.Hello], error) {
	return connect.NewResponse(request.Msg), nil
}

func (greeter) LookHello(_ context.Context, request *connect.Request[hello.Hello]) (*connect.Response[hello.Hello], error) {
	return connect.NewResponse(request.Msg), nil
}

func main() {
	mux := http.NewServeMux()
	mux.Handle(helloconnect.NewGreeterHandler(greeter{}))
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: mux, Protocols: protocols}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	panic(server.Serve(listener))
}
