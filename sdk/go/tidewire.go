// Package tidewire serves methods and pages behind a Tidewire gateway, by nothing but the standard library.
//
//	app := tidewire.New()
//	tidewire.Unary(app, "shop.v1.Shop/GetItem", func(c *tidewire.Context, request ItemRequest) (Item, error) {
//		c.Depends("items", request.ID) // the answer is kept until this item changes
//		return Item{Name: "tea"}, nil
//	})
//	if err := app.Serve(); err != nil {
//		log.Fatal(err)
//	}
//
// The gateway starts the program, passes calls on a socket that it inherits (TIDEWIRE_FD), and ends it. Each call
// is answered in a goroutine. Messages are structs as JSON where tidewire.toml says codec = "json"; else they are
// []byte, or what App.Marshal and App.Unmarshal make of them. What a program prints is in the gateway's log.
package tidewire

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Version of this package.
const Version = "0.1.0"

var codes = strings.Fields("ok canceled unknown invalid_argument deadline_exceeded not_found already_exists " +
	"permission_denied resource_exhausted failed_precondition aborted out_of_range unimplemented internal " +
	"unavailable data_loss unauthenticated")

// What is known of a call that has no answer; 0 for the answer of a handler.
const (
	NotRun  = 1
	Unknown = 2
	Ran     = 3
	Behind  = 4
)

// Header is a name and a value.
type Header struct{ Name, Value string }

// Detail is an encoded message that goes with an error.
type Detail struct {
	Type  string
	Value []byte
}

// Error is why a call failed: returned by handlers for their callers, and by calls of the gateway.
type Error struct {
	Code, Message     string
	Details           []Detail
	Headers, Trailers []Header
	Outcome           int
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Errorf is an error with a code, such as "not_found".
func Errorf(code, format string, values ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, values...)}
}

// App is what a program serves.
type App struct {
	// Marshal and Unmarshal are for messages in protobuf that are no []byte: proto.Marshal, proto.Unmarshal.
	Marshal   func(message any) ([]byte, error)
	Unmarshal func(data []byte, message any) error

	lock      sync.Mutex
	session   *session
	socket    net.Conn
	handlers  map[string]func(*Context) error
	pages     http.Handler
	isWriting bool
	taken     *sync.Cond // What was to be written is taken, or lost.
	jobs      uint64
}

// New serves nothing yet.
func New() *App {
	a := &App{handlers: map[string]func(*Context) error{}}
	a.taken = sync.NewCond(&a.lock)
	a.session = newSession("tidewire-go/"+Version, func(call *stream) { go a.answer(call) }, &a.lock)
	return a
}

// answer is what a reply says beside its message.
type answer struct {
	headers, trailers []Header
	depends           [][]string
	status            int
	maxAge            uint64
}

// Context is a call: who asks, until when, and what the answer is made of. It ends when the caller gives up, its
// deadline passed among the reasons; a command runs on.
type Context struct {
	context.Context
	app  *App
	call *stream
	said answer
}

// Header is the first value of a header.
func (c *Context) Header(name string) string {
	for _, header := range c.call.headers {
		if header.Name == strings.ToLower(name) {
			return header.Value
		}
	}
	return ""
}

// AddHeader adds a header to the reply.
func (c *Context) AddHeader(name, value string) {
	c.said.headers = append(c.said.headers, Header{name, value})
}

// AddTrailer adds a trailer to the reply.
func (c *Context) AddTrailer(name, value string) {
	c.said.trailers = append(c.said.trailers, Header{name, value})
}

// Depends says that the answer was made of this: it is kept until that changes.
func (c *Context) Depends(source string, key ...any) {
	c.said.depends = append(c.said.depends, []string{strings.ToValidUTF8(source, "\uFFFD"), KeyText(key...)})
}

// Changed says that this changed: whoever asks after this call is answered sees it.
func (c *Context) Changed(source string, key ...any) { c.app.Changed(source, key...) }

// Log writes a line to the gateway's log.
func (c *Context) Log(level, text string, fields ...Header) { c.app.Log(level, text, fields...) }

// Call calls a method of the gateway as part of this call; see App.Call.
func (c *Context) Call(path string, request, reply any, how ...Option) error {
	return c.app.ask(c, c.call, path, request, reply, how)
}

type options struct {
	query   bool
	headers []Header
}

// Option is how a call of the gateway is made.
type Option func(*options)

// Query is for methods that change nothing.
func Query(o *options) { o.query = true }

// WithHeader adds a header to a call.
func WithHeader(name, value string) Option {
	return func(o *options) { o.headers = append(o.headers, Header{name, value}) }
}

func (a *App) decode(data []byte, codec byte, into any) error {
	switch bytes, isBytes := into.(*[]byte); {
	case isBytes:
		*bytes = data
		return nil
	case codec == 1:
		return json.Unmarshal(data, into)
	case a.Unmarshal == nil:
		return fmt.Errorf("no App.Unmarshal for %T; write codec = \"json\" for this service in tidewire.toml", into)
	}
	return a.Unmarshal(data, into)
}

func (a *App) encode(message any, codec byte) ([]byte, error) {
	switch bytes, isBytes := message.([]byte); {
	case isBytes:
		return bytes, nil
	case codec == 1:
		return json.Marshal(message)
	case a.Marshal == nil:
		return nil, fmt.Errorf("no App.Marshal for %T; write codec = \"json\" for this service in tidewire.toml", message)
	}
	return a.Marshal(message)
}

// KeyText is the key of a source as text: its parts joined by a slash.
func KeyText(parts ...any) string {
	texts := make([]string, len(parts))
	for at, part := range parts {
		switch part := part.(type) {
		case nil:
			texts[at] = "%_"
		case []byte:
			texts[at] = hex.EncodeToString(part)
		default:
			texts[at] = strings.ReplaceAll(strings.ReplaceAll(fmt.Sprint(part), "%", "%25"), "/", "%2F")
		}
	}
	return strings.ToValidUTF8(strings.Join(texts, "/"), "\uFFFD")
}

// Unary serves a method with one request and one reply.
func Unary[Request, Reply any](a *App, path string, f func(*Context, Request) (Reply, error)) {
	a.register(path, func(c *Context) error {
		request, err := whole[Request](c)
		if err != nil {
			return err
		}
		reply, err := f(c, request)
		return c.reply(reply, err)
	})
}

// ServerStream serves a method that sends replies; send fails once the caller gave up.
func ServerStream[Request, Reply any](a *App, path string, f func(c *Context, request Request, send func(Reply) error) error) {
	a.register(path, func(c *Context) error {
		request, err := whole[Request](c)
		if err != nil {
			return err
		}
		return c.finish(f(c, request, func(reply Reply) error { return c.send(reply) }))
	})
}

// Requests are what a caller streams.
type Requests[Request any] struct{ c *Context }

// Next waits for the next request; io.EOF after the last.
func (r *Requests[Request]) Next() (request Request, err error) {
	data, err := r.c.app.next(r.c.call)
	if err == nil {
		err = r.c.app.decode(data, r.c.call.codec, &request)
	}
	return request, err
}

// ClientStream serves a method that is sent many requests.
func ClientStream[Request, Reply any](a *App, path string, f func(*Context, *Requests[Request]) (Reply, error)) {
	a.register(path, func(c *Context) error {
		reply, err := f(c, &Requests[Request]{c})
		return c.reply(reply, err)
	})
}

// BidiStream serves a method that is sent many requests, and sends replies.
func BidiStream[Request, Reply any](a *App, path string, f func(c *Context, requests *Requests[Request], send func(Reply) error) error) {
	a.register(path, func(c *Context) error {
		return c.finish(f(c, &Requests[Request]{c}, func(reply Reply) error { return c.send(reply) }))
	})
}

// Handle serves the pages of the program's route.
func (a *App) Handle(pages http.Handler) { a.pages = pages }

func (a *App) register(path string, run func(*Context) error) {
	a.handlers[strings.TrimPrefix(path, "/")] = run
}

func whole[Request any](c *Context) (request Request, err error) {
	data := c.call.payload
	if c.call.isStreaming {
		if data, err = c.app.next(c.call); err != nil {
			return request, err
		}
	}
	return request, c.app.decode(data, c.call.codec, &request)
}

func (c *Context) reply(message any, err error) error {
	if err != nil {
		return err
	}
	data, err := c.app.encode(message, c.call.codec)
	if err == nil {
		c.app.do(func(s *session) { s.reply(c.call, data, c.said) })
	}
	return err
}

func (c *Context) send(message any) error {
	data, err := c.app.encode(message, c.call.codec)
	if err != nil {
		return err
	}
	return c.app.push(c.call, data, c.said)
}

func (c *Context) finish(err error) error {
	if err == nil {
		c.app.do(func(s *session) {
			s.open(c.call, answer{headers: c.said.headers, depends: c.said.depends, status: c.said.status})
			s.finish(c.call, c.said.trailers)
		})
	}
	return err
}

// Changed says that a source changed: no answer that was made of it is given any more. It panics where both are over
// 64 KiB, as they cannot be sent.
func (a *App) Changed(source string, key ...any) {
	payload := putString(putString(nil, strings.ToValidUTF8(source, "\uFFFD")), KeyText(key...))
	if len(payload) > payloadMax {
		panic(fmt.Sprintf("a source and its key of %d bytes are over %d", len(payload), payloadMax))
	}
	a.do(func(s *session) { s.main = putFrame(s.main, kChanged, 0, 0, nil, payload, 0) })
}

// Log writes a line to the gateway's log: trace, debug, info, warn or error.
func (a *App) Log(level, text string, fields ...Header) {
	number := uint64(3)
	for at, name := range []string{"trace", "debug", "info", "warn", "error"} {
		if name == level {
			number = uint64(at + 1)
		}
	}
	metadata := putHeaders(putNumber(nil, 17, number), fields)
	a.do(func(s *session) {
		if uint64(len(metadata)) > s.peer.metadata {
			metadata = putNumber(nil, 17, number)
		}
		s.main = putFrame(s.main, kLog, 0, 0, metadata, []byte(cut(text, payloadMax)), 0)
	})
}

// Busy says that work begins that is no call: until the function that it returns is called the program is neither
// frozen nor ended.
func (a *App) Busy() (done func()) {
	count := func(more uint64) {
		a.do(func(s *session) {
			a.jobs += more
			s.main = putFrame(s.main, kBusy, 0, 0, nil, putVarint(nil, a.jobs), 0)
		})
	}
	count(1)
	return sync.OnceFunc(func() { count(^uint64(0)) })
}

// Call calls a method of the gateway; request and reply are []byte, or structs for JSON.
func (a *App) Call(ctx context.Context, path string, request, reply any, how ...Option) error {
	return a.ask(ctx, nil, path, request, reply, how)
}

func (a *App) ask(ctx context.Context, parent *stream, path string, request, reply any, how []Option) error {
	var o options
	for _, set := range how {
		set(&o)
	}
	codec := byte(1)
	if _, isBytes := request.([]byte); isBytes || a.Marshal != nil {
		codec = 0
	}
	data, err := a.encode(request, codec)
	if err != nil {
		return err
	}
	deadline, _ := ctx.Deadline()
	var call *stream
	a.do(func(s *session) {
		within := uint32(0)
		if parent != nil && parent.isOpen && !parent.hasHead {
			within = parent.number
		}
		call, err = s.ask(strings.TrimPrefix(path, "/"), codec, data, within, deadline, o)
	})
	if err != nil {
		return err
	}
	for isOpen := true; isOpen; {
		select {
		case <-call.heard:
			a.do(func(s *session) {
				isOpen = call.isOpen
				if len(call.items) > 1 {
					s.cancel(call)
					err = &Error{Code: "unimplemented", Message: path + " streams its replies", Outcome: Unknown}
				}
			})
			if err != nil {
				return err
			}
		case <-ctx.Done():
			a.do(func(s *session) { s.cancel(call) })
			return ctx.Err()
		}
	}
	if call.failure != nil {
		return call.failure
	}
	if len(call.items) > 0 {
		return a.decode(call.items[0].data, codec, reply)
	}
	return a.decode(call.payload, codec, reply)
}

// do does something under the lock, and writes what arose.
func (a *App) do(what func(*session)) {
	if a.update(what) {
		a.write()
	}
}

// update does something under the lock; whether it is to be written by who asks.
func (a *App) update(what func(*session)) bool {
	a.lock.Lock()
	defer a.lock.Unlock()
	what(a.session)
	isFree := !a.isWriting && a.socket != nil
	a.isWriting = a.isWriting || isFree
	return isFree
}

// write writes what is queued, for all goroutines.
func (a *App) write() {
	a.lock.Lock()
	defer a.lock.Unlock()
	for data := a.session.take(); len(data) > 0; data = a.session.take() {
		a.taken.Broadcast()
		a.lock.Unlock()
		_, err := a.socket.Write(data)
		a.lock.Lock()
		if err != nil {
			a.session.close(err.Error())
			break
		}
	}
	a.isWriting = false
	a.taken.Broadcast()
}

var errGone = &Error{Code: "canceled", Message: gaveUp}

// next waits for the next item of a call.
func (a *App) next(call *stream) (data []byte, err error) {
	for {
		isThere := false
		a.do(func(s *session) {
			switch {
			case len(call.items) > 0:
				data, isThere = s.takeItem(call), true
			case call.isWhole:
				err = io.EOF
			case !call.isOpen:
				err = errGone
			}
		})
		if isThere || err != nil {
			return data, err
		}
		<-call.heard
	}
}

// push sends an item, once there is room for it.
func (a *App) push(call *stream, data []byte, said answer) error {
	for {
		isSent, isOver := false, false
		a.do(func(s *session) {
			if isOver = !call.isOpen; !isOver && call.queued < queuedMax {
				s.open(call, answer{headers: said.headers, depends: said.depends, status: said.status})
				s.push(call, data)
				isSent = true
			}
		})
		if isOver {
			return errGone
		}
		if isSent {
			return nil
		}
		<-call.room
	}
}

// Serve serves until the gateway ends the program.
func (a *App) Serve() error {
	number, err := strconv.Atoi(os.Getenv("TIDEWIRE_FD"))
	if err != nil {
		return errors.New("this program is started by Tidewire: write a [[service]] with run = [...] into tidewire.toml, " +
			"and call it through `tidewire serve`")
	}
	os.Unsetenv("TIDEWIRE_FD")
	file := os.NewFile(uintptr(number), "tidewire")
	socket, err := net.FileConn(file)
	file.Close()
	if err != nil {
		return err
	}
	a.do(func(*session) { a.socket = socket })
	buffer := make([]byte, 64<<10)
	for {
		count, err := a.socket.Read(buffer)
		isFree := a.update(func(s *session) {
			s.feed(buffer[:count])
			if err != nil {
				s.close("it closed the socket")
			}
		})
		if isFree {
			go a.write() // A gateway that does not read must not keep this side from reading.
		}
		if a.isOver() {
			return nil
		}
	}
}

// isOver waits until there is room to be read more, or until the last word is written.
func (a *App) isOver() bool {
	a.lock.Lock()
	defer a.lock.Unlock()
	s := a.session
	for s.closed == "" && s.isFull() {
		a.taken.Wait()
	}
	isOver := s.closed != "" || s.isDraining && len(s.calls)+len(s.asked) == 0
	if isOver {
		_ = a.socket.SetWriteDeadline(time.Now().Add(grace))
		for a.isWriting {
			a.taken.Wait()
		}
	}
	return isOver
}

func (a *App) answer(call *stream) {
	ctx, cancel := context.WithCancel(context.Background())
	if !call.deadline.IsZero() {
		ctx, cancel = context.WithDeadline(context.Background(), call.deadline)
	}
	defer cancel()
	a.lock.Lock()
	call.cancel = cancel
	isGone := call.isCancelled && !call.isOpen
	served, isServed := a.handlers[call.path]
	a.lock.Unlock()
	if isGone {
		return
	}
	c := &Context{Context: ctx, app: a, call: call}
	defer func() {
		if caught := recover(); caught != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", caught, debug.Stack())
			a.failed(c, errors.New("a panic"))
		}
	}()
	switch {
	case call.verb != "" && a.pages != nil:
		a.page(c)
	case call.verb != "" || !isServed:
		a.failed(c, &Error{Code: "unimplemented", Message: "this program does not serve " + call.path, Outcome: NotRun})
	default:
		if err := served(c); err != nil {
			a.failed(c, err)
		}
	}
}

// failed tells the caller why a handler failed.
func (a *App) failed(c *Context, err error) {
	var failed *Error
	if !errors.As(err, &failed) {
		if !errors.Is(err, context.Canceled) && err.Error() != "a panic" {
			fmt.Fprintln(os.Stderr, "the handler of", c.call.path, "failed:", err)
		}
		failed = Errorf("internal", "the handler failed; its log says why")
	}
	a.do(func(s *session) { s.fail(c.call, failed, c.said.depends) })
}

// -------------------------------------------------------------------------------------------------- pages

// body is that of a request, as net/http reads it.
type body struct {
	a    *App
	call *stream
	rest []byte
}

func (b *body) Read(into []byte) (int, error) {
	for len(b.rest) == 0 {
		next, err := b.a.next(b.call)
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
		if err := w.c.app.push(w.c.call, append([]byte(nil), data...), w.c.said); err != nil {
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
	request, err := http.NewRequestWithContext(c, c.call.verb, c.call.path, &body{a: a, call: c.call, rest: c.call.payload})
	if err != nil {
		a.failed(c, Errorf("invalid_argument", "no request: %v", err))
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
	a.pages.ServeHTTP(w, request)
	w.WriteHeader(http.StatusOK)
	_ = c.finish(nil)
}
