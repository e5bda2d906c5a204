// Command httpcache reads a server's answers through an HTTP cache of Go, while rows are changed beside it.
//
// Usage: httpcache ADDRESS PATH...: each PATH's body holds the value of row 7, which POST /rows changes. It prints a
// line a case, "ok …" or "not ok …".
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/gregjones/httpcache"
)

func main() {
	server, paths := "http://"+os.Args[1], os.Args[2:]
	cached := httpcache.NewMemoryCacheTransport().Client()
	for _, path := range paths {
		value := 0
		for round := range 3 {
			value = 1000*(round+1) + len(path)
			write(server, value)
			body, fromCache := get(cached, server+path)
			check(path, "a change is seen", strings.Contains(body, fmt.Sprint(value)) && !fromCache, body)
			again, fromCache := get(cached, server+path)
			check(path, "what is held is confirmed", again == body && fromCache, again)
		}
	}
}

// write changes row 7, past the cache.
func write(server string, value int) {
	body := strings.NewReader(fmt.Sprintf(`{"id":"7","value":"%d"}`, value))
	response, err := http.Post(server+"/rows", "application/json", body)
	if err != nil || response.StatusCode != http.StatusOK {
		fmt.Println("not ok write:", err, response)
		os.Exit(1)
	}
	response.Body.Close()
}

// get returns the body, and whether the cache gave it.
func get(client *http.Client, url string) (string, bool) {
	response, err := client.Get(url)
	if err != nil {
		return err.Error(), false
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error(), false
	}
	return string(body), response.Header.Get(httpcache.XFromCache) == "1"
}

func check(path, what string, holds bool, body string) {
	if holds {
		fmt.Printf("ok %s: %s\n", path, what)
	} else {
		fmt.Printf("not ok %s: %s, but %.80s\n", path, what, body)
	}
}
