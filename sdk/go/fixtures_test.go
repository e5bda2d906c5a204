package tidewire

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"math/big"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func load(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile("../../tests/fixtures/live/" + name)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	data, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestEveryFrameIsReadAsDescribedAndWrittenTheSame(t *testing.T) {
	var fixtures []struct {
		Name, Hex string
		Frame     struct {
			Number, Flags byte
			Stream        uint32
			Deadline      uint32 `json:"deadline_ms"`
			Payload       string
			Metadata      []struct {
				Tag         byte
				Name, Value string
			}
		}
	}
	load(t, "frames.json", &fixtures)
	for _, fixture := range fixtures {
		data, want := unhex(t, fixture.Hex), fixture.Frame
		meta := int(binary.LittleEndian.Uint16(data[10:]))
		said := readMetadata(data[16 : 16+meta])
		var values []string
		for _, entry := range want.Metadata {
			value := string(unhex(t, entry.Value))
			switch {
			case entry.Tag == 0 || entry.Tag >= 64 && entry.Tag < 92:
				values = append(values, value)
			case entry.Tag < 64 && !strings.ContainsRune("\x06\x07\x0a\x0f", rune(entry.Tag)):
				if string(said.fields[entry.Tag]) != value {
					t.Errorf("%s: field %d is %q", fixture.Name, entry.Tag, said.fields[entry.Tag])
				}
			}
		}
		for at, header := range append(said.headers, said.trailers...) {
			if at >= len(values) || header.Value != values[at] {
				t.Errorf("%s: header %v", fixture.Name, header)
			}
		}
		again := putFrame(nil, frame{want.Number, want.Flags, want.Stream, want.Deadline, data[16 : 16+meta], unhex(t, want.Payload)})
		if hex.EncodeToString(again) != fixture.Hex {
			t.Errorf("%s is written as %x", fixture.Name, again)
		}
	}
}

type details struct {
	Stream, Parent, Status                          int
	Jobs                                            uint64
	Payload, Item, Code, Message, Path, Source, Key string
	Level, Text                                     string
	Query                                           bool
	Detail                                          []string
	Headers, Trailers, Depends, Fields              [][]string
}

func pairs(list [][]string) (found []Header) {
	for _, pair := range list {
		found = append(found, Header{pair[0], pair[1]})
	}
	return found
}

func TestAProcessWritesWhatTheConversationSays(t *testing.T) {
	var talk struct {
		Agent string
		Steps []struct {
			Host    *string `json:"host_writes"`
			Process *string `json:"process_writes"`
			Does    string  `json:"process"`
			Details details
		}
	}
	load(t, "hosted.json", &talk)
	app := New()
	app.session = newSession(talk.Agent, func(*stream) {}, &sync.Mutex{})
	app.isWriting = true // What is written is taken here.
	s := app.session
	s.now = func() time.Time { return time.Time{} }
	for number, step := range talk.Steps {
		switch {
		case step.Host != nil:
			s.feed(unhex(t, *step.Host))
			for _, call := range s.calls {
				for len(call.items) > 0 {
					s.takeItem(call)
				}
			}
		case step.Process != nil:
			var written []byte
			for data := s.take(); len(data) > 0; data = s.take() {
				written = append(written, data...)
			}
			if hex.EncodeToString(written) != *step.Process {
				t.Fatalf("step %d: written is\n%x and not\n%s", number, written, *step.Process)
			}
		default:
			act(t, app, step.Does, step.Details)
		}
		if s.closed != "" {
			t.Fatalf("step %d: %s", number, s.closed)
		}
	}
	if rest := s.take(); len(rest) > 0 {
		t.Fatalf("nothing else is written, but %x", rest)
	}
}

func act(t *testing.T, app *App, what string, d details) {
	s := app.session
	call := s.calls[uint32(d.Stream)]
	switch what {
	case "reply":
		said := answer{headers: pairs(d.Headers), trailers: pairs(d.Trailers), depends: d.Depends, status: d.Status}
		s.reply(call, unhex(t, d.Payload), &said)
	case "fail":
		failed := &Error{Code: d.Code, Message: d.Message, Details: []Detail{{d.Detail[0], unhex(t, d.Detail[1])}}}
		s.fail(call, failed, nil)
	case "begin":
		s.open(call, &answer{})
	case "push":
		s.push(call, unhex(t, d.Item))
	case "finish":
		s.finish(call, nil)
	case "call":
		o := options{query: d.Query}
		if _, err := s.ask(d.Path[1:], 0, unhex(t, d.Payload), uint32(d.Parent), context.Background(), o); err != nil {
			t.Fatal(err)
		}
	case "changed":
		app.Changed(d.Source, d.Key)
	case "busy":
		app.jobs = d.Jobs - 1
		app.Busy()
	case "log":
		app.Log(d.Level, d.Text, pairs(d.Fields)...)
	case "ready":
	}
}

// The text of a key, or what KeyText panics with.
func keyText(parts ...any) (text, refused string) {
	defer func() {
		if failed := recover(); failed != nil {
			refused = failed.(string)
		}
	}()
	return KeyText(parts...), ""
}

func TestKeysHaveOneTextInEachLanguage(t *testing.T) {
	var fixtures []struct {
		Name  string
		Parts []map[string]any
		Text  *string
	}
	load(t, "keys.json", &fixtures)
	for _, fixture := range fixtures {
		var parts, numbers []any
		for _, part := range fixture.Parts {
			for kind, value := range part {
				switch kind {
				case "int":
					whole, _ := new(big.Int).SetString(value.(string), 10)
					numbers, value = append(numbers, json.Number(value.(string))), whole
				case "double":
					float, err := strconv.ParseFloat(value.(string), 64)
					if err != nil {
						t.Fatal(err)
					}
					numbers, value = append(numbers, json.Number(value.(string))), float
				case "bytes":
					value = unhex(t, value.(string))
				case "absent":
					value = nil
				}
				parts = append(parts, value)
			}
		}
		if text, refused := keyText(parts...); fixture.Text == nil && refused == "" || fixture.Text != nil && text != *fixture.Text {
			t.Errorf("%s: %q %s", fixture.Name, text, refused)
		}
		if len(numbers) == len(parts) && fixture.Text != nil {
			if text := KeyText(numbers...); text != *fixture.Text {
				t.Errorf("%s as JSON has it: %q", fixture.Name, text)
			}
		}
	}
}

type named [2]byte

func (named) String() string { return "its name" }

type size int

func (size) String() string { return "big" }

func TestEqualValuesAreOneKeyAndWhatIsNoneIsRefused(t *testing.T) {
	seven, none, number := int64(7), (*int64)(nil), json.Number("7.0")
	for want, parts := range map[string][]any{
		"7":                   {7, int8(7), uint64(7), 7.0, size(7), &seven, number, &number},
		"a\uFFFD\uFFFDb":      {"a\xff\xfeb"},
		"%_":                  {nil, none, (*big.Int)(nil)},
		"6162":                {[]byte("ab"), json.RawMessage("ab"), named{'a', 'b'}, [2]byte{'a', 'b'}},
		"0.10000000149011612": {float64(float32(0.1))},
	} {
		for _, part := range parts {
			if text := KeyText(part); text != want {
				t.Errorf("%T %v: %q", part, part, text)
			}
		}
	}
	pointer := &seven
	for _, part := range []any{map[string]int{}, []int{1}, struct{}{}, &struct{}{}, &pointer, func() {}, 1i, json.Number("x"), float32(1)} {
		if text, refused := keyText(part); refused == "" {
			t.Errorf("%T: %q", part, text)
		}
	}
}

func TestAPathIsServedOnce(t *testing.T) {
	app := New()
	serve := func() { Unary(app, "/a.B/C", func(*Context, []byte) ([]byte, error) { return nil, nil }) }
	serve()
	defer func() {
		if refused := recover(); refused != "a.B/C is served twice" {
			t.Error(refused)
		}
	}()
	serve()
}

func TestACommandHasNoDeadlineAndAQueryThatOfItsCaller(t *testing.T) {
	app, found := New(), make(chan bool)
	Unary(app, "a.B/C", func(c *Context, _ []byte) ([]byte, error) {
		_, has := c.Deadline()
		found <- has
		return nil, nil
	})
	for command, has := range map[uint64]bool{0: true, 7: false} {
		app.do(func(s *session) {
			call := s.newStream(2)
			call.path, call.command, call.deadline, call.isWhole = "a.B/C", command, time.Now().Add(time.Hour), true
			app.begin(call)
		})
		if <-found != has {
			t.Errorf("command %d", command)
		}
	}
}

func TestAHandlerThatFailsIsNoNewsOnlyIfItsCallerIsGone(t *testing.T) {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	for _, c := range []struct {
		context.Context
		error
		isNews bool
	}{
		{gone, context.Canceled, false},
		{late, context.DeadlineExceeded, false},
		{gone, io.EOF, true},
		{context.Background(), context.DeadlineExceeded, true},
		{context.Background(), context.Canceled, true},
	} {
		if (&Context{Context: c.Context}).isGivenUp(c.error) == c.isNews {
			t.Error(c)
		}
	}
}
