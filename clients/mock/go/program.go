package mock

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// How long the mock may take until it listens; only one that hangs takes so long.
	startTime = time.Minute
	// How long the system may take to tell that a program has ended which does not listen any more.
	endTime = 5 * time.Second
	// How much of what the mock logs is kept for errors.
	logBytes = 16 << 10
)

// program is `tidewire mock`. It listens on a free port, and its admin listener on another with a token that only
// this process knows. Its standard input is a pipe from here: when this process ends, however it ends, the mock
// reads the end of it and ends too.
type program struct {
	name, address, admin, token string
	command                     *exec.Cmd
	stdin                       io.WriteCloser
	log                         tail
	// Closed once it has ended.
	ended chan struct{}
}

func start(options Options) (*program, error) {
	folder, err := os.MkdirTemp("", "tidewire-mock-")
	if err != nil {
		return nil, err
	}
	// The mock has read what is in it when it listens, so nothing is left behind by a process that is killed.
	defer os.RemoveAll(folder)
	words, err := options.words(folder)
	if err != nil {
		return nil, err
	}
	p := &program{name: options.Program, ended: make(chan struct{})}
	for _, name := range []string{os.Getenv("TIDEWIRE"), "tidewire"} {
		if p.name == "" {
			p.name = name
		}
	}
	p.command = exec.Command(p.name, words...)
	// Settings of the machine are not those of a test.
	p.command.Env = []string{}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "TIDEWIRE_") {
			p.command.Env = append(p.command.Env, variable)
		}
	}
	p.command.Stderr = &p.log
	if err := p.listens(); err != nil {
		return nil, err
	}
	token, err := os.ReadFile(filepath.Join(folder, "token"))
	if err != nil {
		p.close()
		return nil, err
	}
	p.token = strings.TrimSpace(string(token))
	return p, nil
}

// words are the arguments of the program.
func (options Options) words(folder string) ([]string, error) {
	protos, rules := options.Protos, options.Rules
	if protos == "" {
		protos = "protos"
	}
	if rules == "" {
		rules = filepath.Join(folder, "rules")
	}
	configuration := filepath.Join(folder, "tidewire.toml")
	if err := os.WriteFile(configuration, nil, 0o600); err != nil {
		return nil, err
	}
	words := []string{
		"mock", protos, "--until-stdin-closes", "--rules", rules, "--port", strconv.Itoa(options.Port),
		"--config", configuration, "--set", "log.level=warn", "--set", "admin.listen=127.0.0.1:0",
		"--set", "admin.token_file=" + filepath.Join(folder, "token"),
		"--seed", strconv.FormatUint(options.Seed, 10),
	}
	if !options.Watch {
		words = append(words, "--no-watch")
	}
	if options.Validate {
		words = append(words, "--validate")
	}
	if options.WithoutRule != "" {
		words = append(words, "--without-rule", options.WithoutRule)
	}
	if options.Upstream != "" {
		words = append(words, "--upstream", options.Upstream)
	}
	return append(words, options.Arguments...), nil
}

// listens starts it, and returns once its addresses are known.
func (p *program) listens() error {
	var err error
	if p.stdin, err = p.command.StdinPipe(); err != nil {
		return err
	}
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.command.Start(); err != nil {
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			next := "put tidewire on PATH, or name the program by TIDEWIRE or Options.Program"
			return &Error{"unavailable", fmt.Sprintf("%s is not there; %s", p.name, next)}
		}
		return &Error{"unavailable", fmt.Sprintf("%s cannot be started: %v", p.name, err)}
	}
	started := make(chan struct{})
	go func() {
		defer close(p.ended)
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			name, rest, _ := strings.Cut(lines.Text(), " ")
			switch name {
			case "listening":
				p.address = strings.TrimPrefix(rest, "on ")
			case "admin":
				p.admin = strings.TrimPrefix(rest, "on ")
			case "mocking":
				close(started)
				_, _ = io.Copy(io.Discard, stdout)
			}
		}
		_ = p.command.Wait()
	}()
	select {
	case <-started:
		return nil
	case <-p.ended:
		return p.whyNot(p.end())
	case <-time.After(startTime):
		_ = p.command.Process.Kill()
		<-p.ended
		return p.whyNot(fmt.Sprintf("does not listen after %v", startTime))
	}
}

// end says how it ended.
func (p *program) end() string {
	return fmt.Sprintf("ended with %v", p.command.ProcessState)
}

func (p *program) whyNot(why string) error {
	log := p.log.text()
	told := fmt.Sprintf("%s mock %s:\n%s", p.name, why, log)
	if strings.Contains(log, "unexpected argument") {
		told = fmt.Sprintf("%s is too old for this package, or an argument is not one of its:\n%s", p.name, log)
	}
	return &Error{"unavailable", told}
}

// whyDead says how it ended and what it said last, where it has ended; nobody listens where it did.
func (p *program) whyDead() string {
	select {
	case <-p.ended:
		return fmt.Sprintf("the mock %s:\n%s", p.end(), p.log.text())
	case <-time.After(endTime):
		return ""
	}
}

// errors are those that it has logged.
func (p *program) errors() string {
	var errors string
	for _, line := range strings.Split(p.log.text(), "\n") {
		if strings.Contains(line, " ERROR ") {
			errors += "\n" + line
		}
	}
	return errors
}

func (p *program) close() {
	_ = p.stdin.Close()
	<-p.ended
}

// tail keeps the end of what is written.
type tail struct {
	lock sync.Mutex
	kept []byte
}

func (t *tail) Write(text []byte) (int, error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.kept = append(t.kept, text...)
	t.kept = t.kept[max(0, len(t.kept)-logBytes):]
	return len(text), nil
}

func (t *tail) text() string {
	t.lock.Lock()
	defer t.lock.Unlock()
	return string(bytes.TrimSpace(t.kept))
}
