package tidewire

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
)

// TestCall is a call without a gateway, for a test of a handler. Its Context is what the handler takes, and afterwards
// it knows what the handler said:
//
//	call := &tidewire.TestCall{Principal: &tidewire.Principal{Subject: "ada"}}
//	reply, err := getItem(call.Context(context.Background()), ItemRequest{ID: 1})
//	call.Depends() // ["items/1"]
//
// TestRequests is what a caller streams; send of a handler is any function. Handlers of pages are for httptest.
type TestCall struct {
	// Headers are those of the request.
	Headers []Header
	// Principal is who calls; nobody where it is nil.
	Principal *Principal
	// Answer answers what the handler calls by Context.Call; where it is nil each call fails as unimplemented. The
	// reply is read into that of the handler as it would be from a gateway: it may be of another type.
	Answer func(path string, request any) (reply any, err error)
	// App has the functions that encode messages of calls; a new one where it is nil.
	App *App

	lock    sync.Mutex
	context *Context
	changed []string
	lines   []string
}

// Context is that of the call, which ends with ctx; what was said by an earlier one of it is forgotten.
func (t *TestCall) Context(ctx context.Context) *Context {
	t.lock.Lock()
	defer t.lock.Unlock()
	call := &stream{isOpen: true}
	for _, header := range t.Headers {
		call.headers = append(call.headers, Header{strings.ToLower(header.Name), header.Value})
	}
	if t.Principal != nil {
		principal, err := json.Marshal(t.Principal)
		if err != nil {
			panic(err)
		}
		call.headers = append(call.headers, Header{principalHeader, string(principal)})
	}
	app := t.App
	if app == nil {
		app = New()
	}
	t.changed, t.lines = nil, nil
	t.context = &Context{Context: ctx, app: app, call: call, test: t}
	return t.context
}

// Depends is what the handler said that its answer was made of, in order: "items/1" for the key 1 of items, "items" for
// all of it.
func (t *TestCall) Depends() (said []string) {
	for _, named := range t.said().depends {
		said = append(said, nameOf(named[0], named[1]))
	}
	return said
}

// Changed is what the handler said that changed, in the same form.
func (t *TestCall) Changed() []string {
	t.lock.Lock()
	defer t.lock.Unlock()
	return t.changed
}

// ReplyHeaders are those that the handler added.
func (t *TestCall) ReplyHeaders() []Header { return t.said().headers }

// ReplyTrailers are those that the handler added.
func (t *TestCall) ReplyTrailers() []Header { return t.said().trailers }

// Logged are the lines that the handler logged by Context.Log: "warn: slow took=3".
func (t *TestCall) Logged() []string {
	t.lock.Lock()
	defer t.lock.Unlock()
	return t.lines
}

func (t *TestCall) said() answer {
	if t.context == nil {
		return answer{}
	}
	return t.context.said
}

func nameOf(source, key string) string {
	if key == "" {
		return source
	}
	return source + "/" + key
}

func (t *TestCall) sayChanged(source string, key []any) {
	named := ""
	defer func() { // As of an app: a key that is none panics, and is a change of all.
		t.lock.Lock()
		defer t.lock.Unlock()
		t.changed = append(t.changed, nameOf(unicodeOf(source), named))
	}()
	named = KeyText(key...)
}

func (t *TestCall) log(level, text string, fields []Header) {
	for _, field := range fields {
		text += " " + field.Name + "=" + field.Value
	}
	t.lock.Lock()
	defer t.lock.Unlock()
	t.lines = append(t.lines, level+": "+text)
}

func (t *TestCall) ask(c *Context, path string, request, reply any) error {
	_, codec, err := c.app.encodeCall(request)
	if err == nil {
		err = c.Err()
	}
	if err != nil {
		return err
	}
	path = strings.TrimPrefix(path, "/")
	if t.Answer == nil {
		return Errorf(Unimplemented, "this TestCall has no Answer for %s", path)
	}
	answer, err := t.Answer(path, request)
	if err != nil {
		return err
	}
	data, err := c.app.encode(answer, codec)
	if err != nil {
		return err
	}
	return c.app.decode(data, codec, reply)
}

// TestRequests are what a caller streams, for a test of a handler: these, and io.EOF then.
func TestRequests[Request any](requests ...Request) *Requests[Request] {
	return &Requests[Request]{func() (next Request, err error) {
		if len(requests) == 0 {
			return next, io.EOF
		}
		next, requests = requests[0], requests[1:]
		return next, nil
	}}
}
