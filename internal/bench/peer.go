package bench

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A Peer is a broker that can be started as a process.
type Peer struct {
	Name string
	// Command is the program and its arguments that serve MQTT on a loopback
	// address. It may write files into dir, which is new and goes away.
	Command func(address, dir string) ([]string, error)
	// Serves are the transports other than TCP that the broker has, and Over is
	// Command for one of them. For TLS a certificate and its key are in dir.
	Serves []Over
	Over   func(over Over, address, dir string) ([]string, error)
	// Version is the protocol level to speak with it, 4 (MQTT 3.1.1) or 5;
	// 0 means 5.
	Version byte
	// Answers is true if the process, with AIBRIDGE_BENCH_ANSWER set, answers messages
	// on bench/ask/N itself, by the same payload on bench/reply/N.
	Answers bool

	bridge bool // a whole bridge, asked to invoke a skill
}

// serves reports whether the broker has the transport.
func (p Peer) serves(over Over) bool { return over == OverTCP || slices.Contains(p.Serves, over) }

func (p Peer) version() byte {
	if p.Version == 0 {
		return version5
	}
	return p.Version
}

// Mosquitto is the installed Eclipse Mosquitto, without limits on messages in flight,
// so that it loses none, and without Nagle's algorithm, to its advantage. It reports
// false if there is none.
func Mosquitto() (Peer, bool) {
	program, err := exec.LookPath("mosquitto")
	if err != nil {
		program = "/usr/sbin/mosquitto" // its place in Debian, which is not in every path
		if _, err := os.Stat(program); err != nil {
			return Peer{}, false
		}
	}
	serve := func(over Over, address, dir string) ([]string, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		file := filepath.Join(dir, "mosquitto.conf")
		config := fmt.Sprintf("listener %s %s\n", port, host) + `allow_anonymous true
persistence false
log_dest none
set_tcp_nodelay true
max_inflight_messages 0
max_queued_messages 0
`
		if os.Geteuid() == 0 {
			config += "user root\n" // or it becomes one that cannot read dir
		}
		if over == OverTLS {
			config += "certfile " + filepath.Join(dir, certificateFile) + "\nkeyfile " + filepath.Join(dir, keyFile) + "\n"
		}
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			return nil, err
		}
		return []string{program, "-c", file}, nil
	}
	return Peer{Name: mosquittoName, Serves: []Over{OverTLS}, Over: serve, Command: func(address, dir string) ([]string, error) {
		return serve(OverTCP, address, dir)
	}}, true
}

// Hosted is a broker that is linked into this program ([Kinds]). It runs as argv with
// three more arguments, kind, address and directory, which that program passes to
// [Serve].
func Hosted(kind string, argv ...string) Peer {
	p := Peer{Name: kind, Answers: kind != KindNATS, Command: func(address, dir string) ([]string, error) {
		return append(argv[:len(argv):len(argv)], kind, address, dir), nil
	}}
	p.Serves = []Over{OverTLS, OverWebSocket}
	p.Over = func(over Over, address, dir string) ([]string, error) {
		return append(argv[:len(argv):len(argv)], kind+":"+string(over), address, dir), nil
	}
	switch kind {
	case KindNATS:
		p.Version, p.Serves = 4, nil // all it speaks, or that is measured
	case KindHTTP:
		p.Answers, p.Serves = false, []Over{OverHTTP, OverHTTP2, OverMCP}
	case KindModel:
		p.Answers, p.Serves = false, []Over{OverLLM}
	}
	return p
}

// External is any broker that a command line starts. {address} and {dir} in
// it stand for the address to serve and a directory to write to.
func External(name, commandLine string) (Peer, error) {
	fields := strings.Fields(commandLine)
	if len(fields) == 0 || !strings.Contains(commandLine, "{address}") && !strings.Contains(commandLine, "{port}") {
		return Peer{}, fmt.Errorf("the command line of %s must say where {address} or {port} goes", name)
	}
	return Peer{Name: name, Command: func(address, dir string) ([]string, error) {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		argv := make([]string, len(fields))
		for i, f := range fields {
			argv[i] = strings.NewReplacer("{address}", address, "{port}", port, "{dir}", dir).Replace(f)
		}
		return argv, nil
	}}, nil
}
