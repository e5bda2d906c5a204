// Command rpc-go is grpc-go with protobuf, and connect-go with JSON, as its guide says to use it:
//
//	rpc-go serve grpc|connect                                             prints the address as its first line
//	rpc-go load grpc|connect ADDRESS CASE SECONDS WARM_UP CONNECTIONS     prints one line of JSON with what it counted
package main

import (
	"fmt"
	"net"
	"os"
	"time"
)

// What is asked and answered, the same for every way.
const (
	users     = 1000
	name      = "Adalbert Lovelace"
	email     = "adalbert.lovelace@example.com"
	createdAt = 1_780_000_000
	greeted   = 42
)

func main() {
	words := os.Args[1:]
	if len(words) == 2 && words[0] == "serve" {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		check(err)
		fmt.Println(listener.Addr())
		check(map[string]func(net.Listener) error{"grpc": serveGRPC, "connect": serveConnect}[words[1]](listener))
		return
	}
	if len(words) != 7 || words[0] != "load" {
		fmt.Fprintln(os.Stderr, "usage: rpc-go serve|load, as its source says")
		os.Exit(2)
	}
	connect := map[string]func(string) caller{"grpc": dialGRPC, "connect": dialConnect}[words[1]]
	fmt.Println(measure(connect, words[2], words[3], seconds(words[4]), seconds(words[5]), words[6]))
}

func burn(micros uint32) {
	for until := time.Now().Add(time.Duration(micros) * time.Microsecond); time.Now().Before(until); {
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
