// The judge of validation: protovalidate-go over messages of a schema.
//
//	foreign-validate compile FOLDER... > set.binpb
//	foreign-validate judge set.binpb < messages > verdicts
//
// `compile` writes the descriptors of all .proto files below the folders, of any edition. `judge`
// reads google.protobuf.Any's, each after its length in four bytes, big endian, and answers each the
// same way with a byte and, where it is V, the encoded buf.validate.Violations:
//
//	0 valid, V violations, R a rule has no value, C a rule does not compile, M not a message
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"buf.build/go/protovalidate"
	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"
)

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: foreign-validate compile FOLDER... | judge SET")
	}
	switch os.Args[1] {
	case "compile":
		compile(os.Args[2:])
	case "judge":
		judge(os.Args[2])
	}
}

func compile(folders []string) {
	var names []string
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if name, _ := filepath.Rel(folder, path); strings.HasSuffix(name, ".proto") {
				names = append(names, name)
			}
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: folders}),
	}
	slices.Sort(names)
	files, err := compiler.Compile(context.Background(), names...)
	if err != nil {
		log.Fatal(err)
	}
	set := &descriptorpb.FileDescriptorSet{}
	seen := map[string]bool{}
	var add func(file protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		imports := file.Imports()
		for i := range imports.Len() {
			add(imports.Get(i).FileDescriptor)
		}
		if result, ok := file.(linker.Result); ok {
			set.File = append(set.File, result.FileDescriptorProto())
		} else {
			set.File = append(set.File, protodesc.ToFileDescriptorProto(file))
		}
	}
	for _, file := range files {
		add(file)
	}
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(set)
	if err != nil {
		log.Fatal(err)
	}
	os.Stdout.Write(bytes)
}

func judge(path string) {
	bytes, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(bytes, set); err != nil {
		log.Fatal(err)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		log.Fatal(err)
	}
	types := dynamicpb.NewTypes(files)
	validator, err := protovalidate.New(protovalidate.WithExtensionTypeResolver(types))
	if err != nil {
		log.Fatal(err)
	}
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriterSize(os.Stdout, 1<<20)
	defer out.Flush()
	for {
		var length uint32
		if err := binary.Read(in, binary.BigEndian, &length); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		encoded := make([]byte, length)
		if _, err := io.ReadFull(in, encoded); err != nil {
			log.Fatal(err)
		}
		answer := verdict(validator, types, encoded)
		binary.Write(out, binary.BigEndian, uint32(len(answer)))
		out.Write(answer)
	}
}

func verdict(validator protovalidate.Validator, types *dynamicpb.Types, encoded []byte) []byte {
	packed := &anypb.Any{}
	if err := proto.Unmarshal(encoded, packed); err != nil {
		log.Fatal(err)
	}
	kind, err := types.FindMessageByURL(packed.GetTypeUrl())
	if errors.Is(err, protoregistry.NotFound) {
		log.Fatal(packed.GetTypeUrl(), err)
	}
	message := kind.New().Interface()
	options := proto.UnmarshalOptions{AllowPartial: true, Resolver: types}
	if options.Unmarshal(packed.GetValue(), message) != nil {
		return []byte("M")
	}
	err = validator.Validate(message)
	var violations *protovalidate.ValidationError
	var runtime *protovalidate.RuntimeError
	switch {
	case err == nil:
		return []byte("0")
	case errors.As(err, &violations):
		bytes, err := proto.Marshal(violations.ToProto())
		if err != nil {
			log.Fatal(err)
		}
		return append([]byte("V"), bytes...)
	case errors.As(err, &runtime):
		return append([]byte("R"), err.Error()...)
	default:
		return append([]byte("C"), err.Error()...)
	}
}
