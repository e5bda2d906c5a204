package tidewire

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// replied is what a handler comes to that gives this; what goes out is left to nobody.
func replied(message any, header Header) error {
	app := New()
	app.isWriting = true
	c := &Context{app: app, call: &stream{codec: 1, isOpen: true}}
	c.AddHeader(header.Name, header.Value)
	return c.reply(message, nil)
}

func TestAHandlerThatReturnsNothingIsAnError(t *testing.T) {
	var item *struct{}
	var items map[string]int
	for _, nothing := range []any{nil, item, items} {
		if err := replied(nothing, Header{"a", "b"}); err != errNothing {
			t.Errorf("%#v: %v", nothing, err)
		}
	}
	for _, empty := range []any{[]byte(nil), struct{}{}, &struct{}{}, map[string]int{}} {
		if err := replied(empty, Header{"a", "b"}); err != nil {
			t.Errorf("%#v: %v", empty, err)
		}
	}
}

func TestAReplyHeaderThatCannotBeSentIsAnErrorThatIsTold(t *testing.T) {
	for _, value := range []string{"a\rb", "a\nb", "a\x00b"} {
		err := replied(struct{}{}, Header{"x-a", value})
		if err == nil || !strings.HasPrefix(err.Error(), "reply header x-a has a CR, LF or NUL") {
			t.Errorf("%q: %v", value, err)
		}
	}
	said := answer{trailers: []Header{{"x-b", "a\nb"}}}
	if said.check() == nil {
		t.Error("of trailers too")
	}
	// A page gives its headers in another way.
	w := &writer{c: &Context{app: New()}, header: http.Header{"X-A": {"a\nb"}}}
	http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) }).
		ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.c.said.check() == nil {
		t.Error("of pages too")
	}
}
