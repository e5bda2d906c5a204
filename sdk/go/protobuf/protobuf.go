// Package protobuf lets handlers and calls of tidewire.dev/go take the types that protoc-gen-go has made:
//
//	app := tidewire.New()
//	protobuf.Use(app)
//	tidewire.Unary(app, "shop.v1.Shop/GetItem", func(c *tidewire.Context, request *shopv1.ItemRequest) (*shopv1.Item, error) {
//		return &shopv1.Item{Id: request.Id}, nil
//	})
//
// Messages pass as protobuf, or as its JSON where tidewire.toml says codec = "json". Handlers beside them may take
// []byte, and structs where messages pass as JSON.
package protobuf

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"tidewire.dev/go"
)

// Use lets an app take messages of google.golang.org/protobuf.
func Use(app *tidewire.App) {
	app.Marshal, app.Unmarshal = marshal, unmarshal
	app.MarshalJSON, app.UnmarshalJSON = marshalJSON, unmarshalJSON
}

// foreign is what a message is that is none of google.golang.org/protobuf.
func foreign(message any) error {
	const form = `a %T is no message of google.golang.org/protobuf, as a pointer to a generated type is; ` +
		`take one, or write codec = "json" for this service in tidewire.toml: %w`
	return fmt.Errorf(form, message, errors.ErrUnsupported)
}

func marshal(message any) ([]byte, error) {
	if known, is := message.(proto.Message); is {
		return proto.Marshal(known)
	}
	return nil, foreign(message)
}

func unmarshal(data []byte, message any) error {
	if known, is := message.(proto.Message); is {
		return proto.Unmarshal(data, known)
	}
	return foreign(message)
}

func marshalJSON(message any) ([]byte, error) {
	if known, is := message.(proto.Message); is {
		return protojson.Marshal(known)
	}
	return json.Marshal(message)
}

// What a newer `.proto` has more is passed over, as it is in protobuf.
func unmarshalJSON(data []byte, message any) error {
	if known, is := message.(proto.Message); is {
		return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, known)
	}
	return json.Unmarshal(data, message)
}

// WithDetails is an error with messages that say more, for a handler to return:
//
//	return nil, protobuf.WithDetails(tidewire.Errorf(tidewire.NotFound, "there is no item %d", id), &shopv1.Missing{Id: id})
//
// One that cannot be encoded is an error of another type, and so `internal` for the caller.
func WithDetails(failed *tidewire.Error, details ...proto.Message) error {
	whole := *failed
	whole.Details = whole.Details[:len(whole.Details):len(whole.Details)]
	for _, detail := range details {
		value, err := proto.Marshal(detail)
		if err != nil {
			return fmt.Errorf("a detail of the error %q: %w", failed.Error(), err)
		}
		name := string(detail.ProtoReflect().Descriptor().FullName())
		whole.Details = append(whole.Details, tidewire.Detail{Type: name, Value: value})
	}
	return &whole
}

// Details are those of an error of a call, each of its generated type; an *anypb.Any where this program has none for
// it. An error that is no *tidewire.Error has none.
func Details(err error) (details []proto.Message) {
	var failed *tidewire.Error
	if !errors.As(err, &failed) || failed == nil {
		return nil
	}
	for _, detail := range failed.Details {
		name := detail.Type[strings.LastIndexByte(detail.Type, '/')+1:]
		packed := &anypb.Any{TypeUrl: "type.googleapis.com/" + name, Value: detail.Value}
		message, err := packed.UnmarshalNew()
		if err != nil {
			message = packed
		}
		details = append(details, message)
	}
	return details
}
