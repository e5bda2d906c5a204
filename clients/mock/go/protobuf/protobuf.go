// Package protobuf lets mocks take messages of google.golang.org/protobuf as replies and in what is wanted of
// requests: import _ "tidewire.dev/mock/protobuf".
package protobuf

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"tidewire.dev/mock"
)

func init() {
	mock.MarshalMessage = func(message any) ([]byte, error) {
		known, is := message.(proto.Message)
		if !is {
			return nil, fmt.Errorf("a %T is no message of google.golang.org/protobuf", message)
		}
		return protojson.MarshalOptions{UseProtoNames: true}.Marshal(known)
	}
}
