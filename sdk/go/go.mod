module tidewire.dev/go

go 1.21
