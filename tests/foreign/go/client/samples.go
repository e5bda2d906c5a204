package main

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"tidewire.test/foreign/gen/behaviourv1"
)

// failMessage has what a header value cannot hold as it is: percent signs, umlauts, a line break.
const failMessage = "asked to fail: 100 % grün\nsecond line"

// sample is one message that a round trip must leave as it was.
type sample struct {
	name    string
	message *behaviourv1.EchoRequest
}

func samples() []sample {
	everyByte := make([]byte, 256)
	for i := range everyByte {
		everyByte[i] = byte(i)
	}
	large := make([]byte, 1<<20)
	state := uint32(1)
	for i := range large {
		state = state*1664525 + 1013904223
		large[i] = byte(state >> 24)
	}
	return []sample{
		{"empty", &behaviourv1.EchoRequest{}},
		{"text", &behaviourv1.EchoRequest{Text: "grüße, 世界, \"quoted\" \\ \u0000 \u2028", Tags: []string{"a", "", "c"}}},
		{"int64-min", &behaviourv1.EchoRequest{Number: math.MinInt64}},
		{"int64-max", &behaviourv1.EchoRequest{Number: math.MaxInt64}},
		{"int64-past-double", &behaviourv1.EchoRequest{Number: 1<<53 + 1}},
		{"bytes", &behaviourv1.EchoRequest{Data: everyByte}},
		{"double-small", &behaviourv1.EchoRequest{Ratio: 0.1}},
		{"double-tiny", &behaviourv1.EchoRequest{Ratio: 5e-324}},
		{"double-infinite", &behaviourv1.EchoRequest{Ratio: math.Inf(-1)}},
		{"map", &behaviourv1.EchoRequest{Counts: map[string]int32{"": 0, "one": 1, "ünder": -2147483648}}},
		{"timestamp", &behaviourv1.EchoRequest{At: &timestamppb.Timestamp{Seconds: 1700000000, Nanos: 123456789}}},
		{"timestamp-before-1970", &behaviourv1.EchoRequest{At: &timestamppb.Timestamp{Seconds: -62135596800}}},
		{"nested", &behaviourv1.EchoRequest{Nested: &behaviourv1.Nested{
			Name:     "root",
			Children: []*behaviourv1.Nested{{}, {Name: "leaf", Children: []*behaviourv1.Nested{{Name: "deep"}}}},
		}}},
		{"large", &behaviourv1.EchoRequest{Data: large}},
	}
}

// compressible is a message that every compressor makes smaller.
func compressible() *behaviourv1.EchoRequest {
	return &behaviourv1.EchoRequest{Text: strings.Repeat("tidewire ", 8192)}
}

// echoed checks a reply against its request: both types have the same fields under the same numbers.
func echoed(request *behaviourv1.EchoRequest, reply *behaviourv1.EchoReply) error {
	options := proto.MarshalOptions{Deterministic: true}
	want, err := options.Marshal(request)
	if err != nil {
		return err
	}
	got, err := options.Marshal(reply)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("the reply differs from the request: %d bytes for %d; got %.300s", len(got), len(want), reply)
	}
	return nil
}

// checkDetail checks the detail that Fail attaches.
func checkDetail(detail proto.Message, code uint32) error {
	fail, ok := detail.(*behaviourv1.FailDetail)
	if !ok {
		return fmt.Errorf("the detail is a %T, want FailDetail", detail)
	}
	if err := same("detail.reason", fail.Reason, "asked for"); err != nil {
		return err
	}
	return same("detail.number", fail.Number, int32(code))
}
