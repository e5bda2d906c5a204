module tidewire.dev/mock/protobuf

go 1.23

require (
	google.golang.org/protobuf v1.36.12
	tidewire.dev/mock v0.1.0
)

replace tidewire.dev/mock => ../
