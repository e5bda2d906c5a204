// Writes the descriptors of protobuf's conformance messages, with their imports, as one set.
//
// They are taken from the Go module google.golang.org/protobuf, whose generated code holds them and
// is internal to it, so the source is read instead of imported:
//
//	go run ./descriptors "$(go list -m -f '{{.Dir}}' google.golang.org/protobuf)" \
//	  > ../../generated/conformance/messages.binpb
//
// Two things are changed. The files leave the folder google/protobuf, from which nothing is
// generated; message sets, which the code generator refuses, are left out.
package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

var sources = []string{
	"types/known/anypb/any.pb.go",
	"types/known/durationpb/duration.pb.go",
	"types/known/fieldmaskpb/field_mask.pb.go",
	"types/known/structpb/struct.pb.go",
	"types/known/timestamppb/timestamp.pb.go",
	"types/known/wrapperspb/wrappers.pb.go",
	"internal/testprotos/conformance/test_messages_proto3.pb.go",
	"internal/testprotos/conformance/test_messages_proto2.pb.go",
	"internal/testprotos/conformance/editions/test_messages_edition2023.pb.go",
}

func main() {
	set := &descriptorpb.FileDescriptorSet{}
	for _, source := range sources {
		file := descriptor(filepath.Join(os.Args[1], source))
		*file.Name = strings.Replace(*file.Name, "google/protobuf/test_", "conformance/test_", 1)
		file.Extension = slices.DeleteFunc(file.Extension, namesMessageSet)
		file.MessageType = withoutMessageSets(file.MessageType)
		set.File = append(set.File, file)
	}
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(set)
	if err != nil {
		log.Fatal(err)
	}
	os.Stdout.Write(bytes)
}

func withoutMessageSets(messages []*descriptorpb.DescriptorProto) []*descriptorpb.DescriptorProto {
	for _, message := range messages {
		message.NestedType = withoutMessageSets(message.NestedType)
		message.Field = slices.DeleteFunc(message.Field, namesMessageSet)
		message.Extension = slices.DeleteFunc(message.Extension, namesMessageSet)
	}
	return slices.DeleteFunc(messages, func(message *descriptorpb.DescriptorProto) bool {
		return strings.HasPrefix(message.GetName(), "MessageSetCorrect")
	})
}

func namesMessageSet(field *descriptorpb.FieldDescriptorProto) bool {
	return strings.Contains(field.GetTypeName()+field.GetExtendee(), "MessageSetCorrect")
}

// The constant of a generated file that holds its descriptor.
func descriptor(path string) *descriptorpb.FileDescriptorProto {
	parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		log.Fatal(err)
	}
	file := &descriptorpb.FileDescriptorProto{}
	ast.Inspect(parsed, func(node ast.Node) bool {
		value, ok := node.(*ast.ValueSpec)
		if ok && strings.HasSuffix(value.Names[0].Name, "_rawDesc") {
			if err := proto.Unmarshal([]byte(text(value.Values[0])), file); err != nil {
				log.Fatal(path, ": ", err)
			}
		}
		return true
	})
	return file
}

// The value of a string literal, or of a sum of them.
func text(expression ast.Expr) string {
	switch expression := expression.(type) {
	case *ast.BinaryExpr:
		return text(expression.X) + text(expression.Y)
	case *ast.BasicLit:
		value, err := strconv.Unquote(expression.Value)
		if err != nil {
			log.Fatal(err)
		}
		return value
	}
	log.Fatalf("neither a literal nor a sum of them: %T", expression)
	return ""
}
