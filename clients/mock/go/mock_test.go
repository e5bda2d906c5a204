package mock_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"tidewire.dev/mock"
)

const (
	protos   = "../tests/protos"
	getPrice = "shop.v1.Cart/GetPrice"
)

// shop is shared by tests that run beside one another.
var shop *mock.Mock

func TestMain(m *testing.M) {
	started, err := mock.New(mock.Options{Protos: protos})
	if err != nil {
		panic(err)
	}
	shop = started
	if os.Getenv("ONLY_A_MOCK") != "" {
		shop.On(getPrice).Reply(mock.Doc{"note": fmt.Sprint(os.Getpid())})
		fmt.Println(shop.URL())
		select {}
	}
	code := m.Run()
	shop.Close()
	os.Exit(code)
}

func call(t *testing.T, client *http.Client, url, method, request string, headers ...string) (string, error) {
	t.Helper()
	asked, err := http.NewRequest(http.MethodPost, url+"/shop.v1.Cart/"+method, strings.NewReader(request))
	if err != nil {
		t.Fatal(err)
	}
	asked.Header.Set("content-type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		asked.Header.Set(headers[i], headers[i+1])
	}
	response, err := client.Do(asked)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// price asks for a price in a session.
func price(t *testing.T, s *mock.Session, request string, headers ...string) string {
	t.Helper()
	reply, err := call(t, s.Client(), s.URL(), "GetPrice", request, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func equal[V comparable](t *testing.T, got, wanted V) {
	t.Helper()
	if got != wanted {
		t.Fatalf("got %v, wanted %v", got, wanted)
	}
}

func matches(t *testing.T, text, pattern string) {
	t.Helper()
	if !regexp.MustCompile(pattern).MatchString(text) {
		t.Fatalf("%q does not match %q", text, pattern)
	}
}

func TestItAnswersAsItWasToldAndFromItsSchemaWhereItWasNot(t *testing.T) {
	t.Parallel()
	s := shop.Session(t)
	s.On(getPrice).With("sku", "tea").WithHeader("x-tenant", mock.Doc{"in": []string{"acme"}}).
		Reply(mock.Doc{"unit_price": 4})
	s.On(getPrice).With("quantity", mock.Doc{"gte": 100}).Delay(time.Millisecond).Header("x-a", "b").
		Reply(struct {
			Note string `json:"note"`
		}{"bulk"})
	equal(t, price(t, s, `{"sku":"tea"}`, "x-tenant", "acme"), `{"unitPrice":"4"}`)
	equal(t, price(t, s, `{"quantity":250}`), `{"note":"bulk"}`)
	matches(t, price(t, s, `{"sku":"tea"}`), `"sku":.*"unitPrice":.*"note":`)
}

func TestItFailsSoOftenAndAnswersThen(t *testing.T) {
	t.Parallel()
	s := shop.Session(t)
	s.On(getPrice).Times(1).Fail("unavailable", "try again")
	s.On(getPrice).Reply(mock.Doc{"unit_price": 9})
	equal(t, price(t, s, `{}`), `{"code":"unavailable","message":"try again"}`)
	equal(t, price(t, s, `{}`), `{"unitPrice":"9"}`)
}

func TestItAnswersWithAStream(t *testing.T) {
	t.Parallel()
	s := shop.Session(t)
	s.On("shop.v1.Cart/WatchPrice").ReplyStream(mock.Doc{"note": "a"}, mock.Doc{"note": "b"})
	reply, err := call(t, s.Client(), s.URL(), "WatchPrice", "\x00\x00\x00\x00\x02{}",
		"content-type", "application/connect+json")
	if err != nil {
		t.Fatal(err)
	}
	matches(t, reply, `(?s){"note":"a"}.*{"note":"b"}`)
}

func TestSessionsThatRunBesideOneAnotherAreApart(t *testing.T) {
	t.Parallel()
	for number := 1; number <= 20; number++ {
		t.Run(fmt.Sprint(number), func(t *testing.T) {
			t.Parallel()
			s := shop.Session(t)
			s.On(getPrice).Times(2).Reply(mock.Doc{"unit_price": number})
			s.On(getPrice).Fail("not_found", "used up")
			request := fmt.Sprintf(`{"quantity":%d}`, number)
			for range 2 {
				equal(t, price(t, s, request), fmt.Sprintf(`{"unitPrice":"%d"}`, number))
			}
			equal(t, price(t, s, request), `{"code":"not_found","message":"used up"}`)
			s.Verify(getPrice, mock.With("quantity", number), mock.Exactly(3))
			equal(t, len(s.Calls(getPrice)), 3)
			s.Reset()
			equal(t, len(s.Calls("")), 0)
			if reply := price(t, s, request); strings.Contains(reply, "used up") {
				t.Fatal("its rules are gone")
			}
		})
	}
}

func TestItTellsTheCallsAndThoseThatNoRuleWasFor(t *testing.T) {
	t.Parallel()
	s := shop.Session(t)
	s.On(getPrice).With("sku", "tea").Reply(nil)
	price(t, s, `{"sku":"milk"}`, "x-tenant", "acme")
	one := s.Calls("")[0]
	equal(t, one.Method, getPrice)
	equal(t, one.Session, s.Name())
	equal(t, one.Code, "ok")
	equal(t, one.Request()["sku"], any("milk"))
	miss := s.NearMisses()[0]
	equal(t, strings.Join(miss.Misses, ", "), `request.sku is "milk", wanted "tea"`)
	equal(t, miss.Call.Request()["sku"], any("milk"))
	equal(t, slices.Contains(miss.Call.Headers, mock.Header{Name: "x-tenant", Value: "acme"}), true)
	equal(t, len(shop.Session(t).NearMisses()), 0)
}

// recorder is a test that is told of failures.
type recorder struct {
	*testing.T
	told     []string
	cleanups []func()
}

func (r *recorder) Cleanup(do func()) {
	r.cleanups = append(r.cleanups, do)
}

func (r *recorder) Errorf(format string, arguments ...any) {
	r.told = append(r.told, fmt.Sprintf(format, arguments...))
}

// Fatalf ends what the test does, as that of *testing.T.
func (r *recorder) Fatalf(format string, arguments ...any) {
	r.Errorf(format, arguments...)
	runtime.Goexit()
}

// failure is what a test would be told.
func failure(t *testing.T, do func(mock.T)) string {
	r := &recorder{T: t}
	run := func(do func()) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			do()
		}()
		<-done
	}
	run(func() { do(r) })
	for at := len(r.cleanups) - 1; at >= 0; at-- {
		run(r.cleanups[at])
	}
	return strings.Join(r.told, "\n")
}

func TestVerifyFailsWithTheCallsThatCameNear(t *testing.T) {
	t.Parallel()
	told := failure(t, func(r mock.T) {
		s := shop.Session(r)
		price(t, s, `{"sku":"milk","quantity":7}`)
		s.Verify(getPrice)
		s.Verify(getPrice, mock.With("sku", "tea"), mock.Exactly(0))
		s.Verify(getPrice, mock.WithMessage(mock.Doc{"sku": "tea", "quantity": 7}), mock.Exactly(3))
	})
	matches(t, told, `expected exactly 3 calls of .*, got 0\n  closest: call \d+\n    sku is "milk", wanted "tea"`)
}

func TestARuleThatIsNeverEndedFailsItsTestAtTheEnd(t *testing.T) {
	t.Parallel()
	told := failure(t, func(r mock.T) {
		s := shop.Session(r)
		s.On(getPrice).With("sku", "tea")
		s.On(getPrice).With("sku", "milk").Reply(nil)
	})
	matches(t, told, `^mock_test.go:\d+: On\("shop.v1.Cart/GetPrice"\) answers nothing; end it with Reply, ReplyStream, Fail or PassOn$`)
	one, err := mock.New(mock.Options{Protos: protos})
	if err != nil {
		t.Fatal(err)
	}
	one.On(getPrice)
	defer func() {
		matches(t, fmt.Sprint(recover()), "answers nothing")
		one.Close()
	}()
	one.Close()
}

func TestStubsAreRemoved(t *testing.T) {
	t.Parallel()
	one := mock.Start(t, mock.Options{Protos: protos})
	s := one.Session(t)
	one.On(getPrice).Fail("aborted", "of the mock")
	s.On(getPrice).Fail("aborted", "of the session")
	s.On("shop.v1.Cart/Find").Fail("aborted", "another one")
	matches(t, price(t, s, "{}"), "of the session")
	s.Unstub("/" + getPrice)
	matches(t, price(t, s, "{}"), "of the mock")
	one.Unstub("")
	matches(t, price(t, s, "{}"), `"unitPrice"`)
	reply, err := call(t, s.Client(), s.URL(), "Find", "{}")
	if err != nil {
		t.Fatal(err)
	}
	matches(t, reply, "another one")
	matches(t, failure(t, func(r mock.T) { shop.Session(r).Unstub("shop.v1.Cart/GetPrize") }), "no method is called")
}

func TestOneBoundOfHowOftenIsTaken(t *testing.T) {
	t.Parallel()
	for _, two := range [][]mock.Wanted{
		{mock.AtLeast(1), mock.AtMost(2)}, {mock.Exactly(1), mock.AtLeast(1)}, {mock.AtMost(1), mock.Exactly(1)},
	} {
		told := failure(t, func(r mock.T) { shop.Session(r).Verify(getPrice, two...) })
		matches(t, told, `^Verify\("shop.v1.Cart/GetPrice"\) takes one of Exactly, AtLeast and AtMost`)
	}
}

func TestAWrongRuleIsRefusedWhereItIsAdded(t *testing.T) {
	t.Parallel()
	for why, add := range map[string]func(*mock.Rule){
		"GetPriceReply has no field unit_prise; write unit_price": func(r *mock.Rule) { r.Reply(mock.Doc{"unit_prise": 4}) },
		`"dear" is not a valid int64`:                             func(r *mock.Rule) { r.Reply(mock.Doc{"unit_price": "dear"}) },
		"GetPriceRequest has no field skuu":                       func(r *mock.Rule) { r.With("skuu", "tea").Reply(nil) },
		"not a code of an error; write unavailable":               func(r *mock.Rule) { r.Fail("unavaliable", "") },
		"not a kind of fault":                                     func(r *mock.Rule) { r.Fault(mock.Doc{"kind": "rset"}).Reply(nil) },
	} {
		told := failure(t, func(r mock.T) { add(shop.Session(r).On(getPrice)) })
		matches(t, told, why)
	}
	told := failure(t, func(r mock.T) { shop.Session(r).On("shop.v1.Cart/GetPrize").Reply(nil) })
	matches(t, told, "no method is called")
	// Without a test it panics.
	defer func() { matches(t, fmt.Sprint(recover()), "has no field unit_prise") }()
	shop.On(getPrice).Reply(mock.Doc{"unit_prise": 4})
}

func TestAnswersGoWrongWhereTheyAreToldTo(t *testing.T) {
	t.Parallel()
	s := shop.Session(t)
	s.On(getPrice).Fault(mock.Doc{"kind": "truncate", "after": 3}).Reply(mock.Doc{"note": "long enough"})
	reply, err := call(t, s.Client(), s.URL(), "GetPrice", `{}`)
	if err == nil && json.Valid([]byte(reply)) {
		t.Fatalf("%q is whole", reply)
	}
}

func TestItEndsWhenTheTestThatStartedItIsKilled(t *testing.T) {
	t.Parallel()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "ONLY_A_MOCK=1")
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	url, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	answers := func() bool {
		reply, err := call(t, http.DefaultClient, strings.TrimSpace(url), "GetPrice", "{}")
		return err == nil && reply == fmt.Sprintf(`{"note":"%d"}`, child.Process.Pid)
	}
	if !answers() {
		t.Fatal("the mock does not answer")
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	// Until nobody answers, or another mock has its port; a mock that goes on is ended by the timeout of the run.
	for answers() {
	}
}

func TestAPortThatIsTakenAndAProgramThatIsNotThereOrIsAnotherOneAreTold(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	for why, options := range map[string]mock.Options{
		fmt.Sprintf("127.0.0.1:%d is in use by another program", port): {Protos: protos, Port: port},
		"put tidewire on PATH":                  {Protos: protos, Program: "/no/tidewire"},
		"true mock ended with exit status 0":    {Protos: protos, Program: "true"},
		"(?s)too old for this package.*--newer": {Protos: protos, Arguments: []string{"--newer"}},
		"there is no service in /no/protos":     {Protos: "/no/protos"},
	} {
		_, err := mock.New(options)
		matches(t, fmt.Sprint(err), why)
	}
}

func TestAMockThatHasEndedSaysSoAndHow(t *testing.T) {
	t.Parallel()
	told := failure(t, func(r mock.T) {
		one := mock.Start(r, mock.Options{Protos: protos})
		process, err := os.FindProcess(one.Pid())
		if err != nil {
			t.Error(err)
		}
		_ = process.Kill()
		one.On(getPrice).Reply(nil)
	})
	matches(t, told, "the mock ended with signal: killed")
}

func TestMetadataIsForClientsOfGrpc(t *testing.T) {
	t.Parallel()
	s := shop.Session(t)
	if !slices.Equal(s.Metadata(), []string{"x-mock-session", s.Name()}) {
		t.Fatal(s.Metadata())
	}
}
