package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/bits"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A client of one way.
type caller interface {
	sum(ctx context.Context, a, b int32) (int64, error)
	user(ctx context.Context, id int64) (int64, error)
	hello(ctx context.Context) (int32, error)
	// Calls each with the bytes of each item until it has enough.
	items(ctx context.Context, count, bytes uint32, each func(int) bool) error
	burn(ctx context.Context, micros uint32) error
}

const (
	streams      = 10
	streamBytes  = 10_000_000
	streamItems  = 100_000
	burnedMicros = 5000
	stepsBits    = 6
)

// The time in which answers count, and what was counted. Latencies are in steps of a 64th of a power of two.
type window struct {
	from, end     time.Time
	counted, made atomic.Uint64
	nanos         atomic.Uint64
	counts        [(64 - stepsBits + 1) << stepsBits]atomic.Uint64
}

func (w *window) add(count uint64, now time.Time) bool {
	w.made.Add(count)
	is := !now.Before(w.from) && now.Before(w.end)
	if is {
		w.counted.Add(count)
	}
	return is
}

func (w *window) answered(began, now time.Time) {
	if w.add(1, now) {
		nanos := uint64(now.Sub(began))
		power := max(bits.Len64(nanos)-1, stepsBits) - stepsBits
		w.counts[power<<stepsBits+int(nanos>>power)].Add(1)
		w.nanos.Add(nanos)
	}
}

func (w *window) summary() map[string]float64 {
	var total uint64
	for i := range w.counts {
		total += w.counts[i].Load()
	}
	if total == 0 {
		return nil
	}
	quantile := func(share float64) float64 {
		rank, seen := uint64(share*float64(total)), uint64(0)
		for i := range w.counts {
			if seen += w.counts[i].Load(); seen > rank {
				power := max(i>>stepsBits-1, 0)
				return float64(uint64(i-power<<stepsBits+1)<<power-1) / 1e9
			}
		}
		return 0
	}
	mean := float64(w.nanos.Load()) / float64(total) / 1e9
	return map[string]float64{"mean": mean, "p50": quantile(0.5), "p90": quantile(0.9), "p95": quantile(0.95), "p99": quantile(0.99)}
}

func measure(connect func(string) caller, address, work string, length, warmUp time.Duration, connections string) string {
	count, err := strconv.Atoi(connections)
	check(err)
	var callers []caller
	for range count {
		callers = append(callers, connect(address))
	}
	from := time.Now().Add(warmUp)
	w := &window{from: from, end: from.Add(length)}
	ctx := context.Background()
	var tasks sync.WaitGroup
	run := func(many int, task func(caller, int)) {
		for nth := range many {
			tasks.Go(func() { task(callers[nth%count], nth) })
		}
	}
	kind, many, _ := strings.Cut(work, "-")
	switch kind {
	case "sum", "user", "hello":
		underWay, err := strconv.Atoi(many)
		check(err)
		run(underWay, func(c caller, nth int) { calls(ctx, c, kind, nth, w) })
	case "stream":
		bytes, err := strconv.Atoi(strings.Replace(many, "k", "000", 1))
		check(err)
		run(streams, func(c caller, _ int) { stream(ctx, c, uint32(bytes), w) })
	case "beside":
		run(1, func(c caller, _ int) { calls(ctx, c, "hello", 0, w) })
		run(1, func(c caller, _ int) {
			for time.Now().Before(w.end) {
				check(c.burn(ctx, burnedMicros))
			}
		})
	default:
		panic("no case " + work)
	}
	tasks.Wait()
	counted, err := json.Marshal(map[string]any{
		"calls": w.counted.Load(), "made": w.made.Load(), "seconds": length.Seconds(), "cpu_seconds": 0,
		"latency": w.summary(), "rss_bytes": residentBytes(),
	})
	check(err)
	return string(counted)
}

func calls(ctx context.Context, c caller, kind string, nth int, w *window) {
	for began := time.Now(); began.Before(w.end); nth++ {
		call(ctx, c, kind, int32(nth%users))
		now := time.Now()
		w.answered(began, now)
		began = now
	}
}

func call(ctx context.Context, c caller, kind string, varied int32) {
	var given, wanted int64
	var err error
	switch kind {
	case "sum":
		given, err = c.sum(ctx, varied, 7)
		wanted = int64(varied) + 7
	case "user":
		given, err = c.user(ctx, int64(varied))
		wanted = int64(varied)
	case "hello":
		var number int32
		number, err = c.hello(ctx)
		given, wanted = int64(number), greeted
	}
	check(err)
	if given != wanted {
		panic(fmt.Sprintf("%s gave %d, not %d", kind, given, wanted))
	}
}

func stream(ctx context.Context, c caller, bytes uint32, w *window) {
	count := min(streamBytes/bytes, streamItems)
	for time.Now().Before(w.end) {
		seen, isOver := uint64(0), false
		inner, cancel := context.WithCancel(ctx)
		err := c.items(inner, count, bytes, func(length int) bool {
			if length != int(bytes) {
				panic("an item is short")
			}
			if seen++; seen%64 == 0 {
				now := time.Now()
				w.add(64, now)
				isOver = !now.Before(w.end)
			}
			return !isOver
		})
		cancel()
		check(err)
		if !isOver && seen != uint64(count) {
			panic(fmt.Sprintf("%d of %d items came", seen, count))
		}
		w.add(seen%64, time.Now())
	}
}

func seconds(word string) time.Duration {
	number, err := strconv.ParseFloat(word, 64)
	check(err)
	return time.Duration(number * float64(time.Second))
}

func residentBytes() int {
	text, err := os.ReadFile("/proc/self/statm")
	check(err)
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	check(err)
	return pages * os.Getpagesize()
}
