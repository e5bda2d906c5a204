package tidewire

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"sync"
	"testing"
	"time"
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

func TestADeadlineThatIsTooFarToBeSaidIsNone(t *testing.T) {
	for left, want := range map[time.Duration]uint32{
		time.Hour:                           3_600_000,
		math.MaxUint32 * time.Millisecond:   math.MaxUint32,
		math.MaxUint32*time.Millisecond + 1: 0,
		math.MaxInt64:                       0,
	} {
		s, now := newSession("", nil, &sync.Mutex{}), time.Now()
		s.isGreeted, s.now = true, func() time.Time { return now }
		ctx, cancel := context.WithDeadline(context.Background(), now.Add(left))
		defer cancel()
		_, err := s.ask("a.v1.A/Get", 1, nil, 0, ctx, options{})
		if said := binary.LittleEndian.Uint32(s.main[12:]); err != nil || said != want {
			t.Error(left, said, err)
		}
	}
}
