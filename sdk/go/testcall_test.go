package tidewire_test

import (
	"context"
	"errors"
	"io"
	"reflect"
	"testing"

	"tidewire.dev/go"
)

// What follows uses nothing but what a program has.

type item struct {
	ID    int    `json:"id,omitempty"`
	Owner string `json:"owner,omitempty"`
}

type price struct {
	Cents int `json:"cents,omitempty"`
}

func getItem(c *tidewire.Context, request item) (item, error) {
	c.Depends("items", request.ID)
	c.Depends("owners")
	if c.Principal() == nil {
		return item{}, tidewire.Errorf(tidewire.Unauthenticated, "who are you?")
	}
	c.AddHeader("x-tenant", c.Header("X-Tenant"))
	c.AddTrailer("x-end", "yes")
	c.Log("warn", "slow", tidewire.Header{Name: "took", Value: "3"})
	return item{request.ID, c.Principal().Subject}, nil
}

func setPrice(c *tidewire.Context, request item) (found price, err error) {
	if err := c.Call("/prices.v1.Prices/Get", request, &found, tidewire.Query); err != nil {
		return price{}, err
	}
	c.Changed("items", request.ID)
	c.Changed("prices")
	return found, nil
}

func total(c *tidewire.Context, requests *tidewire.Requests[price]) (sum price, err error) {
	for {
		next, err := requests.Next()
		if err == io.EOF {
			return sum, nil
		} else if err != nil {
			return price{}, err
		}
		sum.Cents += next.Cents
	}
}

func same(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v and not %v", got, want)
	}
}

func TestAHandlerIsCalledByATestWhichHearsWhatItSays(t *testing.T) {
	call := &tidewire.TestCall{
		Headers:   []tidewire.Header{{Name: "X-TENANT", Value: "acme"}},
		Principal: &tidewire.Principal{Subject: "ada"},
	}
	reply, err := getItem(call.Context(context.Background()), item{ID: 7})
	same(t, reply, item{7, "ada"})
	same(t, err, nil)
	same(t, call.Depends(), []string{"items/7", "owners"})
	same(t, call.ReplyHeaders(), []tidewire.Header{{Name: "x-tenant", Value: "acme"}})
	same(t, call.ReplyTrailers(), []tidewire.Header{{Name: "x-end", Value: "yes"}})
	same(t, call.Logged(), []string{"warn: slow took=3"})

	call.Principal = nil
	_, err = getItem(call.Context(context.Background()), item{ID: 8})
	var failed *tidewire.Error
	same(t, errors.As(err, &failed) && failed.Code == tidewire.Unauthenticated, true)
	same(t, call.Depends(), []string{"items/8", "owners"})
	same(t, call.Logged(), []string(nil))
}

func TestWhatAHandlerCallsIsAnsweredByAFunction(t *testing.T) {
	call := &tidewire.TestCall{Answer: func(path string, request any) (any, error) {
		same(t, path, "prices.v1.Prices/Get")
		if request.(item).ID == 0 {
			return nil, tidewire.Errorf(tidewire.NotFound, "no price")
		}
		return map[string]int{"cents": 3}, nil
	}}
	reply, err := setPrice(call.Context(context.Background()), item{ID: 7})
	same(t, reply, price{3})
	same(t, err, nil)
	same(t, call.Changed(), []string{"items/7", "prices"})

	_, err = setPrice(call.Context(context.Background()), item{})
	same(t, err, tidewire.Errorf(tidewire.NotFound, "no price"))
	same(t, call.Changed(), []string(nil))

	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = setPrice(call.Context(gone), item{ID: 7})
	same(t, err, context.Canceled)

	_, err = setPrice((&tidewire.TestCall{}).Context(context.Background()), item{ID: 7})
	same(t, err, tidewire.Errorf(tidewire.Unimplemented, "this TestCall has no Answer for prices.v1.Prices/Get"))
}

func TestAStreamIsARowOfRequests(t *testing.T) {
	call := &tidewire.TestCall{}
	sum, err := total(call.Context(context.Background()), tidewire.TestRequests(price{1}, price{2}))
	same(t, sum, price{3})
	same(t, err, nil)
}

func TestAKeyThatIsNonePanicsAsItWouldAndIsAChangeOfAll(t *testing.T) {
	call := &tidewire.TestCall{}
	c := call.Context(context.Background())
	func() {
		defer func() { same(t, recover() != nil, true) }()
		c.Changed("items", map[string]int{})
	}()
	same(t, call.Changed(), []string{"items"})
}
