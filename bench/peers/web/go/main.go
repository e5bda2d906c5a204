// Command web is Go's net/http as its documentation writes it. First line of output is the address.
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
)

type message struct {
	Message string `json:"message"`
}

func plaintext(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	w.Write([]byte("Hello, World!"))
}

func says(w http.ResponseWriter, _ *http.Request) {
	body, _ := json.Marshal(message{"Hello World!"})
	w.Header().Set("Content-Type", "application/json")
	w.Write(body)
}

func methodPlaintext(w http.ResponseWriter, r *http.Request) {
	_ = r.FormValue("name")
	w.Header().Set("Content-Type", "text/plain")
	w.Write([]byte("Hello World!"))
}

func methodJSON(w http.ResponseWriter, r *http.Request) {
	_ = r.FormValue("name")
	says(w, r)
}

func main() {
	http.HandleFunc("GET /plaintext", plaintext)
	http.HandleFunc("GET /json", says)
	http.HandleFunc("GET /method/plaintext", methodPlaintext)
	http.HandleFunc("GET /method/json", methodJSON)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	panic(http.Serve(listener, nil))
}
