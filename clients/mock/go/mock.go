package mock

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// sessionHeader names the session of a request.
const sessionHeader = "X-Mock-Session"

// T is what is used of *testing.T.
type T interface {
	Helper()
	Errorf(format string, arguments ...any)
	Fatalf(format string, arguments ...any)
	Cleanup(func())
}

// Options say what is mocked.
type Options struct {
	// Protos is a folder of `.proto` files, such a file, or a descriptor set; "protos" where it is empty.
	Protos string
	// Rules is a folder of rule files.
	Rules string
	// Program is `tidewire`; that of the variable TIDEWIRE or the one on PATH where it is empty.
	Program string
	// Port is any that is free where it is 0.
	Port int
	// Seed is what chance follows from.
	Seed uint64
	// Validate refuses requests that break rules of validation.
	Validate bool
	// WithoutRule is what methods without rules answer: "generated", which is the default, or "unimplemented".
	WithoutRule string
	// Upstream is the URL of the real service, for calls that no rule answers.
	Upstream string
	// Watch looks for changes of the files.
	Watch bool
	// Arguments are further ones of `tidewire mock`.
	Arguments []string
}

// Mock is a running `tidewire mock`. It ends with Close, with the test that started it, or with this process.
type Mock struct {
	scope
}

// Session is a mock within the mock: its rules, its state and its calls are those of requests with its header, so
// that tests which run beside one another share one program.
type Session struct {
	scope
}

// scope is what both have; the mock itself is the session without a name.
type scope struct {
	program *program
	session string
	t       T
}

// Start starts a mock for a test, and ends it with that.
func Start(t T, options Options) *Mock {
	t.Helper()
	p, err := start(options)
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	t.Cleanup(p.close)
	return &Mock{scope{program: p, t: t}}
}

// New starts a mock for many tests, such as in TestMain, which closes it. What goes wrong with the mock itself
// panics; a Session tells its test.
func New(options Options) (*Mock, error) {
	p, err := start(options)
	if err != nil {
		return nil, err
	}
	return &Mock{scope{program: p, t: &nobody{}}}, nil
}

// Close ends it. It panics where New started it and a rule of it was begun by On and never ended.
func (m *Mock) Close() {
	m.program.close()
	if t, is := m.t.(*nobody); is {
		t.end()
	}
}

// Pid is the process of the mock.
func (m *Mock) Pid() int {
	return m.program.command.Process.Pid
}

// Session is a session of its own for a test, which forgets it at its end.
func (m *Mock) Session(t T) *Session {
	t.Helper()
	name := make([]byte, 16)
	_, _ = rand.Read(name)
	s := &Session{scope{program: m.program, session: hex.EncodeToString(name), t: t}}
	t.Cleanup(s.Reset)
	return s
}

// SetFaults lets answers go wrong, all or with a method those of that, whatever their rules; nil ends it.
func (m *Mock) SetFaults(faults Doc, method string) {
	m.t.Helper()
	text := ""
	if faults != nil {
		told, _ := json.Marshal(faults)
		text = string(told)
	}
	m.ask("SetFaults", Doc{"text": text, "method": method}, &Doc{})
}

// Name is what the header x-mock-session says.
func (s *Session) Name() string {
	return s.session
}

// URL is http://127.0.0.1:PORT, for Connect, gRPC-Web, REST and gRPC.
func (s *scope) URL() string {
	return "http://" + s.program.address
}

// Target is 127.0.0.1:PORT, as clients of gRPC want it.
func (s *scope) Target() string {
	return s.program.address
}

// Client sends requests with the header of the session: of net/http, and of connect-go.
func (s *scope) Client() *http.Client {
	return &http.Client{Transport: inSession{s.session}}
}

// Metadata is the header of the session for grpc-go: metadata.AppendToOutgoingContext(ctx, s.Metadata()...).
func (s *scope) Metadata() []string {
	if s.session == "" {
		return nil
	}
	return []string{strings.ToLower(sessionHeader), s.session}
}

// On begins a response of a method, shop.v1.Cart/GetPrice. Of responses that fit, the one that was added
// first answers; those without conditions last. A response that is begun and never ended fails the test at its end.
func (s *scope) On(method string) *Rule {
	r := &Rule{scope: s, method: strings.TrimPrefix(method, "/"), when: Doc{}, rest: Doc{}}
	_, file, line, _ := runtime.Caller(1)
	s.t.Cleanup(func() {
		if !r.isAdded {
			const form = "%s:%d: On(%q) answers nothing; end it with Reply, ReplyStream, Fail or PassOn"
			s.t.Errorf(form, filepath.Base(file), line, r.method)
		}
	})
	return r
}

// Unstub removes the stubs of a method, or with an empty text of all: of a session its own, of the mock those for all
// calls. Rule files stay.
func (s *scope) Unstub(method string) {
	s.t.Helper()
	s.ask("Unstub", Doc{"method": strings.TrimPrefix(method, "/"), "session": s.session}, &Doc{})
}

// Wanted says which calls are meant, and how often they are to have come; once or more where nothing says it.
type Wanted func(*verification) error

type verification struct {
	with, headers            Doc
	exactly, atLeast, atMost *int
}

// With means calls with a value in their request.
func With(path string, value any) Wanted {
	return WithMessage(Doc{path: value})
}

// WithMessage means calls with each path of a Doc, or all that is set in a message.
func WithMessage(wanted any) Wanted {
	return func(v *verification) error {
		told, err := conditions(wanted)
		for path, value := range told {
			v.with[path] = value
		}
		return err
	}
}

// WithHeader means calls with a header.
func WithHeader(name string, value any) Wanted {
	return func(v *verification) error { v.headers[name] = value; return nil }
}

// Exactly so often.
func Exactly(count int) Wanted {
	return func(v *verification) error { v.exactly = &count; return nil }
}

// AtLeast so often.
func AtLeast(count int) Wanted {
	return func(v *verification) error { v.atLeast = &count; return nil }
}

// AtMost so often.
func AtMost(count int) Wanted {
	return func(v *verification) error { v.atMost = &count; return nil }
}

// Verify fails the test if another number of calls came than is wanted, and lists the closest ones.
func (s *scope) Verify(method string, wanted ...Wanted) {
	s.t.Helper()
	v := &verification{with: Doc{}, headers: Doc{}}
	for _, one := range wanted {
		if err := one(v); err != nil {
			s.t.Fatalf("%s: %v", method, err)
			return
		}
	}
	if v.exactly != nil && v.atLeast != nil || v.exactly != nil && v.atMost != nil || v.atLeast != nil && v.atMost != nil {
		s.t.Fatalf("Verify(%q) takes one of Exactly, AtLeast and AtMost; for a range call it twice", method)
		return
	}
	with, _ := json.Marshal(v.with)
	headers, _ := json.Marshal(v.headers)
	request := Doc{
		"method": strings.TrimPrefix(method, "/"), "session": s.session,
		"with": string(with), "withHeaders": string(headers),
		"exactly": v.exactly, "atLeast": v.atLeast, "atMost": v.atMost,
	}
	var reply struct {
		Verified bool
		Problem  string
	}
	if s.ask("Verify", request, &reply) && !reply.Verified {
		s.t.Errorf("%s", reply.Problem)
	}
}

// Reset forgets calls, counts and state; of a session its rules too.
func (s *scope) Reset() {
	s.t.Helper()
	s.ask("Reset", Doc{"session": s.session}, &Doc{})
}

// ask tells the test what is refused; whether it was not.
func (s *scope) ask(verb string, request, reply any) bool {
	s.t.Helper()
	err := s.program.ask(verb, request, reply)
	if err != nil {
		s.t.Fatalf("%v", err)
	}
	return err == nil
}

// inSession sends requests with the header of a session.
type inSession struct{ session string }

func (i inSession) RoundTrip(request *http.Request) (*http.Response, error) {
	if i.session != "" {
		request = request.Clone(request.Context())
		request.Header.Set(sessionHeader, i.session)
	}
	return http.DefaultTransport.RoundTrip(request)
}

// nobody is told of a mock without a test.
type nobody struct {
	lock     sync.Mutex
	cleanups []func()
}

func (*nobody) Helper() {}

func (*nobody) Errorf(format string, arguments ...any) {
	panic(fmt.Sprintf(format, arguments...))
}

func (*nobody) Fatalf(format string, arguments ...any) {
	panic(fmt.Sprintf(format, arguments...))
}

func (n *nobody) Cleanup(do func()) {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.cleanups = append(n.cleanups, do)
}

// end does what is to be done at the end, once.
func (n *nobody) end() {
	n.lock.Lock()
	cleanups := n.cleanups
	n.cleanups = nil
	n.lock.Unlock()
	for _, do := range cleanups {
		do()
	}
}
