package tidewire

// This side of the live protocol without a socket: bytes in, bytes and calls out. What serves them is tidewire.go.

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"time"
)

type item struct {
	data []byte
	cost int // what its frame cost, with the last item of it
}

type chunk struct {
	data         []byte
	more, isOpen bool
}

// stream is one call, of either side: what came of it, and what is to be sent.
type stream struct {
	number                       uint32
	isAsked, isOpen, isCancelled bool
	path, verb                   string
	codec, flags                 byte
	headers, trailers            []Header
	payload                      []byte
	deadline                     time.Time
	isStreaming                  bool
	isWhole, hasHead             bool
	command                      uint64
	items                        []item
	partial                      []byte
	received, owed               int // bytes of items without credit, and of these taken
	chunks                       []chunk
	sent, queued                 int
	last                         []byte
	isStreamCall, hasReply       bool
	failure                      error
	heard, room                  chan struct{}
	cancel                       context.CancelFunc
}

func newStream(number uint32) *stream {
	return &stream{number: number, isOpen: true, heard: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

type limits struct{ body, calls, methods, stream, connection, metadata uint64 }

type method struct {
	codec byte
	path  string
}

// session is this side of the protocol without a socket: bytes in, bytes and calls out. Its owner has a lock.
type session struct {
	data, control, main      []byte
	isGreeted, isDraining    bool
	closed                   string
	peer                     limits
	methods                  []method
	called                   map[method]uint64
	calls, asked             map[uint32]*stream
	free                     []uint32
	slots                    uint32
	line                     []*stream
	sent, received, owed     int
	running                  map[uint64]bool
	pong                     []byte
	nextCommand, done        uint64
	ended                    map[uint64]bool
	now                      func() time.Time
	begin                    func(*stream)
	room                     *sync.Cond // of calls of this side
	window, connectionWindow int
}

func newSession(agent string, begin func(*stream), lock sync.Locker) *session {
	s := &session{called: map[method]uint64{}, calls: map[uint32]*stream{}, asked: map[uint32]*stream{},
		ended: map[uint64]bool{}, running: map[uint64]bool{}, nextCommand: 1, done: 1, now: time.Now, begin: begin,
		peer: limits{4 << 20, 1024, 1024, streamCredit, connectionCredit, 16384},
		room: sync.NewCond(lock), window: streamCredit, connectionWindow: connectionCredit}
	hello := putNumber(putNumber([]byte{1, 4, 1, 0, 1, 0}, 2, 2|32), 3, 32)
	hello = putField(putNumber(hello, 4, bodyMax), 16, agent)
	s.control = putFrame(nil, kHello, 0, 0, nil, hello, magic)
	return s
}

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
			s.main = putFrame(s.main, kGoaway, 0, 0, said, nil, 0)
			s.close(broken.text)
		}
	}()
	for s.closed == "" && len(s.data)-at >= 16 {
		head := s.data[at:]
		length, meta := int(binary.LittleEndian.Uint32(head)), int(binary.LittleEndian.Uint16(head[10:]))
		must(meta <= length, rMalformed, "metadata longer than its frame")
		must(length-meta <= payloadMax, rTooLarge, "a frame over the limit")
		must(meta <= metadataMax || !s.isGreeted, rMetadataMax, "metadata over the limit")
		if len(head) < 16+length {
			return
		}
		at += 16 + length
		body := append([]byte(nil), head[16:16+length]...)
		s.receive(head[8], binary.LittleEndian.Uint32(head[4:]), head[9], body[:meta], body[meta:],
			binary.LittleEndian.Uint32(head[12:]))
	}
}

// take gives the bytes to be written now: connection frames, calls, then a turn for each stream.
func (s *session) take() []byte {
	out := s.control
	s.control = nil
	if s.isGreeted || s.closed != "" { // What the program says before it is greeted waits.
		out, s.main = append(out, s.main...), nil
	}
	if s.pong != nil {
		out = putFrame(out, kPong, 0, 0, nil, s.pong, 0)
		s.pong = nil
	}
	var waiting []*stream
	for len(s.line) > 0 && len(out) < payloadMax {
		call := s.line[0]
		s.line = s.line[1:]
		frame := s.turn(call)
		out = append(out, frame...)
		if len(call.chunks) == 0 && call.last == nil {
			continue
		} else if frame == nil {
			waiting = append(waiting, call)
		} else {
			s.line = append(s.line, call)
		}
	}
	s.line = append(s.line, waiting...)
	return out
}

// turn is the next frame of a call; nil while it has no credit.
func (s *session) turn(call *stream) []byte {
	if len(call.chunks) == 0 {
		last := call.last
		call.last = nil
		if !call.isAsked {
			s.forget(call)
		}
		return last
	}
	if uint64(call.sent) >= s.peer.stream || uint64(s.sent) >= s.peer.connection {
		return nil
	}
	next := call.chunks[0]
	call.chunks = call.chunks[1:]
	call.queued -= len(next.data)
	call.sent += len(next.data)
	s.sent += len(next.data)
	ring(call.room)
	flags := byte(0)
	if next.more {
		flags = fMore
	}
	return putFrame(nil, kItems, call.number, flags, nil, next.data, 0)
}

// isFull is whether so much is to be written that no more is to be read; who waits for answers reads on.
func (s *session) isFull() bool {
	limit := outputMax
	if len(s.asked) > 0 {
		limit = bodyMax
	}
	return len(s.control)+len(s.main) > limit
}

// close ends the session: whoever waits is told.
func (s *session) close(why string) {
	if s.closed != "" {
		return
	}
	s.closed = why
	for _, call := range s.asked {
		code := "unavailable"
		if call.command > 0 {
			code = "aborted"
		}
		s.endAsked(call, &Error{Code: code, Message: "the gateway is gone: " + why, Outcome: Unknown})
	}
	for _, call := range s.calls {
		s.giveUp(call)
	}
	s.room.Broadcast()
}

func (s *session) receive(kind byte, number uint32, flags byte, meta, payload []byte, deadline uint32) {
	must(s.isGreeted || kind == kHello || kind == kGoaway, rMagic, "the first frame is not a hello")
	isOfCalls := kind >= kRequest && kind <= kEnd
	isOfBoth := kind == kCancel || kind == kCredit || kind == 0 || kind > kDescriptors
	must(isOfBoth || isOfCalls == (number > 0), rMalformed, "kind %d on stream %d", kind, number)
	must(!isOfCalls || flags&fZstd == 0, rFeature, "compression was not offered")
	switch kind {
	case kHello:
		s.onHello(payload, deadline)
	case kRequest:
		s.onRequest(number, flags, meta, payload, deadline)
	case kItems:
		s.onItems(s.find(number), flags, payload)
	case kEnd:
		s.onEnd(s.find(number), meta)
	case kCancel:
		if number > 0 {
			s.onCancel(s.find(number))
		}
	case kCredit:
		s.onCredit(number, flags, payload)
	case kReply, kError:
		s.onAnswer(kind, number, flags, meta, payload)
	case kPing:
		must(len(payload) <= 64, rMalformed, "a long ping")
		s.pong = append([]byte{}, payload...) // Of pings not yet answered the last alone is.
	case kStale:
		must(false, rUnknownStream, "staleness of what is no watch")
	case kResume, kResumed:
		must(false, rUnexpected, "a process resumes nothing")
	case kGoaway:
		said := readMetadata(meta)
		if reason := said.number(16, 0); reason > 0 || !s.isGreeted {
			s.close(fmt.Sprintf("reason %d: %s", reason, said.fields[9]))
		}
		s.isDraining = true
	}
}

// find is the call of a number; nil for one of the gateway that is over.
func (s *session) find(number uint32) *stream {
	if number%2 == 0 {
		must(number <= 2*callsMax, rStreamNumber, "stream %d is over the bound", number)
		return s.calls[number]
	}
	call := s.asked[number]
	must(call != nil, rUnknownStream, "stream %d is not open", number)
	return call
}

func (s *session) onHello(payload []byte, said uint32) {
	must(!s.isGreeted, rUnexpected, "a second hello")
	must(said == magic, rMagic, "not a hello")
	entries, r := metadata{fields: map[byte][]byte{}}, reader{payload}
	for len(r.data) > 0 {
		tag := r.byte()
		_, isTwice := entries.fields[tag]
		must(!isTwice, rMalformed, "field %d of a hello comes twice", tag)
		entries.fields[tag] = r.string()
	}
	must(len(entries.fields[1]) == 4, rMalformed, "a hello without versions")
	must(string(entries.fields[1]) == "\x01\x00\x01\x00", rVersion, "this side speaks version 1")
	must(entries.number(2, 0)&32 != 0, rFeature, "the gateway hosts no processes")
	s.peer = limits{entries.number(4, 4<<20), entries.number(5, 1024), entries.number(7, 1024),
		entries.number(8, streamCredit), entries.number(9, connectionCredit), entries.number(10, 16384)}
	s.isGreeted = true
	s.control = putFrame(s.control, kReady, 0, 0, nil, nil, 0)
	s.room.Broadcast()
}

func (s *session) onRequest(number uint32, flags byte, meta, payload []byte, deadline uint32) {
	must(number%2 == 0 && number <= 2*callsMax, rStreamNumber, "a request on stream %d", number)
	must(s.calls[number] == nil, rStreamInUse, "a request on stream %d", number)
	said, call := readMetadata(meta), newStream(number)
	must(said.fields[18] == nil, rFeature, "keys were not offered")
	if flags&fHTTP != 0 {
		must(said.fields[12] != nil && said.fields[13] != nil, rMalformed, "HTTP without method or target")
		call.verb, call.path = string(said.fields[12]), string(said.fields[13])
	} else {
		named := s.method(said)
		call.codec, call.path = named.codec, named.path
	}
	if deadline > 0 {
		call.deadline = s.now().Add(time.Duration(deadline) * time.Millisecond)
	}
	call.flags = flags & fHTTP
	call.headers, call.payload, call.isWhole = said.headers, payload, flags&fEnd != 0
	must(call.isWhole || len(payload) == 0, rMalformed, "a payload before items")
	if ids, isCommand := said.fields[3]; isCommand {
		r := reader{ids}
		call.command = r.varint()
		must(call.command > 0 && !s.running[call.command], rCommandID, "command %d", call.command)
		s.running[call.command] = true
	}
	call.isStreaming = !call.isWhole
	s.calls[number] = call
	s.begin(call)
}

func (s *session) method(said metadata) method {
	var named method
	name, hasName := said.fields[2]
	if hasName && len(name) > 0 {
		named = method{name[0], strings.TrimPrefix(string(name[1:]), "/")}
	}
	known := said.number(1, 1<<53)
	must(known < 1<<53 || len(name) > 0, rMalformed, "a request without a method")
	if known == 1<<53 {
		return named
	}
	if hasName {
		isDue := known == uint64(len(s.methods)) && known < methodsMax
		must(isDue, rMethodsMax, "a method's number out of turn")
		s.methods = append(s.methods, named)
	}
	must(known < uint64(len(s.methods)), rUnknownMethod, "method %d was not named", known)
	return s.methods[known]
}

func (s *session) onItems(call *stream, flags byte, payload []byte) {
	size := len(payload)
	must(s.received < s.connectionWindow, rCredit, "items without credit")
	s.received += size
	if call == nil {
		s.consumed(nil, size)
		return
	}
	must(call.received < s.window, rCredit, "items without credit")
	call.received += size
	if call.isAsked && call.isCancelled {
		s.consumed(call, size)
		return
	}
	must(!call.isWhole && (call.hasReply || !call.isAsked), rUnexpected, "items out of place")
	must(size > 0, rMalformed, "items without an item")
	if flags&fMore != 0 || len(call.partial) > 0 {
		call.partial = append(call.partial, payload...)
		must(len(call.partial) <= bodyMax, rTooLarge, "an item over body_max")
		// What is put together here is taken at once: it is bounded by body_max.
		s.consumed(call, size)
		if flags&fMore == 0 {
			call.items = append(call.items, item{call.partial, 0})
			call.partial = nil
		}
	} else {
		r := reader{payload}
		for len(r.data) > 0 {
			next := item{data: r.string()}
			if len(r.data) == 0 {
				next.cost = size
			}
			call.items = append(call.items, next)
		}
	}
	ring(call.heard)
}

func (s *session) onEnd(call *stream, meta []byte) {
	if call == nil {
		return
	}
	must(call.hasReply || !call.isAsked && !call.isWhole, rUnexpected, "an end out of place")
	if call.isAsked {
		call.trailers = readMetadata(meta).headers
		s.endAsked(call, nil)
		return
	}
	call.isWhole = true
	ring(call.heard)
}

func (s *session) onCredit(number uint32, flags byte, payload []byte) {
	amount, sent := int(wholeNumber(payload)), &s.sent
	if number > 0 {
		call := s.find(number)
		if call == nil {
			return
		}
		sent = &call.sent
	}
	must(flags&fEnd == 0, rUnexpected, "an end is seen that was not sent")
	must(amount <= *sent, rCredit, "credit for what was not sent")
	*sent -= amount
}

func (s *session) onCancel(call *stream) {
	if call == nil || call.isCancelled {
		return
	}
	if call.isAsked { // No more items are wanted; the end of them is.
		call.chunks = nil
		return
	}
	call.isCancelled = true
	if call.command == 0 || call.isStreaming || call.hasHead {
		s.main = putFrame(s.main, kError, call.number, 0, putField(putNumber(nil, 8, 1), 9, gaveUp), nil, 0)
		s.giveUp(call)
	}
}

func (s *session) giveUp(call *stream) {
	call.isCancelled = true
	s.forget(call)
	if call.cancel != nil {
		call.cancel()
	}
}

// forget ends a call of the gateway.
func (s *session) forget(call *stream) {
	if s.calls[call.number] == call {
		delete(s.calls, call.number)
		delete(s.running, call.command)
		call.isOpen = false
		s.drop(call)
	}
}

// drop reads and sends nothing more of a call.
func (s *session) drop(call *stream) {
	s.consumed(nil, call.received-call.owed)
	call.received, call.owed, call.chunks, call.last = 0, 0, nil, nil
	ring(call.heard)
	ring(call.room)
}

func (s *session) onAnswer(kind byte, number uint32, flags byte, meta, payload []byte) {
	must(number%2 == 1, rStreamNumber, "an answer on stream %d", number)
	call, said, isEnd := s.find(number), readMetadata(meta), flags&fEnd != 0
	must(flags&fWatched == 0, rUnexpected, "a watch that was not asked for")
	if kind == kError {
		failed := &Error{Code: "unknown", Message: string(said.fields[9]), Headers: said.headers, Trailers: said.trailers,
			Outcome: int(said.number(11, 0))}
		code := said.number(8, 0)
		must(code > 0, rMalformed, "an error without a code")
		if code < uint64(len(codes)) {
			failed.Code = codes[code]
		}
		for _, detail := range said.details {
			r := reader{detail}
			failed.Details = append(failed.Details, Detail{string(r.string()), r.data})
		}
		s.endAsked(call, failed)
		return
	}
	must(isEnd || !call.hasReply, rUnexpected, "a second reply")
	must(isEnd || len(payload) == 0, rMalformed, "a payload before items")
	must(flags&fUnchanged == 0, rMalformed, "nothing to be unchanged from")
	call.hasReply, call.payload, call.headers = true, payload, said.headers
	if isEnd {
		call.trailers = said.trailers
		s.endAsked(call, nil)
		return
	}
	call.isStreamCall = true
	ring(call.heard)
}

func (s *session) endAsked(call *stream, failure error) {
	if !call.isOpen {
		return
	}
	call.isOpen, call.isWhole, call.failure = false, true, failure
	s.drop(call)
	if call.isStreamCall && s.closed == "" {
		s.control = putFrame(s.control, kCredit, call.number, fEnd, nil, []byte{0}, 0)
	}
	delete(s.asked, call.number)
	s.free = append(s.free, call.number)
	if call.command > 0 {
		s.ended[call.command] = true
		for ; s.ended[s.done]; s.done++ {
			delete(s.ended, s.done)
		}
	}
	s.room.Signal()
}

// consumed lets the peer send as much again.
func (s *session) consumed(call *stream, size int) {
	pay := func(number uint32, window int, received, owed *int) {
		if *owed*4 >= window {
			s.control = putFrame(s.control, kCredit, number, 0, nil, putVarint(nil, uint64(*owed)), 0)
			*received -= *owed
			*owed = 0
		}
	}
	if call != nil {
		call.owed += size
		if !call.isWhole {
			pay(call.number, s.window, &call.received, &call.owed)
		}
	}
	s.owed += size
	pay(0, s.connectionWindow, &s.received, &s.owed)
}

func (s *session) takeItem(call *stream) []byte {
	next := call.items[0]
	call.items = call.items[1:]
	if call.isOpen && next.cost > 0 {
		s.consumed(call, next.cost)
	}
	return next.data
}

// putDepends says what an answer was made of, in at most so many bytes: every key, or else the sources, as any key of
// theirs may be one of it, or else that it cannot be told; the answer is not kept then.
func putDepends(out []byte, depends [][]string, room int) []byte {
	for _, parts := range []int{2, 1} {
		if said, fits := madeOf(depends, parts, room); fits {
			return append(out, said...)
		}
	}
	return putField(out, 15, "")
}

func madeOf(depends [][]string, parts, room int) (out []byte, fits bool) {
	seen := map[string]bool{}
	for _, named := range depends {
		var value []byte
		for _, part := range named[:min(parts, len(named))] {
			value = putString(value, part)
		}
		if seen[string(value)] {
			continue
		}
		seen[string(value)] = true
		if out = putField(out, 15, value); len(out) > room {
			return nil, false
		}
	}
	return out, true
}

// cut is the beginning of a text in at most so many bytes.
func cut(text string, size int) string {
	return strings.ToValidUTF8(text[:min(len(text), size)], "")
}

func (s *session) head(said answer) []byte {
	var out []byte
	if said.maxAge > 0 {
		out = putNumber(out, 5, said.maxAge)
	}
	if said.status > 0 && said.status != 200 {
		out = putNumber(out, 14, uint64(said.status))
	}
	out, trailers := putHeaders(out, said.headers), putTrailers(nil, said.trailers)
	out = putDepends(out, said.depends, int(s.peer.metadata)-len(out)-len(trailers))
	return append(out, trailers...)
}

var errTooLong = Errorf("internal", "headers are over what a gateway takes")

// reply answers a call whole.
func (s *session) reply(call *stream, payload []byte, said answer) {
	metadata := s.head(said)
	switch {
	case !call.isOpen:
	case uint64(len(payload)) > s.peer.body:
		text := fmt.Sprintf("a reply of %d bytes is over body_max = %d", len(payload), s.peer.body)
		s.fail(call, &Error{Code: "resource_exhausted", Message: text, Outcome: Ran}, nil)
	case uint64(len(metadata)) > s.peer.metadata:
		s.fail(call, errTooLong, said.depends)
	case call.isCancelled:
		s.fail(call, nil, nil)
	case len(payload) > smallMax:
		trailers := said.trailers
		said.trailers = nil
		s.open(call, said)
		s.push(call, payload)
		s.finish(call, trailers)
	default:
		s.main = putFrame(s.main, kReply, call.number, fEnd|call.flags, metadata, payload, 0)
		s.forget(call)
	}
}

// open sends the head of an answer whose items follow.
func (s *session) open(call *stream, said answer) {
	if !call.isOpen || call.hasHead {
		return
	}
	if head := s.head(said); uint64(len(head)) > s.peer.metadata {
		s.fail(call, errTooLong, said.depends)
	} else {
		call.hasHead = true
		s.main = putFrame(s.main, kReply, call.number, call.flags, head, nil, 0)
	}
}

// push queues an item; there is room for more while `queued` is small.
func (s *session) push(call *stream, data []byte) {
	if !call.isOpen {
		return
	}
	if len(call.chunks) == 0 && call.last == nil {
		s.line = append(s.line, call)
	}
	if len(data) > piece {
		for at := 0; at < len(data); at += piece {
			end := min(at+piece, len(data))
			call.chunks = append(call.chunks, chunk{data: data[at:end], more: end < len(data)})
		}
		call.queued += len(data)
	} else {
		encoded := putString(nil, data)
		if last := len(call.chunks) - 1; last >= 0 && call.chunks[last].isOpen && len(call.chunks[last].data)+len(encoded) <= piece {
			call.chunks[last].data = append(call.chunks[last].data, encoded...)
		} else {
			call.chunks = append(call.chunks, chunk{data: encoded, isOpen: true})
		}
		call.queued += len(encoded)
	}
}

// finish ends a call of the gateway, or the request of one of this side, after its items.
func (s *session) finish(call *stream, trailers []Header) {
	metadata := putHeaders(nil, trailers)
	if uint64(len(metadata)) > s.peer.metadata {
		s.fail(call, errTooLong, nil)
	}
	if call.isOpen && call.last == nil {
		call.last = putFrame(nil, kEnd, call.number, 0, metadata, nil, 0)
		if len(call.chunks) == 0 {
			s.line = append(s.line, call)
		}
	}
}

// fail ends a call with an error; nil for a command whose caller gave up.
func (s *session) fail(call *stream, failed *Error, depends [][]string) {
	if !call.isOpen {
		return
	}
	var out []byte
	if call.isCancelled || failed == nil {
		out = putNumber(putField(putNumber(out, 8, 1), 9, gaveUp), 11, Ran)
	} else {
		code := uint64(2)
		for number, name := range codes {
			if name == failed.Code && number > 0 {
				code = uint64(number)
			}
		}
		out = putNumber(out, 8, code)
		if failed.Message != "" {
			out = putField(out, 9, cut(failed.Message, 1024))
		}
		for _, detail := range failed.Details {
			out = putField(out, 10, append(putString(nil, cut(detail.Type, len(detail.Type))), detail.Value...))
		}
		if failed.Outcome > 0 {
			out = putNumber(out, 11, uint64(failed.Outcome))
		}
		trailers := putTrailers(nil, failed.Trailers)
		out = putHeaders(out, failed.Headers)
		out = append(putDepends(out, depends, int(s.peer.metadata)-len(out)-len(trailers)), trailers...)
	}
	if uint64(len(out)) > s.peer.metadata {
		out = putField(putNumber(nil, 8, 13), 9, errTooLong.Message)
		out = putDepends(out, depends, int(s.peer.metadata)-len(out))
	}
	frame := putFrame(nil, kError, call.number, 0, out, nil, 0)
	if len(call.chunks) > 0 {
		call.last = frame
		return
	}
	s.main = append(s.main, frame...)
	s.forget(call)
}

// ask calls the gateway; it waits while no call is free.
func (s *session) ask(path string, codec byte, payload []byte, parent uint32, deadline time.Time, o options) (*stream, error) {
	for s.closed == "" && !s.isDraining && (!s.isGreeted || uint64(len(s.asked)) >= s.peer.calls) {
		s.room.Wait()
	}
	if s.closed != "" || s.isDraining {
		return nil, &Error{Code: "unavailable", Message: "the gateway takes no calls any more", Outcome: NotRun}
	}
	headers := putHeaders(nil, o.headers)
	if uint64(len(headers)) > s.peer.metadata {
		return nil, errTooLong
	}
	if len(s.free) == 0 {
		s.free = append(s.free, 2*s.slots+1)
		s.slots++
	}
	call := newStream(s.free[len(s.free)-1])
	s.free = s.free[:len(s.free)-1]
	call.isAsked, call.codec = true, codec
	var out []byte
	named := method{codec, path}
	number, known := s.called[named]
	if !known && uint64(len(s.called)) < s.peer.methods {
		number = uint64(len(s.called))
		s.called[named] = number
		out = putNumber(out, 1, number)
	} else if known {
		out = putNumber(out, 1, number)
	}
	if !known {
		out = putField(out, 2, string(rune(codec))+"/"+path)
	}
	if !o.query {
		call.command = s.nextCommand
		s.nextCommand++
		out = putField(out, 3, putVarint(putVarint(nil, call.command), s.done))
	}
	if parent > 0 {
		out = putNumber(out, 19, uint64(parent))
	}
	out = append(out, headers...)
	left := uint32(0)
	if !deadline.IsZero() {
		left = uint32(max(1, (deadline.Sub(s.now())+time.Millisecond-1)/time.Millisecond))
	}
	s.asked[call.number] = call
	if len(payload) <= smallMax {
		s.main = putFrame(s.main, kRequest, call.number, fEnd, out, payload, left)
		return call, nil
	}
	s.main = putFrame(s.main, kRequest, call.number, 0, out, nil, left)
	call.isStreamCall = true
	s.push(call, payload)
	s.finish(call, nil)
	return call, nil
}

// cancel gives a call of this side up; its end is not waited for.
func (s *session) cancel(call *stream) {
	if call.isOpen && !call.isCancelled {
		call.isCancelled = true
		s.main = putFrame(s.main, kCancel, call.number, 0, nil, nil, 0)
	}
}
