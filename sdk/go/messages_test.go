package tidewire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

type letter struct {
	Text string `json:"text,omitempty"`
}

// whoever reads and writes letters as they are, and nothing else.
func ofLetters() *App {
	app := New()
	app.Marshal = func(message any) ([]byte, error) {
		if known, is := message.(*letter); is {
			return []byte(known.Text), nil
		}
		return nil, fmt.Errorf("a %T is no *letter: %w", message, errors.ErrUnsupported)
	}
	app.Unmarshal = func(data []byte, message any) error {
		known, is := message.(*letter)
		if !is {
			return fmt.Errorf("a %T is no *letter", message)
		}
		known.Text = string(data)
		return nil
	}
	return app
}

func TestAMessageIsReadIntoAPointerWhoeverGivesIt(t *testing.T) {
	for codec, data := range map[byte]string{0: "tea", 1: `{"text":"tea"}`} {
		var none, there, value = (*letter)(nil), &letter{}, letter{}
		was := there
		for _, into := range []any{&none, &there, there, &value} {
			if err := ofLetters().decode([]byte(data), codec, into); err != nil {
				t.Errorf("%T: %v", into, err)
			}
		}
		if none == nil || none.Text != "tea" || was.Text != "tea" || there != was || value.Text != "tea" {
			t.Error(codec, none, was, there, value)
		}
	}
}

func TestJSONIsThatOfTheAppWhereItHasIts(t *testing.T) {
	app := New()
	app.MarshalJSON = func(any) ([]byte, error) { return []byte(`"x"`), nil }
	app.UnmarshalJSON = func(data []byte, message any) error { message.(*letter).Text = "own"; return nil }
	var read *letter
	data, err := app.encode(letter{}, 1)
	if err != nil || string(data) != `"x"` || app.decode(nil, 1, &read) != nil || read.Text != "own" {
		t.Errorf("%s %v %v", data, err, read)
	}
}

func TestACallIsInJSONWhereItsRequestIsNoMessageOfProtobuf(t *testing.T) {
	for _, c := range []struct {
		app     *App
		request any
		codec   byte
		data    string
	}{
		{ofLetters(), &letter{"tea"}, 0, "tea"},
		{ofLetters(), map[string]int{"id": 1}, 1, `{"id":1}`},
		{ofLetters(), []byte("as it is"), 0, "as it is"},
		{New(), letter{"tea"}, 1, `{"text":"tea"}`},
	} {
		data, codec, err := c.app.encodeCall(c.request)
		if err != nil || codec != c.codec || string(data) != c.data {
			t.Errorf("%v: %d %s %v", c.request, codec, data, err)
		}
	}
	_, _, err := New().encodeCall(make(chan int))
	if unfit := (*json.UnsupportedTypeError)(nil); !errors.As(err, &unfit) {
		t.Error(err)
	}
}

// asked is what a caller and the log are told where a handler of R is sent this.
func asked[R any](app *App, codec byte, data string) (failed *Error, news error) {
	c := &Context{app: app, call: &stream{codec: codec, payload: []byte(data)}}
	if _, err := whole[R](c); err != nil {
		return callerError(err)
	}
	return nil, nil
}

func TestARequestThatIsNotReadNamesWhoeverIsToMendIt(t *testing.T) {
	type count struct {
		ID int64 `json:"id"`
	}
	failed, news := asked[count](New(), 1, `{"id":"7"}`)
	line := newsLine("shop.v1.Shop/Get", news)
	if failed != errUnread || !strings.HasPrefix(line, "a request of shop.v1.Shop/Get does not fit") ||
		!strings.Contains(line, "`json:\"id,string\"`") {
		t.Error(failed, line)
	}
	failed, news = asked[letter](New(), 1, `{"text":7}`)
	if failed != errUnread || strings.Contains(news.Error(), "64-bit") {
		t.Error(failed, news)
	}
	failed, news = asked[letter](New(), 0, "tea")
	if failed != errUnread || !strings.Contains(news.Error(), "protobuf.Use") {
		t.Error(failed, news)
	}
	app := ofLetters()
	app.Unmarshal = func([]byte, any) error { return errors.New("cut off") }
	failed, news = asked[*letter](app, 0, "tea")
	if failed.Code != InvalidArgument || !strings.HasSuffix(failed.Message, "protobuf: cut off") || news != nil {
		t.Error(failed, news)
	}
	if line := newsLine("a.B/C", errors.New("why")); line != "the handler of a.B/C failed: why" {
		t.Error(line)
	}
}
