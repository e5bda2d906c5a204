// The worker in Go: `pipe` serves methods on the inherited socket, `http` net/http on descriptor 3.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"

	tidewire "tidewire.dev/go"
)

type name struct {
	Name string `json:"name"`
}

type greeting struct {
	Text string `json:"text"`
	PID  int    `json:"pid"`
}

func greet(_ *tidewire.Context, request name) (greeting, error) {
	return greeting{"Hello, " + request.Name, os.Getpid()}, nil
}

func main() {
	if os.Args[1] == "http" {
		text := fmt.Sprintf(`{"text":"Hello, Ada","pid":%d}`, os.Getpid())
		listener, err := net.FileListener(os.NewFile(3, "socket"))
		if err != nil {
			log.Fatal(err)
		}
		log.Fatal(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(text)))
			fmt.Fprint(w, text)
		})))
	}
	app := tidewire.New()
	tidewire.Unary(app, "hosting.v1.Greeter/Greet", greet)
	tidewire.Unary(app, "hosting.v1.Greeter/Kept", func(c *tidewire.Context, request name) (greeting, error) {
		c.Depends("names", request.Name)
		return greet(c, request)
	})
	if err := app.Serve(); err != nil {
		log.Fatal(err)
	}
}
