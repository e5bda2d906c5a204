module tidewire.dev/mock

go 1.22
