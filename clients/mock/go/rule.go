package mock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"
)

// Doc is a message, or a part of one: fields by their name in the `.proto` or in JSON.
type Doc = map[string]any

// MarshalMessage is what makes JSON of a message of protobuf; tidewire.dev/mock/protobuf sets it.
var MarshalMessage func(message any) ([]byte, error)

// encoded is a value as JSON, and whether it is a message of protobuf.
func encoded(value any) (json.RawMessage, bool, error) {
	if value != nil {
		if _, is := reflect.TypeOf(value).MethodByName("ProtoReflect"); is {
			if MarshalMessage == nil {
				why := `a %T is a message of protobuf; import _ "tidewire.dev/mock/protobuf"`
				return nil, true, fmt.Errorf(why, value)
			}
			text, err := MarshalMessage(value)
			return text, true, err
		}
	}
	text, err := json.Marshal(value)
	return text, false, err
}

// conditions is what is wanted of requests, by path: of a message, all that is set in it.
func conditions(wanted any) (Doc, error) {
	text, isMessage, err := encoded(wanted)
	if err != nil {
		return nil, err
	}
	told := Doc{}
	if isMessage && !bytes.HasPrefix(text, []byte("{")) {
		return Doc{"": Doc{"equals": text}}, nil
	}
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber()
	if err := numbers.Decode(&told); err != nil {
		return nil, fmt.Errorf("a %T is no document: %w", wanted, err)
	}
	for path, value := range told {
		if isMessage {
			told[path] = Doc{"equals": value}
		}
	}
	return told, nil
}

// Rule is a stub in the making: what it wants of the call; Reply, ReplyStream, Fail or PassOn add it to the mock.
type Rule struct {
	scope   *scope
	method  string
	when    Doc
	rest    Doc
	err     error
	isAdded bool
}

// With wants a value in the request, at a path such as item.tags[0]. The value may be an operator of rule files:
// mock.Doc{"gte": 100}.
func (r *Rule) With(path string, value any) *Rule {
	return r.wants(Doc{path: value})
}

// WithMessage wants each path of a Doc, and of a message all that is set in it.
func (r *Rule) WithMessage(wanted any) *Rule {
	return r.wants(wanted)
}

func (r *Rule) wants(wanted any) *Rule {
	told, err := conditions(wanted)
	if err != nil {
		r.err = err
	}
	for path, value := range told {
		r.when[strings.TrimSuffix("request."+path, ".")] = value
	}
	return r
}

// WithHeader wants a header.
func (r *Rule) WithHeader(name string, value any) *Rule {
	r.when["metadata."+name] = value
	return r
}

// Times lets it answer so often only.
func (r *Rule) Times(count int) *Rule {
	return r.Set("times", count)
}

// Delay waits first.
func (r *Rule) Delay(time time.Duration) *Rule {
	return r.Set("delay", fmt.Sprintf("%gms", time.Seconds()*1000))
}

// Header sends a header with the answer.
func (r *Rule) Header(name, value string) *Rule {
	return r.put("headers", name, value)
}

// Trailer sends a trailer with the answer.
func (r *Rule) Trailer(name, value string) *Rule {
	return r.put("trailers", name, value)
}

func (r *Rule) put(key, name, value string) *Rule {
	lines, _ := r.rest[key].(Doc)
	lines = maps.Clone(lines)
	if lines == nil {
		lines = Doc{}
	}
	lines[name] = value
	return r.Set(key, lines)
}

// Fault lets it go wrong when it is sent: mock.Doc{"kind": "truncate", "after": 3}.
func (r *Rule) Fault(fault Doc) *Rule {
	faults, _ := r.rest["fault"].([]Doc)
	return r.Set("fault", append(faults, fault))
}

// Set is any other key of a response in a rule file.
func (r *Rule) Set(key string, value any) *Rule {
	r.rest[key] = value
	return r
}

// Reply answers with a message: a Doc, a struct that encoding/json knows, or a message of protobuf. With nil it
// answers with what else is set, such as a sequence, or with an empty message.
func (r *Rule) Reply(message any) {
	r.scope.t.Helper()
	if message != nil {
		r.body("body", message)
	}
	r.add()
}

// ReplyStream answers with messages one after the other.
func (r *Rule) ReplyStream(messages ...any) {
	r.scope.t.Helper()
	items := []json.RawMessage{}
	for _, message := range messages {
		text, _, err := encoded(message)
		if err != nil {
			r.err = err
		}
		items = append(items, text)
	}
	r.Set("stream_delay_ms", 0).Set("stream_items", items).add()
}

// Fail answers with an error, such as "unavailable"; a detail names its type: mock.Doc{"@type": ...}.
func (r *Rule) Fail(code, message string, details ...Doc) {
	r.scope.t.Helper()
	failure := Doc{"code": code, "message": message}
	if len(details) > 0 {
		failure["details"] = details
	}
	r.Set("error", failure).add()
}

// PassOn lets the real service of Options.Upstream answer.
func (r *Rule) PassOn() {
	r.scope.t.Helper()
	r.Set("upstream", true).add()
}

func (r *Rule) body(key string, message any) {
	text, _, err := encoded(message)
	if err != nil {
		r.err = err
	}
	r.rest[key] = text
}

func (r *Rule) add() {
	r.scope.t.Helper()
	r.isAdded = true
	if len(r.when) > 0 {
		r.rest["when"] = r.when
	}
	response, err := json.Marshal(r.rest)
	if r.err != nil {
		err = r.err
	}
	if err != nil {
		r.scope.t.Fatalf("%s: %v", r.method, err)
		return
	}
	r.scope.ask("Stub", Doc{"method": r.method, "response": string(response), "session": r.scope.session}, &Doc{})
}
