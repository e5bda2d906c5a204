// A program of the tests, as program.py: HTTP on the socket, the port or the descriptor that it is told, with
// ways to misbehave.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// signalOfDeath is that of the main thread, as each thread has its own.
var signalOfDeath int32

func init() {
	syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signalOfDeath)), 0)
}

func listen() net.Listener {
	var listener net.Listener
	var err error
	if os.Getenv("LISTEN_FDS") != "" && os.Getenv("LISTEN_PID") == strconv.Itoa(os.Getpid()) {
		listener, err = net.FileListener(os.NewFile(3, "listener"))
	} else if path := os.Getenv("SOCKET"); path != "" {
		listener, err = net.Listen("unix", path)
	} else {
		listener, err = net.Listen("tcp", "127.0.0.1:"+os.Getenv("PORT"))
	}
	if err != nil {
		panic(err)
	}
	return listener
}

// daemon starts a process in a session of its own whose parent is gone, with this environment.
func daemon(w io.Writer, environment []string) {
	parent := exec.Command(os.Args[0], "daemon-parent")
	parent.Env = environment
	out, err := parent.Output()
	if err != nil {
		panic(err)
	}
	w.Write(out)
}

// link starts another process in a session of its own, which does the same as this one ends.
func link() {
	next := exec.Command(os.Args[0], "link")
	next.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := next.Start(); err != nil {
		panic(err)
	}
}

func handle(w http.ResponseWriter, r *http.Request) {
	if r.Method == "PROPFIND" {
		fmt.Fprint(w, "PROPFIND ", r.RequestURI)
		return
	}
	switch r.URL.Path {
	case "/pid":
		// In pieces: such an answer is open until it is read.
		fmt.Fprint(w, os.Getpid())
		w.(http.Flusher).Flush()
	case "/open":
		// Goes on until its caller goes.
		fmt.Fprint(w, os.Getpid())
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case "/crash":
		os.Exit(3)
	case "/crash-in-stream":
		fmt.Fprint(w, "begun")
		w.(http.Flusher).Flush()
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "/garbage", "/garbage-chunk", "/two-lengths":
		connection, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		head := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
		connection.Write([]byte(map[string]string{
			"/garbage":       "\x00\x01 no answer\r\n\r\n",
			"/garbage-chunk": head + "\r\nzz\r\nhello",
			"/two-lengths":   head + "Content-Length: 3\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		}[r.URL.Path]))
		connection.Close()
	case "/hang":
		select {}
	case "/flood":
		out := bufio.NewWriter(os.Stdout)
		for range 40_000 {
			fmt.Fprintln(out, strings.Repeat("x", 100))
		}
		out.Flush()
		fmt.Fprint(w, "flooded")
	case "/daemon":
		daemon(w, nil)
	case "/bare-daemon":
		daemon(w, []string{})
	case "/echo":
		io.Copy(w, r.Body)
		w.(http.Flusher).Flush()
	case "/whole":
		whole, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Write(whole)
		return
	case "/user":
		fmt.Fprint(w, os.Geteuid(), " ", os.Getenv("HOME"), " ", signalOfDeath)
	case "/place":
		fmt.Fprint(w, os.Getenv("SOCKET"))
	case "/environment-mark":
		fmt.Fprint(w, "HOSTED_BY_TIDEWIRE=", os.Getenv("HOSTED_BY_TIDEWIRE"))
	case "/environment":
		names := []string{}
		for _, variable := range os.Environ() {
			names = append(names, strings.SplitN(variable, "=", 2)[0])
		}
		sort.Strings(names)
		fmt.Fprint(w, strings.Join(names, "\n"))
	default:
		fmt.Fprint(w, r.RequestURI)
	}
}

func main() {
	mode := ""
	if len(os.Args) > 1 {
		mode = os.Args[1]
	}
	switch mode {
	case "daemon-parent":
		child := exec.Command(os.Args[0], "daemon")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			panic(err)
		}
		fmt.Print(child.Process.Pid)
		return
	case "link":
		link()
		return
	case "chain":
		link()
	case "daemon", "never":
		for {
			time.Sleep(time.Hour)
		}
	case "crash":
		fmt.Fprintln(os.Stderr, "no database")
		os.Exit(1)
	case "decoy":
		if err := os.Symlink(os.Args[2], os.Getenv("SOCKET")); err != nil {
			panic(err)
		}
		for {
			time.Sleep(time.Hour)
		}
	case "polite":
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM)
		go func() {
			<-asked
			fmt.Println("bye")
			os.Exit(0)
		}()
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
	case "starts":
		file, err := os.OpenFile(os.Args[2], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		fmt.Fprintln(file, "started")
		file.Close()
	}
	panic(http.Serve(listen(), http.HandlerFunc(handle)))
}
