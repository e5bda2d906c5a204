// Command client calls tidewire.test.v1.BehaviourService with connect-go over every standard
// protocol and with grpc-go, and prints one line per case: `ok CASE` or `not ok CASE: why`.
//
// Usage: client ADDRESS [PART]. With PART only the cases whose name contains it are run. The exit
// code is 1 if a case failed, and 2 if no case ran.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// caseTimeout bounds a case; it is a bound on a hang, not a measurement.
const caseTimeout = 300 * time.Second

func main() {
	if len(os.Args) < 2 || len(os.Args) > 3 {
		fmt.Fprintln(os.Stderr, "usage: client ADDRESS [PART]")
		os.Exit(2)
	}
	run := &run{address: os.Args[1]}
	if len(os.Args) == 3 {
		run.part = os.Args[2]
	}
	connectCases(run)
	grpcCases(run)
	if run.failed > 0 {
		os.Exit(1)
	}
	if run.passed == 0 {
		fmt.Fprintf(os.Stderr, "no case is named like %q\n", run.part)
		os.Exit(2)
	}
}

// run counts and prints the outcome of cases.
type run struct {
	address        string
	part           string
	passed, failed int
}

// try runs one case unless it was not asked for.
func (r *run) try(name string, body func(ctx context.Context) error) {
	if !strings.Contains(name, r.part) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), caseTimeout)
	defer cancel()
	if err := body(ctx); err != nil {
		r.failed++
		fmt.Printf("not ok %s: %s\n", name, strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	r.passed++
	fmt.Printf("ok %s\n", name)
}

// same is an error that shows both sides unless they are equal.
func same[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s is %v, want %v", what, got, want)
	}
	return nil
}
