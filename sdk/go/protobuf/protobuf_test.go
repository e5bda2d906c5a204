package protobuf_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/apipb"
	"google.golang.org/protobuf/types/known/sourcecontextpb"
	"google.golang.org/protobuf/types/known/typepb"
	"tidewire.dev/go"
	"tidewire.dev/go/protobuf"
)

// Frames of the live protocol that are said here.
const (
	hello, request, reply, failure, items, end = 1, 3, 4, 5, 6, 7

	isEnd = 1
	magic = 0x564c5754
)

// gateway is the other end of the socket that a program inherits.
type gateway struct {
	*testing.T
	socket net.Conn
	codec  byte
}

type frame struct {
	kind, flags       byte
	metadata, payload []byte
}

// serve serves an app, to a gateway that has said hello.
func serve(t *testing.T, app *tidewire.App, codec byte) *gateway {
	t.Helper()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(pair[0]), "gateway")
	socket, err := net.FileConn(file)
	file.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TIDEWIRE_FD", strconv.Itoa(pair[1]))
	over := make(chan error, 1)
	go func() { over <- app.Serve() }()
	t.Cleanup(func() {
		socket.Close()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	g := &gateway{t, socket, codec}
	g.write(hello, 0, 0, magic, nil, append(field(1, "\x01\x00\x01\x00"), field(2, "\x22")...))
	return g
}

func field(tag byte, value string) []byte {
	return append(binary.AppendUvarint([]byte{tag}, uint64(len(value))), value...)
}

func (g *gateway) write(kind, flags byte, stream, deadline uint32, metadata, payload []byte) {
	g.Helper()
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(metadata)+len(payload)))
	out = append(binary.LittleEndian.AppendUint32(out, stream), kind, flags)
	out = binary.LittleEndian.AppendUint16(out, uint16(len(metadata)))
	out = binary.LittleEndian.AppendUint32(out, deadline)
	if _, err := g.socket.Write(append(append(out, metadata...), payload...)); err != nil {
		g.Fatal(err)
	}
}

// of is the next frame of a call.
func (g *gateway) of(stream uint32) frame {
	g.Helper()
	for {
		head := make([]byte, 16)
		if _, err := io.ReadFull(g.socket, head); err != nil {
			g.Fatal(err)
		}
		body := make([]byte, binary.LittleEndian.Uint32(head))
		if _, err := io.ReadFull(g.socket, body); err != nil {
			g.Fatal(err)
		}
		meta := binary.LittleEndian.Uint16(head[10:])
		if binary.LittleEndian.Uint32(head[4:]) == stream {
			return frame{head[8], head[9], body[:meta], body[meta:]}
		}
	}
}

// encoded is a message in the codec of the service.
func (g *gateway) encoded(message proto.Message) []byte {
	g.Helper()
	marshal := proto.Marshal
	if g.codec == 1 {
		marshal = protojson.Marshal
	}
	data, err := marshal(message)
	if err != nil {
		g.Fatal(err)
	}
	return data
}

func (g *gateway) same(data []byte, want proto.Message) {
	g.Helper()
	got := want.ProtoReflect().New().Interface()
	unmarshal := proto.Unmarshal
	if g.codec == 1 {
		unmarshal = protojson.Unmarshal
	}
	if err := unmarshal(data, got); err != nil || !proto.Equal(got, want) {
		g.Fatalf("%q is %v, %v", data, got, err)
	}
}

func (g *gateway) asks(path string, flags byte, message []byte) {
	g.Helper()
	g.write(request, flags, 2, 0, field(2, string(g.codec)+"/"+path), message)
}

// call is the answer to a call with one request.
func (g *gateway) call(path string, message proto.Message) frame {
	g.Helper()
	g.asks(path, isEnd, g.encoded(message))
	return g.of(2)
}

// streams is what is answered to a call with many requests.
func (g *gateway) streams(path string, messages ...proto.Message) (all [][]byte) {
	g.Helper()
	g.asks(path, 0, nil)
	for _, message := range messages {
		data := g.encoded(message)
		g.write(items, 0, 2, 0, nil, append(binary.AppendUvarint(nil, uint64(len(data))), data...))
	}
	g.write(end, 0, 2, 0, nil, nil)
	return g.answers()
}

// answers are the items of a reply.
func (g *gateway) answers() (all [][]byte) {
	g.Helper()
	for next := g.of(2); next.kind != end; next = g.of(2) {
		switch next.kind {
		case failure:
			g.Fatalf("%q", next.metadata)
		case reply:
			if next.flags&isEnd != 0 {
				return [][]byte{next.payload}
			}
		case items:
			for rest := next.payload; len(rest) > 0; {
				size, much := binary.Uvarint(rest)
				all, rest = append(all, rest[much:][:size]), rest[much:][size:]
			}
		}
	}
	return all
}

const shop = "shop.v1.Shop/"

func method(name string) *apipb.Method {
	return &apipb.Method{Name: name, Syntax: typepb.Syntax_SYNTAX_PROTO3}
}

func source(name string) *sourcecontextpb.SourceContext {
	return &sourcecontextpb.SourceContext{FileName: name}
}

func program() *tidewire.App {
	app := tidewire.New()
	protobuf.Use(app)
	type item = sourcecontextpb.SourceContext
	tidewire.Unary(app, shop+"Get", func(c *tidewire.Context, r *item) (*apipb.Method, error) {
		if r.FileName == "" {
			return nil, nil
		}
		return method(r.FileName), nil
	})
	tidewire.ServerStream(app, shop+"Watch", func(c *tidewire.Context, r *item, send func(*apipb.Method) error) error {
		return errors.Join(send(method(r.FileName)), send(method("more")))
	})
	tidewire.ClientStream(app, shop+"Join", func(c *tidewire.Context, requests *tidewire.Requests[*item]) (*apipb.Method, error) {
		names := ""
		for {
			r, err := requests.Next()
			if err == io.EOF {
				return method(names), nil
			} else if err != nil {
				return nil, err
			}
			names += r.FileName
		}
	})
	tidewire.BidiStream(app, shop+"Chat", func(c *tidewire.Context, requests *tidewire.Requests[*item], send func(*apipb.Method) error) error {
		for {
			r, err := requests.Next()
			if err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			if err := send(method(r.FileName)); err != nil {
				return err
			}
		}
	})
	tidewire.Unary(app, shop+"Within", func(c *tidewire.Context, r *item) (*apipb.Method, error) {
		found := &apipb.Method{}
		if err := c.Call("other.v1.Other/Get", r, found); err != nil {
			for _, detail := range protobuf.Details(err) {
				if known, is := detail.(*item); is {
					return method("not " + known.FileName), nil
				}
			}
			return nil, err
		}
		return found, nil
	})
	tidewire.Unary(app, shop+"Fail", func(c *tidewire.Context, r *item) (*apipb.Method, error) {
		return nil, protobuf.WithDetails(tidewire.Errorf("not_found", "no %s", r.FileName), r, method("tea"))
	})
	tidewire.Unary(app, shop+"Plain", func(c *tidewire.Context, r struct{ FileName string }) (map[string]string, error) {
		return map[string]string{"name": r.FileName}, nil
	})
	return app
}

func inBothCodecs(t *testing.T, test func(g *gateway)) {
	for name, codec := range map[string]byte{"protobuf": 0, "json": 1} {
		t.Run(name, func(t *testing.T) { test(serve(t, program(), codec)) })
	}
}

func TestHandlersTakeAndGivePointersToGeneratedTypes(t *testing.T) {
	inBothCodecs(t, func(g *gateway) {
		g.same(g.call(shop+"Get", source("tea")).payload, method("tea"))
		if nothing := g.call(shop+"Get", source("")); nothing.kind != failure {
			t.Error(nothing)
		}
	})
}

func TestStreamsAreOfGeneratedTypes(t *testing.T) {
	inBothCodecs(t, func(g *gateway) {
		g.asks(shop+"Watch", isEnd, g.encoded(source("tea")))
		watched := g.answers()
		if len(watched) != 2 {
			t.Fatal(watched)
		}
		g.same(watched[0], method("tea"))
		g.same(watched[1], method("more"))
		g.same(g.streams(shop+"Join", source("a"), source("b"))[0], method("ab"))
		chat := g.streams(shop+"Chat", source("a"), source("b"))
		if len(chat) != 2 {
			t.Fatal(chat)
		}
		g.same(chat[0], method("a"))
		g.same(chat[1], method("b"))
	})
}

func TestACallOfTheGatewayTakesAndFillsAGeneratedType(t *testing.T) {
	inBothCodecs(t, func(g *gateway) {
		g.asks(shop+"Within", isEnd, g.encoded(source("tea")))
		asked := g.of(1)
		message := &sourcecontextpb.SourceContext{}
		if err := proto.Unmarshal(asked.payload, message); err != nil || message.FileName != "tea" {
			t.Fatal(asked, err)
		}
		if !strings.Contains(string(asked.metadata), "\x00/other.v1.Other/Get") {
			t.Fatalf("%q", asked.metadata)
		}
		data, _ := proto.Marshal(method("black"))
		g.write(reply, isEnd, 1, 0, nil, data)
		g.same(g.of(2).payload, method("black"))
	})
}

// detail is the field of an error that has a message.
func detail(message proto.Message) string {
	data, _ := proto.Marshal(message)
	name := string(message.ProtoReflect().Descriptor().FullName())
	return string(field(10, string(rune(len(name)))+name+string(data)))
}

func TestDetailsOfErrorsAreMessages(t *testing.T) {
	inBothCodecs(t, func(g *gateway) {
		failed := g.call(shop+"Fail", source("tea"))
		for _, want := range []string{"no tea", detail(source("tea")), detail(method("tea"))} {
			if failed.kind != failure || !strings.Contains(string(failed.metadata), want) {
				t.Errorf("%q is not in %q", want, failed.metadata)
			}
		}
		g.asks(shop+"Within", isEnd, g.encoded(source("tea")))
		g.of(1)
		g.write(failure, 0, 1, 0, append(field(8, "\x05"), detail(source("tea"))...), nil)
		g.same(g.of(2).payload, method("not tea"))
	})
}

func TestADetailThatIsNotKnownIsAnAnyAndAnOtherErrorHasNone(t *testing.T) {
	failed := tidewire.Errorf("not_found", "no tea")
	failed.Details = []tidewire.Detail{{Type: "x.Y", Value: []byte("z")}}
	details := protobuf.Details(errors.Join(io.EOF, failed))
	if packed, is := details[0].(*anypb.Any); !is || packed.TypeUrl != "type.googleapis.com/x.Y" || string(packed.Value) != "z" {
		t.Error(details)
	}
	if none := protobuf.Details(io.EOF); none != nil {
		t.Error(none)
	}
	if more := protobuf.WithDetails(failed, source("a")).(*tidewire.Error); len(more.Details) != 2 || len(failed.Details) != 1 {
		t.Error(more, failed)
	}
	var other *tidewire.Error
	if errors.As(protobuf.WithDetails(failed, source("\xff")), &other) {
		t.Error("a detail that cannot be encoded is left out")
	}
}

func TestStructsAreBesideThemAsJSONOnly(t *testing.T) {
	g := serve(t, program(), 1)
	g.asks(shop+"Plain", isEnd, []byte(`{"fileName":"tea"}`))
	if answer := g.of(2); string(answer.payload) != `{"name":"tea"}` {
		t.Errorf("%q", answer.payload)
	}
	// A newer `.proto` has more.
	g.asks(shop+"Get", isEnd, []byte(`{"fileName":"tea","more":1}`))
	g.same(g.of(2).payload, method("tea"))
	app := program()
	for _, message := range []any{struct{}{}, sourcecontextpb.SourceContext{}} {
		if _, err := app.Marshal(message); err == nil || !strings.Contains(err.Error(), "a pointer to a generated type") {
			t.Error(err)
		}
	}
}

func TestAHandlerOfGeneratedTypesIsTestedWithoutAGateway(t *testing.T) {
	app := tidewire.New()
	protobuf.Use(app)
	call := &tidewire.TestCall{App: app, Answer: func(path string, request any) (any, error) {
		return method(request.(*sourcecontextpb.SourceContext).FileName), nil
	}}
	found := &apipb.Method{}
	if err := call.Context(context.Background()).Call("a.B/C", source("tea"), found); err != nil || !proto.Equal(found, method("tea")) {
		t.Error(found, err)
	}
}

func TestBytesThatAreNoMessageAreTheirCallersMistakeAndAnotherTypeIsTheProgramsOwn(t *testing.T) {
	g := serve(t, program(), 0)
	for path, code := range map[string]string{"Get": "\x03", "Plain": "\x0d"} {
		g.asks(shop+path, isEnd, []byte("\xff"))
		if failed := g.of(2); !strings.Contains(string(failed.metadata), string(field(8, code))) {
			t.Errorf("%s: %q", path, failed.metadata)
		}
	}
}
