package tidewire

// This side of the live protocol without a socket: bytes in, bytes and calls out. What goes is in sending.go.

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// flow counts bytes of items without credit: received, of these taken by the program, and sent.
type flow struct {
	number                        uint32
	window, received, taken, sent int
}

type item struct {
	data []byte
	cost int // what its frame cost, with the last item of it
}

// chunk is a frame of a call that waits for its turn: items, which more may join while it is open, or the last frame.
type chunk struct {
	data           []byte
	flags          byte
	isOpen, isLast bool
}

// stream is one call, of either side: what came of it, and what is to be sent.
type stream struct {
	flow
	isAsked, isOpen, isCancelled  bool
	isStreaming, isWhole, hasHead bool
	path, verb                    string
	codec                         byte
	headers, trailers             []Header
	payload, partial              []byte
	deadline                      time.Time
	command                       uint64
	items                         []item
	out                           []chunk
	queued                        int
	failure                       error
	changed                       sync.Cond // something came, went, or ended
	cancel                        context.CancelFunc
	runsOn                        bool // A command with one reply, which has begun: its context does not end with its call.
}

type limits struct{ body, calls, methods, stream, connection, metadata uint64 }

type method struct {
	codec byte
	path  string
}

// session is this side of the protocol without a socket: bytes in, bytes and calls out. Its owner has a lock.
type session struct {
	flow
	data, control, main, pong []byte
	isGreeted, isDraining     bool
	closed                    string
	peer                      limits
	methods                   []method
	called                    map[method]uint64
	calls, asked              map[uint32]*stream
	free                      []uint32
	line                      []*stream
	running                   map[uint64]bool
	nextCommand               uint64
	now                       func() time.Time
	begin                     func(*stream)
	lock                      sync.Locker
	room                      *sync.Cond // of calls of this side
	streamWindow              int
}

func newSession(agent string, begin func(*stream), lock sync.Locker) *session {
	s := &session{flow: flow{window: connectionCredit}, streamWindow: streamCredit, called: map[method]uint64{},
		calls: map[uint32]*stream{}, asked: map[uint32]*stream{}, running: map[uint64]bool{}, nextCommand: 1,
		now: time.Now, begin: begin, lock: lock, room: sync.NewCond(lock)}
	s.peer = limitsOf(&fields{})
	hello := putNumber(putNumber([]byte{1, 4, 1, 0, 1, 0}, 2, 2|32), 3, 32)
	hello = putField(putNumber(hello, 4, bodyMax), 16, agent)
	s.control = putFrame(nil, frame{kind: kHello, payload: hello, deadline: magic})
	return s
}

// limitsOf is what the gateway takes, by the fields of its hello.
func limitsOf(said *fields) limits {
	return limits{said.number(4, 4<<20), said.number(5, 1024), said.number(7, 1024),
		said.number(8, streamCredit), said.number(9, connectionCredit), said.number(10, metadataMax)}
}

func (s *session) newStream(number uint32) *stream {
	call := &stream{flow: flow{number: number, window: s.streamWindow}, isAsked: number%2 == 1, isOpen: true}
	call.changed.L = s.lock
	s.calls[number] = call
	return call
}

// -------------------------------------------------------------------------------------------------- what comes

// feed takes bytes that came; what is wrong with them ends the session.
func (s *session) feed(data []byte) {
	s.data = append(s.data, data...)
	at := 0
	defer func() {
		s.data = s.data[at:]
		if caught := recover(); caught != nil {
			broken, ok := caught.(violation)
			if !ok {
				panic(caught)
			}
			said := putNumber(putField(nil, 9, broken.text), 16, broken.reason)
			s.main = putFrame(s.main, frame{kind: kGoaway, metadata: said})
			s.close(broken.text)
		}
	}()
	for s.closed == "" {
		most := metadataMax
		if !s.isGreeted {
			most = payloadMax
		}
		next, size := takeFrame(s.data[at:], most)
		if size == 0 {
			return
		}
		at += size
		s.receive(next)
	}
}

const (
	ofConnection = iota
	ofCall
	ofBoth
)

// kinds are those of frames: where each belongs, and what takes it with its call, nil for one that is over. A process
// has no watches and resumes nothing.
var kinds = [kDescriptors + 1]struct {
	belongs int
	take    func(*session, *frame, *stream)
}{
	0:        {ofBoth, nil},
	kHello:   {ofConnection, (*session).onHello},
	kRequest: {ofCall, (*session).onRequest},
	kReply:   {ofCall, (*session).onReply},
	kError:   {ofCall, (*session).onError},
	kItems:   {ofCall, (*session).onItems},
	kEnd:     {ofCall, (*session).onEnd},
	kCancel:  {ofBoth, (*session).onCancel},
	kCredit:  {ofBoth, (*session).onCredit},
	kPing:    {ofConnection, (*session).onPing},
	kGoaway:  {ofConnection, (*session).onGoaway},
	kStale:   {ofConnection, never(rUnknownStream)},
	kResume:  {ofConnection, never(rUnexpected)},
	kResumed: {ofConnection, never(rUnexpected)},
}

func never(reason uint64) func(*session, *frame, *stream) {
	return func(_ *session, f *frame, _ *stream) { must(false, reason, "kind %d for a process", f.kind) }
}

func (s *session) receive(f frame) {
	must(s.isGreeted || f.kind == kHello || f.kind == kGoaway, rMagic, "the first frame is not a hello")
	if f.kind > kDescriptors {
		return
	}
	kind := &kinds[f.kind]
	isThere := kind.belongs == ofBoth || (kind.belongs == ofCall) == (f.stream > 0)
	must(isThere, rMalformed, "kind %d on stream %d", f.kind, f.stream)
	if kind.take == nil {
		return
	}
	isAsked := f.stream%2 == 1
	must(isAsked || f.stream <= 2*callsMax, rStreamNumber, "stream %d is over the bound", f.stream)
	call := s.calls[f.stream]
	must(call != nil || !isAsked || f.kind == kRequest, rUnknownStream, "stream %d is not open", f.stream)
	must(kind.belongs != ofCall || f.flags&fZstd == 0, rFeature, "compression was not offered")
	kind.take(s, &f, call)
}

func (s *session) onHello(f *frame, _ *stream) {
	must(!s.isGreeted, rUnexpected, "a second hello")
	must(f.deadline == magic, rMagic, "not a hello")
	said, r := fields{}, reader{f.payload}
	for len(r.data) > 0 {
		said.put(r.byte(), r.string(), false)
	}
	must(len(said[1]) == 4, rMalformed, "a hello without versions")
	must(string(said[1]) == "\x01\x00\x01\x00", rVersion, "this side speaks version 1")
	must(said.number(2, 0)&32 != 0, rFeature, "the gateway hosts no processes")
	s.peer, s.isGreeted = limitsOf(&said), true
	s.control = putFrame(s.control, frame{kind: kReady})
	s.room.Broadcast()
}

func (s *session) onPing(f *frame, _ *stream) {
	must(len(f.payload) <= 64, rMalformed, "a long ping")
	s.pong = f.payload // Of pings not yet answered the last alone is.
}

func (s *session) onGoaway(f *frame, _ *stream) {
	said := readMetadata(f.metadata)
	if reason := said.number(16, 0); reason > 0 || !s.isGreeted {
		s.close(fmt.Sprintf("reason %d: %s", reason, said.fields[9]))
	}
	s.isDraining = true
}

func (s *session) onRequest(f *frame, open *stream) {
	must(f.stream%2 == 0, rStreamNumber, "a request on stream %d", f.stream)
	must(open == nil, rStreamInUse, "a request on stream %d", f.stream)
	said, isWhole := readMetadata(f.metadata), f.flags&fEnd != 0
	must(said.fields[18] == nil, rFeature, "keys were not offered")
	must(isWhole || len(f.payload) == 0, rMalformed, "a payload before items")
	call := s.newStream(f.stream)
	call.headers, call.payload, call.isWhole, call.isStreaming = said.headers, f.payload, isWhole, !isWhole
	if f.flags&fHTTP != 0 {
		must(said.fields[12] != nil && said.fields[13] != nil, rMalformed, "HTTP without method or target")
		call.verb, call.path = string(said.fields[12]), string(said.fields[13])
	} else {
		named := s.method(&said)
		call.codec, call.path = named.codec, named.path
	}
	if f.deadline > 0 {
		call.deadline = s.now().Add(time.Duration(f.deadline) * time.Millisecond)
	}
	if ids := said.fields[3]; ids != nil {
		r := reader{ids}
		command := r.varint()
		must(command > 0 && !s.running[command], rCommandID, "command %d", command)
		s.running[command], call.command = true, command
	}
	s.begin(call)
}

// method is the codec and the path that a request names, or named before.
func (s *session) method(said *metadata) (named method) {
	name, number := said.fields[2], said.number(1, 1<<53)
	must(number < 1<<53 || len(name) > 0, rMalformed, "a request without a method")
	if len(name) > 0 {
		named = method{name[0], strings.TrimPrefix(string(name[1:]), "/")}
		if number == 1<<53 {
			return named
		}
		isDue := number == uint64(len(s.methods)) && number < methodsMax
		must(isDue, rMethodsMax, "a method's number out of turn")
		s.methods = append(s.methods, named)
	}
	must(number < uint64(len(s.methods)), rUnknownMethod, "method %d was not named", number)
	return s.methods[number]
}

func (s *session) onItems(f *frame, call *stream) {
	size := len(f.payload)
	s.arrived(call, size)
	if call == nil || call.isAsked && call.isCancelled {
		s.consumed(call, size)
		return
	}
	must(!call.isWhole && (call.hasHead || !call.isAsked), rUnexpected, "items out of place")
	must(size > 0, rMalformed, "items without an item")
	if isMore := f.flags&fMore != 0; isMore || len(call.partial) > 0 {
		call.partial = append(call.partial, f.payload...)
		must(len(call.partial) <= bodyMax, rTooLarge, "an item over body_max")
		if !isMore {
			call.items, call.partial = append(call.items, item{call.partial, 0}), nil
		}
		// An item over the credit would never be whole otherwise; body_max bounds it.
		s.consumed(call, size)
	} else {
		for r := (reader{f.payload}); len(r.data) > 0; {
			call.items = append(call.items, item{data: r.string()})
		}
		call.items[len(call.items)-1].cost = size
	}
	call.changed.Broadcast()
}

func (s *session) onEnd(f *frame, call *stream) {
	if call == nil {
		return
	}
	must(call.hasHead || !call.isAsked && !call.isWhole, rUnexpected, "an end out of place")
	call.isWhole = true
	if call.isAsked {
		call.trailers = readMetadata(f.metadata).headers
		s.end(call, nil)
	}
	call.changed.Broadcast()
}

func (s *session) onCancel(_ *frame, call *stream) {
	switch {
	case call == nil || call.isCancelled:
	case call.isAsked: // No more items are wanted; the end of them is.
		call.out = call.out[max(0, len(call.out)-1):]
	default:
		call.isCancelled = true
		// A command with one reply runs on, and says at its end that it ran.
		if call.command == 0 || call.isStreaming || call.hasHead {
			said := putError(nil, &Error{Code: Canceled, Message: gaveUp})
			s.main = putFrame(s.main, frame{kind: kError, stream: call.number, metadata: said})
			s.end(call, nil)
		}
	}
}

func (s *session) onReply(f *frame, call *stream) {
	said, isEnd := readMetadata(f.metadata), f.flags&fEnd != 0
	checkAnswer(f, call)
	must(f.flags&fUnchanged == 0, rMalformed, "nothing to be unchanged from")
	must(!call.hasHead, rUnexpected, "a second reply")
	must(isEnd || len(f.payload) == 0, rMalformed, "a payload before items")
	call.hasHead, call.payload, call.headers = true, f.payload, said.headers
	if isEnd {
		call.trailers = said.trailers
		s.end(call, nil)
	} else {
		call.isStreaming = true
	}
}

func (s *session) onError(f *frame, call *stream) {
	checkAnswer(f, call)
	s.end(call, readError(readMetadata(f.metadata)))
}

func checkAnswer(f *frame, call *stream) {
	must(call != nil && call.isAsked, rStreamNumber, "an answer on stream %d", f.stream)
	must(f.flags&fWatched == 0, rUnexpected, "a watch that was not asked for")
}

// -------------------------------------------------------------------------------------------------- credit

// flows are those that items of a call count in.
func (s *session) flows(call *stream) []*flow {
	if call == nil {
		return []*flow{&s.flow}
	}
	return []*flow{&call.flow, &s.flow}
}

func (s *session) arrived(call *stream, size int) {
	for _, flow := range s.flows(call) {
		must(flow.received < flow.window, rCredit, "items without credit")
		flow.received += size
	}
}

// consumed lets the peer send as much again.
func (s *session) consumed(call *stream, size int) {
	for _, flow := range s.flows(call) {
		flow.taken += size
		if isOver := call != nil && flow == &call.flow && call.isWhole; !isOver && flow.taken*4 >= flow.window {
			much := putVarint(nil, uint64(flow.taken))
			s.control = putFrame(s.control, frame{kind: kCredit, stream: flow.number, payload: much})
			flow.received, flow.taken = flow.received-flow.taken, 0
		}
	}
}

func (s *session) onCredit(f *frame, call *stream) {
	amount, credited := wholeNumber(f.payload), &s.flow
	if f.stream > 0 {
		if call == nil {
			return
		}
		credited = &call.flow
	}
	must(f.flags&fEnd == 0, rUnexpected, "an end is seen that was not sent")
	must(amount <= uint64(credited.sent), rCredit, "credit for what was not sent")
	credited.sent -= int(amount)
}

func (s *session) takeItem(call *stream) []byte {
	next := call.items[0]
	call.items = call.items[1:]
	if call.isOpen && next.cost > 0 {
		s.consumed(call, next.cost)
	}
	return next.data
}

// -------------------------------------------------------------------------------------------------- ends

// end says that a call is over: its last frame came, is being sent, or never will be.
func (s *session) end(call *stream, failure error) {
	if !call.isOpen {
		return
	}
	delete(s.calls, call.number)
	call.isOpen, call.failure, call.out = false, failure, nil
	s.consumed(nil, call.received-call.taken)
	if call.isAsked {
		call.isWhole = true
		delete(s.asked, call.number)
		s.free = append(s.free, call.number)
		if call.isStreaming && s.closed == "" {
			s.control = putFrame(s.control, frame{kind: kCredit, flags: fEnd, stream: call.number, payload: []byte{0}})
		}
		s.room.Signal()
	} else {
		delete(s.running, call.command)
		if call.isCancelled && call.cancel != nil && !call.runsOn {
			call.cancel()
		}
	}
	call.changed.Broadcast()
}

// close ends the session: whoever waits is told.
func (s *session) close(why string) {
	if s.closed != "" {
		return
	}
	s.closed = why
	for _, call := range s.calls {
		code := Unavailable
		if call.command > 0 {
			code = Aborted
		}
		call.isCancelled = call.isCancelled || !call.isAsked
		s.end(call, &Error{Code: code, Message: "the gateway is gone: " + why, Outcome: OutcomeUnknown})
	}
	s.room.Broadcast()
}
