package tidewire

import (
	"context"
	"encoding/hex"
	"fmt"
	"reflect"
	"sync"
	"testing"
)

// The conversations that are hosted: a session is the client, and what it offers in its hello is its own.

type event struct {
	Event, Payload, Then string
	Stream               uint32
	Items                []string
	Bytes, Code          int
	Outcome              *int
	Last                 bool
}

type conversation struct {
	Name, Method string
	Hosted       bool
	Limits       struct {
		Stream     int `json:"stream_credit"`
		Connection int `json:"connection_credit"`
	}
	Steps []struct {
		Server  *string `json:"server_writes"`
		Writes  *string `json:"client_writes"`
		Hears   []event `json:"client_hears"`
		Does    string  `json:"client"`
		Kinds   []string
		Details struct {
			Stream, Parent      uint32
			Payload, Path, Kind string
		}
	}
}

type talk struct {
	*testing.T
	*session
	where string
	known map[uint32]*stream
	heard map[uint32][]string
}

func TestEveryConversationThatIsHostedIsPlayed(t *testing.T) {
	var file struct{ Conversations []conversation }
	load(t, "conversations.json", &file)
	played := 0
	for _, c := range file.Conversations {
		if c.Hosted {
			play(t, c)
			played++
		}
	}
	if played < 8 {
		t.Errorf("only %d are hosted", played)
	}
}

func play(t *testing.T, c conversation) {
	s := newSession("test/1", func(*stream) {}, &sync.Mutex{})
	s.streamWindow, s.window = c.Limits.Stream, c.Limits.Connection
	p := talk{t, s, c.Name, map[uint32]*stream{}, map[uint32][]string{}}
	for number, step := range c.Steps {
		p.where = fmt.Sprintf("%s, step %d", c.Name, number)
		switch {
		case step.Server != nil:
			s.feed(unhex(t, *step.Server))
			for number, call := range p.known {
				for call.isOpen && len(call.items) > 0 {
					p.heard[number] = append(p.heard[number], hex.EncodeToString(s.takeItem(call)))
				}
			}
		case step.Writes != nil:
			if written := p.written(); step.Kinds[0] != "hello" {
				p.same(written, *step.Writes)
			}
		case step.Does == "call":
			d, path := step.Details, c.Method
			if d.Path != "" {
				path = d.Path
			}
			call, err := s.ask(path[1:], 0, unhex(t, d.Payload), d.Parent, context.Background(), options{query: d.Kind == "query"})
			if err != nil || call.number != d.Stream {
				t.Fatal(p.where, err)
			}
			p.known[call.number], p.heard[call.number] = call, nil
		case step.Does == "cancel":
			s.cancel(p.known[step.Details.Stream])
		case step.Does == "reply":
			s.reply(s.calls[step.Details.Stream], unhex(t, step.Details.Payload), &answer{})
		}
		for _, event := range step.Hears {
			p.hear(event)
		}
	}
	p.same(p.written(), "")
}

func (p *talk) written() string {
	var all []byte
	for data := p.take(); len(data) > 0; data = p.take() {
		all = append(all, data...)
	}
	return hex.EncodeToString(all)
}

func (p *talk) same(found, expected any) {
	p.Helper()
	if !reflect.DeepEqual(found, expected) {
		p.Fatalf("%s: %v and not %v", p.where, found, expected)
	}
}

// hear checks that what the session knows agrees with what its application must hear.
func (p *talk) hear(e event) {
	call := p.known[e.Stream]
	switch e.Event {
	case "connected":
		p.same(p.isGreeted, true)
	case "request":
		p.same(hex.EncodeToString(p.calls[e.Stream].payload), e.Payload)
	case "reply":
		p.same([]any{call.hasHead, call.failure}, []any{true, nil})
		p.same(hex.EncodeToString(call.payload), e.Payload)
	case "items":
		p.same(p.heard[e.Stream][:len(e.Items)], e.Items)
		p.heard[e.Stream] = p.heard[e.Stream][len(e.Items):]
	case "piece":
		if e.Last {
			p.same(len(call.items[0].data)%piece, e.Bytes)
		}
	case "end":
		p.same([]any{call.isOpen, call.failure}, []any{false, nil})
	case "failed":
		failed, outcome := call.failure.(*Error), 0
		if e.Outcome != nil {
			outcome = *e.Outcome
		}
		p.same([]any{failed.Code, failed.Outcome}, []any{codes[e.Code], outcome})
	case "draining":
		p.same(p.isDraining, true)
	case "closed":
		p.same(p.closed != "", true)
	default:
		p.Fatal(p.where, e.Event)
	}
}
