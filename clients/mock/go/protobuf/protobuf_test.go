package protobuf_test

import (
	"bytes"
	"io"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/apipb"
	"google.golang.org/protobuf/types/known/sourcecontextpb"
	"google.golang.org/protobuf/types/known/typepb"
	"tidewire.dev/mock"
	_ "tidewire.dev/mock/protobuf"
)

func TestMessagesOfProtobufAreTaken(t *testing.T) {
	shop := mock.Start(t, mock.Options{Protos: "../../tests/protos"})
	wanted := &sourcecontextpb.SourceContext{FileName: "shop.proto"}
	message := &apipb.Method{Name: "GetPrice", RequestStreaming: true, Syntax: typepb.Syntax_SYNTAX_PROTO3}
	shop.On("shop.v1.Cart/Find").WithMessage(wanted).Reply(message)
	body, err := proto.Marshal(wanted)
	if err != nil {
		t.Fatal(err)
	}
	response, err := shop.Client().Post(shop.URL()+"/shop.v1.Cart/Find", "application/proto", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	got := &apipb.Method{}
	if err := proto.Unmarshal(body, got); err != nil || !proto.Equal(got, message) {
		t.Fatalf("got %v, %v", got, err)
	}
	shop.Verify("shop.v1.Cart/Find", mock.WithMessage(wanted), mock.Exactly(1))
}
