// The program of the behaviour suite, in Go.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	tidewire "tidewire.dev/go"
)

const name = "tidewire.hosted.v1.Hosted/"

type text struct {
	Text string `json:"text,omitempty"`
}

type number struct {
	Number int `json:"number,omitempty"`
}

type real struct {
	Number float64 `json:"number,omitempty"`
}

var (
	lock  sync.Mutex
	told  = sync.NewCond(&lock)
	heard = map[string]bool{}
	runs  = map[string]int{}
	rest  func()
)

func note(text string) {
	lock.Lock()
	defer lock.Unlock()
	heard[text] = true
	told.Broadcast()
}

func bare(_ *tidewire.Context, request text) (number, error) {
	lock.Lock()
	defer lock.Unlock()
	runs[request.Text]++
	return number{runs[request.Text]}, nil
}

func main() {
	app := tidewire.New()
	tidewire.Unary(app, name+"Echo", func(c *tidewire.Context, request []byte) ([]byte, error) {
		if ping := c.Header("x-ping"); ping != "" {
			c.AddHeader("x-pong", ping)
			c.AddTrailer("x-pong-trailer", ping)
		}
		return request, nil
	})
	tidewire.Unary(app, name+"Get", func(c *tidewire.Context, request text) (number, error) {
		c.Depends("items", request.Text)
		return bare(c, request)
	})
	tidewire.Unary(app, name+"Bare", bare)
	tidewire.Unary(app, name+"List", func(c *tidewire.Context, came []byte) (text, error) {
		var request number
		if err := json.Unmarshal(came, &request); err != nil {
			return text{}, err
		}
		for key := 1; key <= request.Number; key++ {
			c.Depends("items", key)
		}
		if request.Number == 0 {
			c.Depends("items")
		} else if request.Number < 0 {
			c.Depends(strings.Repeat("s", 20_000))
		}
		ran, err := bare(c, text{fmt.Sprint(request.Number)})
		return text{fmt.Sprintf("%d %s", ran.Number, came)}, err
	})
	tidewire.Unary(app, name+"Set", func(c *tidewire.Context, request text) (text, error) {
		c.Changed("items", request.Text)
		return request, nil
	})
	tidewire.Unary(app, name+"Size", func(c *tidewire.Context, request real) (number, error) {
		c.Depends("items", request.Number)
		return bare(c, text{fmt.Sprint("size ", request.Number)})
	})
	tidewire.Unary(app, name+"Resize", func(c *tidewire.Context, request real) (real, error) {
		c.Changed("items", request.Number)
		return request, nil
	})
	tidewire.ServerStream(app, name+"Count", func(c *tidewire.Context, request number, send func(any) error) error {
		if request.Number == -2 {
			return errors.Join(send(number{1}), send(map[string]string{"number": "x"}))
		}
		for n := 1; n <= request.Number; n++ {
			if err := send(number{n}); err != nil {
				return err
			}
		}
		if request.Number < 0 {
			if err := send(number{1}); err != nil {
				return err
			}
			c.AddTrailer("x-long", strings.Repeat("y", 20_000))
		}
		return nil
	})
	tidewire.ClientStream(app, name+"Sum", func(c *tidewire.Context, requests *tidewire.Requests[number]) (number, error) {
		sum := 0
		for {
			request, err := requests.Next()
			if err == io.EOF {
				return number{sum}, nil
			} else if err != nil {
				return number{}, err
			}
			if request.Number == -1 {
				return request, nil
			}
			sum += request.Number
		}
	})
	tidewire.BidiStream(app, name+"Chat", func(c *tidewire.Context, requests *tidewire.Requests[text], send func(text) error) error {
		for {
			request, err := requests.Next()
			if err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			if request.Text == "raise" {
				panic("secret")
			}
			if err := send(text{"re: " + request.Text}); err != nil {
				return err
			}
		}
	})
	tidewire.Unary(app, name+"Fail", func(c *tidewire.Context, request text) (text, error) {
		c.Depends("items", request.Text)
		c.AddTrailer("x-fail-trailer", "late")
		failed := tidewire.Errorf("not_found", "there is no %s", request.Text)
		failed.Details = []tidewire.Detail{{Type: "tidewire.hosted.v1.Text", Value: []byte("\x0a\x01x")}}
		failed.Headers = []tidewire.Header{{Name: "x-fail", Value: "yes"}}
		return text{}, failed
	})
	tidewire.Unary(app, name+"Wait", func(c *tidewire.Context, request text) (text, error) {
		<-c.Done()
		note(request.Text)
		return text{}, c.Err()
	})
	tidewire.ServerStream(app, name+"Drip", func(c *tidewire.Context, request text, send func(number) error) error {
		if err := send(number{1}); err != nil {
			return err
		}
		<-c.Done()
		note(request.Text)
		return c.Err()
	})
	tidewire.Unary(app, name+"Heard", func(c *tidewire.Context, request text) (text, error) {
		lock.Lock()
		defer lock.Unlock()
		for !heard[request.Text] {
			told.Wait()
		}
		return request, nil
	})
	tidewire.Unary(app, name+"Begin", func(c *tidewire.Context, request text) (text, error) {
		words := strings.Fields(request.Text)
		note(words[0])
		lock.Lock()
		for !heard[words[1]] {
			told.Wait()
		}
		lock.Unlock()
		if c.Err() == nil {
			note(words[2])
		}
		return text{}, nil
	})
	tidewire.Unary(app, name+"Within", func(c *tidewire.Context, request text) (reply text, err error) {
		if request.Text == "sum" {
			var sum number
			err = c.Call(name+"Sum", number{5}, &sum)
			return text{strconv.Itoa(sum.Number)}, err
		}
		err = c.Call(name+"Echo", text{"inner " + request.Text}, &reply)
		return reply, err
	})
	tidewire.Unary(app, name+"Through", func(c *tidewire.Context, request text) (reply number, err error) {
		err = c.Call(name+"Get", request, &reply, tidewire.Query)
		return reply, err
	})
	for _, which := range []string{"", "Public", "Vary", "Caller", "Query"} {
		tidewire.Unary(app, name+"Who"+which, who)
	}
	tidewire.Unary(app, name+"Left", func(c *tidewire.Context, _ text) (number, error) {
		deadline, ok := c.Deadline()
		if !ok {
			return number{}, nil
		}
		return number{int(time.Until(deadline).Milliseconds())}, nil
	})
	tidewire.Unary(app, name+"Do", func(c *tidewire.Context, request text) (any, error) {
		switch request.Text {
		case "odd answer":
			return map[string]any{"text": "odd", "more": 1}, nil
		case "wrong answer":
			return map[string]any{"text": 5}, nil
		}
		return do(app, c, request)
	})
	app.Handle(http.HandlerFunc(page))
	app.Log("debug", "said before it is known who hears it")
	if err := app.Serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func who(c *tidewire.Context, request text) (reply text, err error) {
	switch request.Text {
	case "self":
		return reply, c.Call(name+"Who", text{}, &reply)
	case "caller":
		return reply, c.Call(name+"Who", text{}, &reply, tidewire.AsCaller)
	}
	c.Depends("items", "who")
	known, said := c.Principal(), "nobody"
	if known != nil {
		tenant, isKnown := known.Claims["tenant"]
		if !isKnown {
			tenant = "-"
		}
		scopes := strings.Join(known.Scopes, "+")
		said = fmt.Sprint(known.Issuer, " ", known.Subject, " ", scopes, " ", tenant, " ", known.HasScope("read"))
	}
	ran, err := bare(c, text{"who"})
	return text{fmt.Sprint(said, " ", ran.Number)}, err
}

func do(app *tidewire.App, c *tidewire.Context, request text) (text, error) {
	switch request.Text {
	case "pid":
		return text{fmt.Sprint(os.Getpid())}, nil
	case "crash":
		os.Exit(3)
	case "garbage":
		// The socket is whichever descriptor the runtime moved it to.
		for fd := 3; fd < 32; fd++ {
			if link, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); strings.HasPrefix(link, "socket:") {
				os.NewFile(uintptr(fd), "socket").WriteString("HTTP/1.1 200 OK\r\n\r\nthis is no frame")
			}
		}
		time.Sleep(time.Minute)
	case "noise":
		for line := 0; line < 20_000; line++ {
			fmt.Println(strings.Repeat("x", 100))
		}
		c.Log("warn", "noise is over", tidewire.Header{Name: "lines", Value: "20000"})
	case "raise":
		panic("secret")
	case "goexit":
		runtime.Goexit()
	case "hook":
		return text{}, unshowable{}
	case "nil error":
		var none *tidewire.Error
		return text{}, none
	case "no text":
		return text{}, &tidewire.Error{Code: "not_found", Message: "a \xff b"}
	case "busy":
		rest = app.Busy()
	case "idle":
		rest()
	}
	sayTooMuch(request.Text, c)
	return request, nil
}

// sayTooMuch says what there is no room for.
func sayTooMuch(what string, c *tidewire.Context) {
	upTo := func(count int) {
		for key := 0; key < count; key++ {
			c.Depends("items", key)
		}
	}
	switch long := strings.Repeat("y", 20_000); what {
	case "few":
		c.Depends("items", 1)
		c.Depends("items", "a/b")
		c.Depends("items", 1)
	case "many":
		upTo(20_000)
	case "two":
		upTo(2_000)
		c.Depends("tags")
	case "long key":
		c.Depends("items", long)
	case "long source":
		c.Depends(long)
	case "long header":
		c.AddHeader("x-long", long)
	case "long trailer":
		c.AddTrailer("x-long", long)
	case "long changed":
		c.Changed("items", strings.Repeat("x", 70_000))
	case "no key":
		c.Changed("items", 7, map[string]int{})
	case "fields":
		c.Log("info", "t", []tidewire.Header{
			{Name: "under_score", Value: "1"}, {Name: "sp ace", Value: "v"}, {Name: "LF", Value: "a\r\nb\x1bc"},
		}...)
	case "long log":
		c.Log("info", "x"+strings.Repeat("é", 40_000))
	}
}

func page(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/switch" {
		w.WriteHeader(http.StatusSwitchingProtocols)
		return
	}
	w.Header().Set("x-page", "yes")
	w.Header().Set("x-remote", r.RemoteAddr)
	w.Header().Set("x-back", r.Header.Get("x-name"))
	w.WriteHeader(http.StatusCreated)
	target := r.URL.Path
	if r.URL.RawQuery != "" {
		target += "?" + r.URL.RawQuery
	}
	fmt.Fprintf(w, "%s %s ", r.Method, target)
	_, _ = io.Copy(w, r.Body)
}

// unshowable is an error that cannot be printed.
type unshowable struct{}

func (unshowable) Error() string { panic("it has no text") }
