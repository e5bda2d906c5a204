module worker

go 1.21

require tidewire.dev/go v0.1.0

replace tidewire.dev/go => ../../../../../sdk/go
