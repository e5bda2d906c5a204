module tidewire.dev/go/protobuf

go 1.23

require (
	google.golang.org/protobuf v1.36.12
	tidewire.dev/go v0.1.0
)

replace tidewire.dev/go => ../
