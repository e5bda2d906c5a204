package tidewire

// What a session sends: answers and calls of this side, as frames that take turns.

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"time"
)

// take gives the bytes to be written now: connection frames, calls, then a turn for each stream.
func (s *session) take() []byte {
	out := s.control
	s.control = nil
	if s.isGreeted || s.closed != "" { // What the program says before it is greeted waits.
		out, s.main = append(out, s.main...), nil
	}
	if s.pong != nil {
		out, s.pong = putFrame(out, frame{kind: kPong, payload: s.pong}), nil
	}
	var waiting []*stream
	for len(s.line) > 0 && len(out) < payloadMax {
		call, before := s.line[0], len(out)
		s.line = s.line[1:]
		out = s.turn(call, out)
		if len(call.out) > 0 && len(out) > before {
			s.line = append(s.line, call)
		} else if len(call.out) > 0 {
			waiting = append(waiting, call)
		}
	}
	s.line = append(s.line, waiting...)
	return out
}

// turn adds the next frame of a call; none while it has no credit.
func (s *session) turn(call *stream, out []byte) []byte {
	if len(call.out) == 0 { // It has ended since.
		return out
	}
	next := call.out[0]
	if next.isLast {
		call.out = nil
		if !call.isAsked {
			s.end(call, nil)
		}
		return append(out, next.data...)
	}
	if uint64(call.sent) >= s.peer.stream || uint64(s.sent) >= s.peer.connection {
		return out
	}
	call.out = call.out[1:]
	call.queued -= len(next.data)
	call.sent += len(next.data)
	s.sent += len(next.data)
	call.changed.Broadcast()
	return putFrame(out, frame{kind: kItems, stream: call.number, flags: next.flags, payload: next.data})
}

// isDue is whether there may be something to be written.
func (s *session) isDue() bool {
	return len(s.control)+len(s.main)+len(s.line) > 0 || s.pong != nil
}

// isFull is whether so much is to be written that no more is to be read; who waits for answers reads on.
func (s *session) isFull() bool {
	limit := outputMax
	if len(s.asked) > 0 {
		limit = bodyMax
	}
	return len(s.control)+len(s.main) > limit
}

var errTooLong = Errorf(Internal, "headers are over what a gateway takes")

// metadata is that of a frame; what an answer was made of is said in the room that is left.
func (s *session) metadata(out []byte, headers, trailers []Header, depends [][]string) ([]byte, bool) {
	var last []byte
	if len(trailers) > 0 {
		last = putHeaders([]byte{7, 0}, trailers)
	}
	out = putHeaders(out, headers)
	if len(depends) > 0 {
		out = putDepends(out, depends, int(s.peer.metadata)-len(out)-len(last))
	}
	out = append(out, last...)
	return out, uint64(len(out)) <= s.peer.metadata
}

// open sends the head of an answer whose items follow.
func (s *session) open(call *stream, said *answer) { s.head(call, said, nil, nil, 0) }

// head sends the head of an answer, or all of it.
func (s *session) head(call *stream, said *answer, trailers []Header, payload []byte, flags byte) {
	if !call.isOpen || call.hasHead {
		return
	}
	var out []byte
	if said.maxAge > 0 {
		out = putNumber(out, 5, said.maxAge)
	}
	if said.status > 0 && said.status != 200 {
		out = putNumber(out, 14, uint64(said.status))
	}
	out, fits := s.metadata(out, said.headers, trailers, said.depends)
	if !fits {
		s.fail(call, errTooLong, said.depends)
		return
	}
	if call.verb != "" {
		flags |= fHTTP
	}
	call.hasHead = true
	s.main = putFrame(s.main, frame{kind: kReply, stream: call.number, flags: flags, metadata: out, payload: payload})
	if flags&fEnd != 0 {
		s.end(call, nil)
	}
}

// reply answers a call whole.
func (s *session) reply(call *stream, payload []byte, said *answer) {
	switch {
	case uint64(len(payload)) > s.peer.body:
		text := fmt.Sprintf("a reply of %d bytes is over body_max = %d", len(payload), s.peer.body)
		s.fail(call, &Error{Code: ResourceExhausted, Message: text, Outcome: OutcomeRan}, nil)
	case call.isCancelled:
		s.fail(call, nil, nil)
	case len(payload) > smallMax:
		s.open(call, said)
		s.push(call, payload)
		s.finish(call, said.trailers)
	default:
		s.head(call, said, said.trailers, payload, fEnd)
	}
}

// enlist adds what a call has to send; it takes turns, until the frame that is its last.
func (s *session) enlist(call *stream, next chunk) {
	if !call.isOpen || len(call.out) > 0 && call.out[len(call.out)-1].isLast {
		return
	}
	if len(call.out) == 0 {
		s.line = append(s.line, call)
	}
	call.out = append(call.out, next)
	if !next.isLast {
		call.queued += len(next.data)
	}
}

// push queues an item; there is room for more while `queued` is small.
func (s *session) push(call *stream, data []byte) {
	if len(data) > piece {
		for ; len(data) > piece; data = data[piece:] {
			s.enlist(call, chunk{data: data[:piece], flags: fMore})
		}
		s.enlist(call, chunk{data: data})
		return
	}
	encoded := putString(nil, data)
	if at := len(call.out) - 1; at >= 0 && call.out[at].isOpen && len(call.out[at].data)+len(encoded) <= piece {
		call.out[at].data = append(call.out[at].data, encoded...)
		call.queued += len(encoded)
	} else {
		s.enlist(call, chunk{data: encoded, isOpen: true})
	}
}

// finish ends a call of the gateway, or the request of one of this side, after its items.
func (s *session) finish(call *stream, trailers []Header) {
	if out, fits := s.metadata(nil, trailers, nil, nil); fits {
		s.enlist(call, chunk{data: putFrame(nil, frame{kind: kEnd, stream: call.number, metadata: out}), isLast: true})
	} else {
		s.fail(call, errTooLong, nil)
	}
}

// withTrailers is an error with what the handler said beside it.
func (e *Error) withTrailers(trailers []Header) *Error {
	if len(trailers) == 0 {
		return e
	}
	said := *e
	said.Trailers = append(append([]Header(nil), e.Trailers...), trailers...)
	return &said
}

// fail ends a call with an error; that of a command whose caller gave up is that it ran.
func (s *session) fail(call *stream, failed *Error, depends [][]string) {
	if call.isCancelled {
		failed, depends = &Error{Code: Canceled, Message: gaveUp, Outcome: OutcomeRan}, nil
	}
	out, fits := s.metadata(putError(nil, failed), failed.Headers, failed.Trailers, depends)
	if !fits {
		out, _ = s.metadata(putError(nil, errTooLong), nil, nil, depends)
	}
	s.enlist(call, chunk{data: putFrame(nil, frame{kind: kError, stream: call.number, metadata: out}), isLast: true})
}

// ask calls the gateway; it waits while no call is free.
func (s *session) ask(path string, codec byte, payload []byte, parent uint32, ctx context.Context, o options) (*stream, error) {
	for s.closed == "" && !s.isDraining && ctx.Err() == nil && (!s.isGreeted || uint64(len(s.asked)) >= s.peer.calls) {
		s.room.Wait()
	}
	if s.closed != "" || s.isDraining {
		return nil, &Error{Code: Unavailable, Message: "the gateway takes no calls any more", Outcome: OutcomeNotRun}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	headers, fits := s.metadata(nil, o.headers, nil, nil)
	if !fits {
		return nil, errTooLong
	}
	number := uint32(2*len(s.asked) + 1)
	if last := len(s.free) - 1; last >= 0 {
		number, s.free = s.free[last], s.free[:last]
	}
	call := s.newStream(number)
	s.asked[number], call.codec = call, codec
	out := s.name(method{codec, path})
	if !o.query {
		call.command, s.nextCommand = s.nextCommand, s.nextCommand+1
		done := call.command
		for _, other := range s.asked {
			if other.command > 0 {
				done = min(done, other.command)
			}
		}
		out = putField(out, 3, putVarint(putVarint(nil, call.command), done))
	}
	if parent > 0 {
		out = putNumber(out, 19, uint64(parent))
	}
	f := frame{kind: kRequest, stream: number, flags: fEnd, metadata: append(out, headers...), payload: payload}
	if deadline, ok := ctx.Deadline(); ok {
		f.deadline = deadlineOf(deadline.Sub(s.now()))
	}
	if call.isStreaming = len(payload) > smallMax; !call.isStreaming {
		s.main = putFrame(s.main, f)
		return call, nil
	}
	f.flags, f.payload = 0, nil
	s.main = putFrame(s.main, f)
	s.push(call, payload)
	s.finish(call, nil)
	return call, nil
}

// name says which method is called: by its number, where it has one, with its name the first time.
func (s *session) name(called method) (out []byte) {
	number, isKnown := s.called[called]
	if !isKnown && uint64(len(s.called)) < s.peer.methods {
		number = uint64(len(s.called))
		s.called[called] = number
		out = putNumber(out, 1, number)
	} else if isKnown {
		return putNumber(out, 1, number)
	}
	return putField(out, 2, bytes.Join([][]byte{{called.codec, '/'}, []byte(called.path)}, nil))
}

// deadlineOf is a deadline in milliseconds, rounded up; 0 for none, as is one that is too far away to be said.
func deadlineOf(left time.Duration) uint32 {
	if left > math.MaxUint32*time.Millisecond {
		return 0
	}
	return uint32(max(1, (left+time.Millisecond-1)/time.Millisecond))
}

// cancel gives a call of this side up; its end is not waited for.
func (s *session) cancel(call *stream) {
	if call.isOpen && !call.isCancelled {
		call.isCancelled = true
		s.main = putFrame(s.main, frame{kind: kCancel, stream: call.number})
	}
}
