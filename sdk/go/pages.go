package tidewire

// Pages of the program's route, by a handler of net/http.

import (
	"bytes"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// body is that of a request, as net/http reads it.
type body struct {
	c    *Context
	rest []byte
}

func (b *body) Read(into []byte) (int, error) {
	for len(b.rest) == 0 {
		next, err := b.c.next()
		if err != nil {
			return 0, err
		}
		b.rest = next
	}
	count := copy(into, b.rest)
	b.rest = b.rest[count:]
	return count, nil
}

func (b *body) Close() error { return nil }

// writer is the answer to a page.
type writer struct {
	c      *Context
	header http.Header
	err    error
}

func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(status int) {
	if status == http.StatusSwitchingProtocols {
		panic("101 is no status of an answer: nobody switches")
	}
	if w.c.said.status > 0 || status < 200 {
		return
	}
	w.c.said.status = status
	for name, values := range w.header {
		for _, value := range values {
			w.c.AddHeader(name, value)
		}
	}
}

func (w *writer) Write(data []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if len(data) > 0 {
		if err := w.c.push(bytes.Clone(data)); err != nil {
			return 0, err
		}
	}
	return len(data), nil
}

// Flush is there for handlers that stream: what is written leaves at once.
func (w *writer) Flush() {}

// remote is the address of a caller in the form of net/http, with port 0 where it is not told.
func remote(forwarded string) string {
	first, _, _ := strings.Cut(forwarded, ",")
	if _, _, err := net.SplitHostPort(first); err == nil || first == "" {
		return first
	}
	return net.JoinHostPort(strings.Trim(first, "[] "), "0")
}

func (a *App) page(c *Context) {
	request, err := http.NewRequestWithContext(c, c.call.verb, c.call.path, &body{c, c.call.payload})
	if err != nil {
		a.failed(c, Errorf(InvalidArgument, "no request: %v", err))
		return
	}
	request.RequestURI = c.call.path
	for _, header := range c.call.headers {
		if header.Name == "host" {
			request.Host = header.Value
		} else {
			request.Header.Add(header.Name, header.Value)
		}
	}
	request.RemoteAddr = remote(request.Header.Get("X-Forwarded-For"))
	request.ContentLength = -1
	if length, err := strconv.ParseInt(request.Header.Get("Content-Length"), 10, 64); err == nil {
		request.ContentLength = length
	}
	w := &writer{c: c, header: http.Header{}}
	if request.Header.Get("Sec-WebSocket-Version") != "" {
		// A page cannot switch; a program of plain HTTP can.
		w.WriteHeader(http.StatusNotImplemented)
		_ = c.finish(nil)
		return
	}
	a.pages.ServeHTTP(w, request)
	w.WriteHeader(http.StatusOK)
	if err := c.finish(nil); err != nil {
		a.failed(c, err)
	}
}
