package tidewire

import (
	"context"
	"errors"
	"testing"
)

func TestACallThatWaitsForTheGatewayEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	// Nobody has said hello.
	go func() { ended <- New().Call(ctx, "a.v1.A/Get", struct{}{}, nil) }()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
