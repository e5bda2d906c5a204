package tidewire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
)

// What follows has the methods of google.golang.org/grpc and its messages.

type grpcCode uint32

type grpcAny struct {
	TypeUrl string
	Value   []byte
}

type grpcProto struct{ Details []*grpcAny }

type grpcStatus struct {
	code    grpcCode
	message string
	details []*grpcAny
}

func (s *grpcStatus) Code() grpcCode {
	if s == nil {
		return 0
	}
	return s.code
}

func (s *grpcStatus) Message() string {
	if s == nil {
		return ""
	}
	return s.message
}

func (s *grpcStatus) Proto() *grpcProto {
	if s == nil {
		return nil
	}
	return &grpcProto{s.details}
}

type grpcError struct{ status *grpcStatus }

func (e *grpcError) Error() string           { return "rpc error: " + e.status.Message() }
func (e *grpcError) GRPCStatus() *grpcStatus { return e.status }

type withParameter struct{}

func (withParameter) Error() string        { return "another method of that name" }
func (withParameter) GRPCStatus(int) error { return nil }

func TestAStatusOfGrpcKeepsItsCodeItsMessageAndItsDetails(t *testing.T) {
	status := &grpcError{&grpcStatus{5, "no tea", []*grpcAny{{"type.googleapis.com/x.Y", []byte("z")}}}}
	want := &Error{Code: NotFound, Message: "no tea", Details: []Detail{{"type.googleapis.com/x.Y", []byte("z")}}}
	for _, err := range []error{status, fmt.Errorf("asked: %w", status), errors.Join(io.EOF, status)} {
		if failed, news := callerError(err); !reflect.DeepEqual(failed, want) || news != nil {
			t.Errorf("%v: %v %v", err, failed, news)
		}
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&grpcError{&grpcStatus{code: 16}}, Unauthenticated},
		{&grpcError{&grpcStatus{code: 99}}, Unknown},
		{&grpcError{nil}, Unknown},
		{withParameter{}, Internal},
		{errors.Join(status, Errorf(Aborted, "ours goes before")), Aborted},
	} {
		if failed, _ := callerError(c.err); failed.Code != c.want {
			t.Errorf("%#v: %v", c.err, failed)
		}
	}
}

func TestTheEndOfAContextIsACodeOfItsOwnAndToldInTheLog(t *testing.T) {
	for err, code := range map[error]string{
		context.DeadlineExceeded: DeadlineExceeded,
		context.Canceled:         Canceled,
		io.EOF:                   Internal,
	} {
		within := fmt.Errorf("in a database with a secret: %w", err)
		failed, news := callerError(within)
		if failed.Code != code || strings.Contains(failed.Message, "secret") || news != within {
			t.Errorf("%v: %v %v", err, failed, news)
		}
	}
}

func TestACodeThatDoesNotExistIsInternalAndNamedInTheLog(t *testing.T) {
	for code, meant := range map[string]string{
		"notfound": NotFound, "NOT_FOUND": NotFound, "NotFound": NotFound, "not_fund": NotFound, "cancelled": Canceled,
		"unauthorized": "", "404": "", "": "", "ok": "",
	} {
		failed, news := callerError(fmt.Errorf("within: %w", Errorf(code, "there is no item %d", 7)))
		if failed.Code != Internal || strings.Contains(failed.Message, "item") {
			t.Error(code, failed)
		}
		want := fmt.Sprintf("%q is no code of an error; the codes are canceled, unknown, ", code)
		if meant != "" {
			want = fmt.Sprintf("%q is no code of an error; did you mean %q?", code, meant)
		}
		if !strings.HasPrefix(news.Error(), want) || !strings.Contains(news.Error(), "there is no item 7") {
			t.Error(news)
		}
	}
	for _, code := range codes[1:] {
		if failed, news := callerError(Errorf(code, "")); failed.Code != code || news != nil {
			t.Error(code, failed, news)
		}
	}
}

func TestTheTypeOfADetailIsItsNameOnTheWireHoweverItIsWritten(t *testing.T) {
	for _, name := range []string{"x.Y", "type.googleapis.com/x.Y", "/x.Y"} {
		failed := &Error{Code: NotFound, Details: []Detail{{name, []byte("z")}}}
		again := readError(readMetadata(putError(nil, failed)))
		if !reflect.DeepEqual(again.Details, []Detail{{"x.Y", []byte("z")}}) {
			t.Error(name, again.Details)
		}
	}
}
