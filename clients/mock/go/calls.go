package mock

import (
	"encoding/json"
	"strings"
)

// Call is a call that came.
type Call struct {
	Number  uint64 `json:",string"`
	Method  string
	Session string
	// Rule is the response that answered, FILE:LINE; empty where the schema alone did.
	Rule string
	// Code is "ok", or the code of the error: "canceled" if the caller left, "deadline_exceeded" if its
	// deadline passed. It is "running" while the call runs, and the fault, such as "reset", if one broke the answer.
	Code string
	// Reason is the message of the error; empty without one.
	Reason string
	// Requests are the messages as JSON, without what is called a secret.
	Requests []string
	// Headers are those that it came with.
	Headers []Header
}

// Header is a header of a call; one that is called a secret has no value.
type Header struct {
	Name, Value string
}

// Request reads the message of a call, or the first of a stream.
func (c Call) Request() Doc {
	request := Doc{}
	if len(c.Requests) > 0 {
		_ = json.Unmarshal([]byte(c.Requests[0]), &request)
	}
	return request
}

// NearMiss is a call that no response with conditions answered.
type NearMiss struct {
	Call Call
	// Nearest is the response that came nearest.
	Nearest string
	// Misses is what of it did not hold.
	Misses []string
}

// Calls are those that came, the oldest first: of a method, or with an empty text of all.
func (s *scope) Calls(method string) []Call {
	s.t.Helper()
	var all []Call
	request := Doc{
		"method": strings.TrimPrefix(method, "/"), "session": s.session, "bodies": true, "limit": 1000,
	}
	for {
		var reply struct{ Calls []Call }
		if !s.ask("ListCalls", request, &reply) || len(reply.Calls) == 0 {
			return all
		}
		all = append(all, reply.Calls...)
		request["after"] = reply.Calls[len(reply.Calls)-1].Number
	}
}

// NearMisses are the calls that no response with conditions answered, the closest first, each with the response that
// came nearest.
func (s *scope) NearMisses() []NearMiss {
	s.t.Helper()
	var reply struct{ Misses []NearMiss }
	s.ask("NearMisses", Doc{"session": s.session, "limit": 1000}, &reply)
	own := reply.Misses
	if len(own) == 0 {
		return nil
	}
	// The mock tells them without messages and headers.
	whole := map[uint64]Call{}
	for _, call := range s.Calls("") {
		whole[call.Number] = call
	}
	for at := range own {
		if call, is := whole[own[at].Call.Number]; is {
			own[at].Call = call
		}
	}
	return own
}
