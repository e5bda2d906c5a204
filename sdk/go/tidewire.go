// Package tidewire serves methods and pages behind a Tidewire gateway, by nothing but the standard library.
//
//	app := tidewire.New()
//	tidewire.Unary(app, "shop.v1.Shop/GetItem", func(c *tidewire.Context, request ItemRequest) (Item, error) {
//		c.Depends("items", request.ID) // the answer is kept until this item changes, or for 5 s: see the guide
//		return Item{Name: "tea"}, nil
//	})
//	if err := app.Serve(); err != nil {
//		log.Fatal(err)
//	}
//
// The gateway starts the program, passes calls on a socket that it inherits (TIDEWIRE_FD), and ends it. Each call
// is answered in a goroutine. Messages are structs as JSON where tidewire.toml says codec = "json"; else they are
// []byte, or what App.Marshal and App.Unmarshal make of them. With tidewire.dev/go/protobuf they are types that
// protoc-gen-go has made. What a program prints is in the gateway's log.
package tidewire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Version of this package.
const Version = "0.1.0"

// Header is a name and a value.
type Header struct{ Name, Value string }

// App is what a program serves.
type App struct {
	// Marshal and Unmarshal are for messages in protobuf that are no []byte; those of tidewire.dev/go/protobuf take
	// types that protoc-gen-go has made. Unmarshal fills a message that exists: a *T also where a handler takes *T.
	// What Marshal refuses with errors.ErrUnsupported goes into a call of the gateway as JSON.
	Marshal   func(message any) ([]byte, error)
	Unmarshal func(data []byte, message any) error
	// MarshalJSON and UnmarshalJSON are for messages in JSON; those of encoding/json where they are nil.
	MarshalJSON   func(message any) ([]byte, error)
	UnmarshalJSON func(data []byte, message any) error

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
	a.session = newSession("tidewire-go/"+Version, a.begin, &a.lock)
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
// deadline passed among the reasons; a command with one reply runs on, and no command has a deadline.
type Context struct {
	context.Context
	app  *App
	call *stream
	said answer
	test *TestCall // nil behind a gateway
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

// AddTrailer adds a trailer to the reply, or to the error in its place.
func (c *Context) AddTrailer(name, value string) {
	c.said.trailers = append(c.said.trailers, Header{name, value})
}

// Depends says that the answer was made of this: it is kept until that changes, but 5 s at most where the gateway cannot
// know that nobody else changes it (memo.single_writer). See [KeyText] for what keys are.
func (c *Context) Depends(source string, key ...any) {
	c.said.depends = append(c.said.depends, []string{unicodeOf(source), KeyText(key...)})
}

// Changed says that this changed: whoever asks after this call is answered sees it.
func (c *Context) Changed(source string, key ...any) {
	if c.test != nil {
		c.test.sayChanged(source, key)
		return
	}
	c.app.Changed(source, key...)
}

// Log writes a line to the gateway's log.
func (c *Context) Log(level, text string, fields ...Header) {
	if c.test != nil {
		c.test.log(level, text, fields)
		return
	}
	c.app.Log(level, text, fields...)
}

// Call calls a method of the gateway as part of this call; see App.Call.
func (c *Context) Call(path string, request, reply any, how ...Option) error {
	if c.test != nil {
		return c.test.ask(c, path, request, reply)
	}
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
	if bytes, isBytes := into.(*[]byte); isBytes {
		*bytes = data
		return nil
	}
	into = filled(into)
	switch {
	case codec == 1 && a.UnmarshalJSON != nil:
		return a.UnmarshalJSON(data, into)
	case codec == 1:
		return json.Unmarshal(data, into)
	case a.Unmarshal == nil:
		return fmt.Errorf("there is no App.Unmarshal for %T; %s", into, useProtobuf)
	}
	return a.Unmarshal(data, into)
}

// filled is the message to read into: of a pointer to a pointer that one, which points to a message then.
func filled(into any) any {
	value := reflect.ValueOf(into)
	if value.Kind() != reflect.Pointer || value.Type().Elem().Kind() != reflect.Pointer || value.IsNil() {
		return into
	}
	if value = value.Elem(); value.IsNil() {
		value.Set(reflect.New(value.Type().Elem()))
	}
	return value.Interface()
}

// useProtobuf is what a program does that takes messages of protobuf as what they are not.
const useProtobuf = `call protobuf.Use of tidewire.dev/go/protobuf, ` +
	`or write codec = "json" for this service in tidewire.toml`

func (a *App) encode(message any, codec byte) ([]byte, error) {
	switch bytes, isBytes := message.([]byte); {
	case isBytes:
		return bytes, nil
	case codec == 1 && a.MarshalJSON != nil:
		return a.MarshalJSON(message)
	case codec == 1:
		return json.Marshal(message)
	case a.Marshal == nil:
		return nil, fmt.Errorf("there is no App.Marshal for %T; %s", message, useProtobuf)
	}
	return a.Marshal(message)
}

// encodeCall encodes the request of a call of the gateway, and says in which codec.
func (a *App) encodeCall(request any) ([]byte, byte, error) {
	if _, isBytes := request.([]byte); isBytes || a.Marshal != nil {
		if data, err := a.encode(request, 0); !errors.Is(err, errors.ErrUnsupported) {
			return data, 0, err
		}
	}
	data, err := a.encode(request, 1)
	return data, 1, err
}

// Unary serves a method with one request and one reply. A path that is served already is a panic, here and below.
func Unary[Request, Reply any](a *App, path string, f func(*Context, Request) (Reply, error)) {
	a.register(path, func(c *Context) error {
		request, err := whole[Request](c)
		if err == nil && c.call.command > 0 {
			err = c.begins()
		}
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
type Requests[Request any] struct{ next func() (Request, error) }

// Next waits for the next request; io.EOF after the last.
func (r *Requests[Request]) Next() (Request, error) { return r.next() }

func requestsOf[Request any](c *Context) *Requests[Request] {
	return &Requests[Request]{func() (request Request, err error) {
		data, err := c.next()
		if err == nil {
			err = c.read(data, &request)
		}
		return request, err
	}}
}

// ClientStream serves a method that is sent many requests.
func ClientStream[Request, Reply any](a *App, path string, f func(*Context, *Requests[Request]) (Reply, error)) {
	a.register(path, func(c *Context) error {
		reply, err := f(c, requestsOf[Request](c))
		return c.reply(reply, err)
	})
}

// BidiStream serves a method that is sent many requests, and sends replies.
func BidiStream[Request, Reply any](a *App, path string, f func(c *Context, requests *Requests[Request], send func(Reply) error) error) {
	a.register(path, func(c *Context) error {
		return c.finish(f(c, requestsOf[Request](c), func(reply Reply) error { return c.send(reply) }))
	})
}

// Handle serves the pages of the program's route.
func (a *App) Handle(pages http.Handler) { a.pages = pages }

func (a *App) register(path string, run func(*Context) error) {
	path = strings.TrimPrefix(path, "/")
	if a.handlers[path] != nil {
		panic(path + " is served twice")
	}
	a.handlers[path] = run
}

func whole[Request any](c *Context) (request Request, err error) {
	data := c.call.payload
	if c.call.isStreaming {
		if data, err = c.next(); err != nil {
			return request, err
		}
	}
	return request, c.read(data, &request)
}

// read decodes a request: bytes that are no message are its caller's mistake; JSON, which the gateway has looked at, and
// messages without a function that reads them are the program's.
func (c *Context) read(data []byte, into any) error {
	err := c.app.decode(data, c.call.codec, into)
	switch {
	case err == nil:
		return nil
	case c.call.codec == 0 && c.app.Unmarshal != nil && !errors.Is(err, errors.ErrUnsupported):
		return Errorf(InvalidArgument, "the request is no message of protobuf: %v", err)
	}
	return &unread{withAdvice(err)}
}

// begins says that a command begins that runs to its end although its call ends before; it does not if it has.
func (c *Context) begins() (err error) {
	c.app.do(func(*session) {
		if c.call.runsOn = c.call.isOpen; !c.call.isOpen {
			err = errGone
		}
	})
	return err
}

// encode is that of a message that a handler gives: nil is a return that was forgotten.
func (c *Context) encode(message any) ([]byte, error) {
	switch value := reflect.ValueOf(message); value.Kind() {
	case reflect.Invalid:
		return nil, errNothing
	case reflect.Pointer, reflect.Map, reflect.Interface:
		if value.IsNil() {
			return nil, errNothing
		}
	}
	return c.app.encode(message, c.call.codec)
}

// check finds a header that cannot be sent, which is the handler's mistake and not to be passed over.
func (said *answer) check() error {
	for _, list := range [...][]Header{said.headers, said.trailers} {
		for _, header := range list {
			if strings.ContainsAny(header.Value, "\r\n\x00") {
				return fmt.Errorf("reply header %s has a CR, LF or NUL in its value; take it out", header.Name)
			}
		}
	}
	return nil
}

func (c *Context) reply(message any, err error) error {
	if err != nil {
		return err
	}
	data, err := c.encode(message)
	if err == nil {
		err = c.said.check()
	}
	if err == nil {
		c.app.do(func(s *session) { s.reply(c.call, data, &c.said) })
	}
	return err
}

func (c *Context) send(message any) error {
	data, err := c.encode(message)
	if err != nil {
		return err
	}
	return c.push(data)
}

// push sends an item, once there is room for it.
func (c *Context) push(data []byte) (err error) {
	if err = c.said.check(); err != nil {
		return err
	}
	c.app.do(func(s *session) {
		for c.call.isOpen && c.call.queued >= queuedMax {
			c.call.changed.Wait()
		}
		if !c.call.isOpen {
			err = errGone
			return
		}
		s.open(c.call, &c.said)
		s.push(c.call, data)
	})
	return err
}

func (c *Context) finish(err error) error {
	if err == nil {
		err = c.said.check()
	}
	if err == nil {
		c.app.do(func(s *session) {
			s.open(c.call, &c.said)
			s.finish(c.call, c.said.trailers)
		})
	}
	return err
}

// next waits for the next item that the caller sends; io.EOF after the last.
func (c *Context) next() (data []byte, err error) {
	c.app.do(func(s *session) {
		for len(c.call.items) == 0 && !c.call.isWhole && c.call.isOpen {
			c.call.changed.Wait()
		}
		switch {
		case len(c.call.items) > 0:
			data = s.takeItem(c.call)
		case c.call.isWhole:
			err = io.EOF
		default:
			err = errGone
		}
	})
	return data, err
}

// Changed says that a source changed: no answer that was made of it is given any more. Every key of it did where this
// one is none (it panics then, as [KeyText] does) or has more than 64 KiB.
func (a *App) Changed(source string, key ...any) {
	named := ""
	defer func() { a.sayChanged(source, named) }()
	named = KeyText(key...)
}

func (a *App) sayChanged(source, key string) {
	payload := putString(putString(nil, unicodeOf(source)), key)
	switch {
	case len(payload) > payloadMax && key != "":
		a.sayChanged(source, "")
		return
	case len(payload) > payloadMax:
		panic(fmt.Sprintf("a source of %d bytes is over %d", len(source), payloadMax))
	}
	a.do(func(s *session) { s.main = putFrame(s.main, frame{kind: kChanged, payload: payload}) })
}

// Log writes a line to the gateway's log: trace, debug, info, warn or error.
func (a *App) Log(level, text string, fields ...Header) {
	number := uint64(3)
	if at := slices.Index([]string{"trace", "debug", "info", "warn", "error"}, level); at >= 0 {
		number = uint64(at + 1)
	}
	said := make([]Header, len(fields))
	for at, field := range fields {
		said[at] = logField(field)
	}
	metadata := putHeaders(putNumber(nil, 17, number), said)
	a.do(func(s *session) {
		if uint64(len(metadata)) > s.peer.metadata {
			leftOut := Header{"left-out", fmt.Sprintf("%d fields, which are too long", len(fields))}
			metadata = putHeaders(putNumber(nil, 17, number), []Header{leftOut})
		}
		s.main = putFrame(s.main, frame{kind: kLog, metadata: metadata, payload: []byte(cut(text, payloadMax))})
	})
}

// Busy says that work begins that is no call: until the function that it returns is called the program is neither
// frozen nor ended.
func (a *App) Busy() (done func()) {
	count := func(more uint64) {
		a.do(func(s *session) {
			a.jobs += more
			s.main = putFrame(s.main, frame{kind: kBusy, payload: putVarint(nil, a.jobs)})
		})
	}
	count(1)
	return sync.OnceFunc(func() { count(^uint64(0)) })
}

// Call calls a method of the gateway; request and what reply points to are []byte, structs for JSON, or messages
// of protobuf.
func (a *App) Call(ctx context.Context, path string, request, reply any, how ...Option) error {
	return a.ask(ctx, nil, path, request, reply, how)
}

func (a *App) ask(ctx context.Context, parent *stream, path string, request, reply any, how []Option) error {
	var o options
	for _, set := range how {
		set(&o)
	}
	data, codec, err := a.encodeCall(request)
	if err != nil {
		return err
	}
	var call *stream
	giveUp := func() {
		a.do(func(s *session) {
			if call == nil {
				s.room.Broadcast()
				return
			}
			s.cancel(call)
			call.changed.Broadcast()
		})
	}
	defer context.AfterFunc(ctx, giveUp)()
	a.do(func(s *session) {
		within := uint32(0)
		if parent != nil && parent.isOpen && !parent.hasHead {
			within = parent.number
		}
		call, err = s.ask(strings.TrimPrefix(path, "/"), codec, data, within, ctx, o)
	})
	if err != nil {
		return err
	}
	a.do(func(*session) {
		for call.isOpen && !call.isCancelled && len(call.items) < 2 {
			call.changed.Wait()
		}
		data, err = call.payload, call.failure
		switch {
		case err != nil:
		case call.isCancelled:
			err = ctx.Err()
		case len(call.items) > 1:
			err = &Error{Code: Unimplemented, Message: path + " streams its replies", Outcome: OutcomeUnknown}
		case len(call.items) == 1:
			data = call.items[0].data
		}
	})
	if err != nil {
		giveUp()
		return err
	}
	if err = a.decode(data, codec, reply); err != nil {
		return fmt.Errorf("the reply of %s cannot be read: %w", path, withAdvice(err))
	}
	return nil
}

// do does something under the lock, and writes what arose, unless that is being done.
func (a *App) do(what func(*session)) {
	a.lock.Lock()
	defer a.lock.Unlock()
	what(a.session)
	if !a.isWriting && a.socket != nil && a.session.isDue() {
		a.isWriting = true
		a.write()
	}
}

// write writes what is queued, for all goroutines; the lock is free meanwhile.
func (a *App) write() {
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

var errNothing = errors.New("the handler returned nil; return a message without fields, or an error")
var errGone = &Error{Code: Canceled, Message: gaveUp}

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
	for buffer := make([]byte, 64<<10); !a.read(buffer); {
		runtime.Gosched() // Handlers first: what they answer at once saves a look at a socket that is empty.
	}
	return nil
}

// read reads once; whether it was the last time. It waits until there is room for more, or the last word is written.
func (a *App) read(buffer []byte) (isOver bool) {
	count, err := a.socket.Read(buffer)
	a.lock.Lock()
	defer a.lock.Unlock()
	s := a.session
	s.feed(buffer[:count])
	if err != nil {
		s.close("it closed the socket")
	}
	if !a.isWriting && s.isDue() {
		a.isWriting = true
		go func() { // A gateway that does not read must not keep this side from reading.
			a.lock.Lock()
			defer a.lock.Unlock()
			a.write()
		}()
	}
	for s.closed == "" && s.isFull() {
		a.taken.Wait()
	}
	isOver = s.closed != "" || s.isDraining && len(s.calls) == 0
	if isOver {
		_ = a.socket.SetWriteDeadline(time.Now().Add(grace))
		for a.isWriting {
			a.taken.Wait()
		}
	}
	return isOver
}

// begin answers a call in a goroutine of its own.
func (a *App) begin(call *stream) {
	c := &Context{app: a, call: call}
	// A command runs to its end although its caller leaves, by its deadline too.
	if call.deadline.IsZero() || call.command > 0 {
		c.Context, call.cancel = context.WithCancel(context.Background())
	} else {
		c.Context, call.cancel = context.WithDeadline(context.Background(), call.deadline)
	}
	go a.answer(c, call.cancel)
}

func (a *App) answer(c *Context, cancel context.CancelFunc) {
	defer cancel()
	hasReturned := false
	defer func() {
		if caught := recover(); caught != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", caught, debug.Stack())
			a.failed(c, errPanic)
		} else if !hasReturned {
			a.failed(c, errGoexit)
		}
	}()
	served, isServed := a.handlers[c.call.path]
	switch {
	case c.call.verb != "" && a.pages != nil:
		a.page(c)
	case c.call.verb != "" || !isServed:
		text := "this program does not serve " + c.call.path
		a.failed(c, &Error{Code: Unimplemented, Message: text, Outcome: OutcomeNotRun})
	default:
		if err := served(c); err != nil {
			a.failed(c, err)
		}
	}
	hasReturned = true
}

var (
	errPanic  = errors.New("a panic")
	errGoexit = errors.New("it ended its goroutine by runtime.Goexit")
)

// isGivenUp says whether a handler failed since its caller is gone, which is no news.
func (c *Context) isGivenUp(err error) bool {
	return c.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}

// failed tells the caller why a handler failed.
func (a *App) failed(c *Context, err error) {
	failed, news := callerError(err)
	if news != nil && !c.isGivenUp(err) && err != errPanic {
		fmt.Fprintln(os.Stderr, newsLine(c.call.path, news))
	}
	a.do(func(s *session) { s.fail(c.call, failed.withTrailers(c.said.trailers), c.said.depends) })
}
