package tidewire

// Why calls fail, and what the caller is told of an error that a handler returns.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Codes of errors.
const (
	Canceled           = "canceled"
	Unknown            = "unknown"
	InvalidArgument    = "invalid_argument"
	DeadlineExceeded   = "deadline_exceeded"
	NotFound           = "not_found"
	AlreadyExists      = "already_exists"
	PermissionDenied   = "permission_denied"
	ResourceExhausted  = "resource_exhausted"
	FailedPrecondition = "failed_precondition"
	Aborted            = "aborted"
	OutOfRange         = "out_of_range"
	Unimplemented      = "unimplemented"
	Internal           = "internal"
	Unavailable        = "unavailable"
	DataLoss           = "data_loss"
	Unauthenticated    = "unauthenticated"
)

// codes are all of them by their numbers; the first is of no error.
var codes = []string{"ok", Canceled, Unknown, InvalidArgument, DeadlineExceeded, NotFound, AlreadyExists,
	PermissionDenied, ResourceExhausted, FailedPrecondition, Aborted, OutOfRange, Unimplemented, Internal,
	Unavailable, DataLoss, Unauthenticated}

// What is known of a call that has no answer, as Error.Outcome says it; 0 for the answer of a handler.
const (
	OutcomeNotRun  = 1
	OutcomeUnknown = 2
	OutcomeRan     = 3
	OutcomeBehind  = 4
)

// Detail is an encoded message that goes with an error. Type is its full name, shop.v1.Missing; one that begins with
// type.googleapis.com/ is the same. protobuf.WithDetails of tidewire.dev/go/protobuf makes details of messages.
type Detail struct {
	Type  string
	Value []byte
}

// Error is why a call failed: returned by handlers for their callers, and by calls of the gateway.
type Error struct {
	Code, Message     string
	Details           []Detail
	Headers, Trailers []Header
	Outcome           int
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Errorf is an error with a code, such as NotFound. A code that does not exist is a mistake of the handler: its caller
// gets `internal`, and the log names the code.
func Errorf(code, format string, values ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, values...)}
}

var (
	errUntold = Errorf(Internal, "the handler failed; its log says why")
	errUnread = Errorf(Internal, "the program cannot read the request; its log says why")
)

// unread is that a request does not fit what the program reads it into, which is not the handler's doing.
type unread struct{ why error }

func (u *unread) Error() string { return u.why.Error() }
func (u *unread) Unwrap() error { return u.why }

// withAdvice says beside an error of encoding/json what protobuf's JSON is like.
func withAdvice(err error) error {
	var unfit *json.UnmarshalTypeError
	if errors.As(err, &unfit) && unfit.Value == "string" && unfit.Type.Kind() >= reflect.Int && unfit.Type.Kind() <= reflect.Uint64 {
		return fmt.Errorf("%w; in protobuf's JSON 64-bit integers are text, which a field with `json:\"%s,string\"` reads, "+
			"and enums are their names, which a string reads", err, unfit.Field)
	}
	return err
}

// newsLine is what the log says of a call that failed.
func newsLine(path string, news error) string {
	if unread := (*unread)(nil); errors.As(news, &unread) {
		return fmt.Sprintf("a request of %s does not fit what the program reads it into: %v", path, news)
	}
	return fmt.Sprintf("the handler of %s failed: %v", path, news)
}

// callerError is what the caller gets for an error of a handler, and what the log says beside it, if anything.
func callerError(err error) (failed *Error, news error) {
	if errors.As(err, &failed) && failed != nil {
		if slices.Index(codes, failed.Code) > 0 {
			return failed, nil
		}
		return errUntold, fmt.Errorf("%s (the message of the error: %q)", noCode(failed.Code), failed.Message)
	}
	if failed := ofStatus(err); failed != nil {
		return failed, nil
	}
	var mismatch *unread
	switch {
	case errors.As(err, &mismatch):
		return errUnread, err
	case errors.Is(err, context.DeadlineExceeded):
		return Errorf(DeadlineExceeded, "%v", context.DeadlineExceeded), err
	case errors.Is(err, context.Canceled):
		return Errorf(Canceled, "%v", context.Canceled), err
	}
	return errUntold, err
}

// noCode says that a code does not exist, and which one was meant.
func noCode(code string) string {
	plain := func(code string) string {
		return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(code))
	}
	nearest, least := "", 0
	for _, known := range codes[1:] {
		if far := distance(plain(code), plain(known)); nearest == "" || far < least {
			nearest, least = known, far
		}
	}
	if least*3 > len(plain(code)) {
		return fmt.Sprintf("%q is no code of an error; the codes are %s", code, strings.Join(codes[1:], ", "))
	}
	return fmt.Sprintf("%q is no code of an error; did you mean %q?", code, nearest)
}

// distance is how many letters are to be put in, taken out or changed to come from one text to another.
func distance(from, to string) int {
	line := make([]int, len(to)+1)
	for at := range line {
		line[at] = at
	}
	for row := 0; row < len(from); row++ {
		before := line[0]
		line[0] = row + 1
		for at := 0; at < len(to); at++ {
			changed := before
			if from[row] != to[at] {
				changed++
			}
			before, line[at+1] = line[at+1], min(changed, line[at]+1, line[at+1]+1)
		}
	}
	return line[len(to)]
}

// ofStatus is what an error of grpc-go says, which is one with a method GRPCStatus, or has such a one within; nil for
// another one. It is read by reflection, so that this package depends on nothing.
func ofStatus(err error) *Error {
	if err == nil {
		return nil
	}
	if method := getter(reflect.ValueOf(err), "GRPCStatus"); method.IsValid() {
		return readStatus(method.Call(nil)[0])
	}
	switch wrapping := err.(type) {
	case interface{ Unwrap() error }:
		return ofStatus(wrapping.Unwrap())
	case interface{ Unwrap() []error }:
		for _, wrapped := range wrapping.Unwrap() {
			if failed := ofStatus(wrapped); failed != nil {
				return failed
			}
		}
	}
	return nil
}

// getter is a method without parameters that has one result; invalid where there is none.
func getter(of reflect.Value, name string) reflect.Value {
	method := of.MethodByName(name)
	if method.IsValid() && (method.Type().NumIn() > 0 || method.Type().NumOut() != 1) {
		return reflect.Value{}
	}
	return method
}

func readStatus(status reflect.Value) *Error {
	failed := &Error{Code: Unknown}
	if code := getter(status, "Code"); code.IsValid() {
		if number := code.Call(nil)[0]; number.CanUint() && number.Uint() > 0 && number.Uint() < uint64(len(codes)) {
			failed.Code = codes[number.Uint()]
		}
	}
	if message := getter(status, "Message"); message.IsValid() {
		failed.Message = message.Call(nil)[0].String()
	}
	if whole := getter(status, "Proto"); whole.IsValid() {
		failed.Details = readDetails(whole.Call(nil)[0])
	}
	return failed
}

// readDetails reads those of a *google.rpc.Status: each is an Any.
func readDetails(status reflect.Value) (details []Detail) {
	list := member(status, "Details")
	if list.Kind() != reflect.Slice {
		return nil
	}
	for at := 0; at < list.Len(); at++ {
		name, value := member(list.Index(at), "TypeUrl"), member(list.Index(at), "Value")
		if name.Kind() == reflect.String && value.Kind() == reflect.Slice && value.Type().Elem().Kind() == reflect.Uint8 {
			details = append(details, Detail{name.String(), value.Bytes()})
		}
	}
	return details
}

// member is a field of what is pointed to; invalid where nothing is.
func member(of reflect.Value, name string) reflect.Value {
	if of.Kind() != reflect.Pointer || of.Elem().Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return of.Elem().FieldByName(name)
}
