// Command rpc-go is grpc-go with protobuf, and connect-go with JSON, as its guide says to use it:
//
//	rpc-go serve grpc|connect                                             prints the address as its first line
//	rpc-go load grpc|connect ADDRESS CASE SECONDS WARM_UP CONNECTIONS     prints one line of JSON with what it counted
package main

import (
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
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

// By the thread's own time, as the other servers do.
func burn(micros uint32) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for until := computed() + int64(micros)*1000; computed() < until; {
	}
}

// For how many nanoseconds this thread had a core.
func computed() int64 {
	var time unix.Timespec
	check(unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &time))
	return time.Nano()
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
