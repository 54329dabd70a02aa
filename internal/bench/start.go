package bench

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// A stock is what a bridge keeps when it starts.
type stock struct {
	name  string // of the scenario
	many  int    // things that it consists of
	bytes int    // of each of them, if what it takes beside is to be told
}

// Names of the scenarios of a bridge alone.
const (
	resumeName = "TLS connections of clients that come back"
	sizeName   = "the program as released"
)

// The stocks, of which the first is nothing: what the others take is counted from there.
var (
	emptyStock    = stock{name: "start with nothing kept"}
	skillStock    = stock{name: "start with 100 000 skills", many: 100_000}
	sessionStock  = stock{name: "start with 100 000 kept sessions", many: 100_000}
	retainedStock = stock{name: "start with 1 000 000 retained messages", many: 1_000_000, bytes: len(keptTopic(0)) + keptPayload}

	stocks = []stock{emptyStock, skillStock, sessionStock, retainedStock}
)

// keptPayload is the size of a retained message's payload.
const keptPayload = 200

// keptTopic is the topic of a retained message, or of the subscription of a kept session.
// All are of one length.
func keptTopic(i int) string { return fmt.Sprintf("bench/kept/%07d", i) }

// measureSize tells the size of a bridge's program, if it is built as releases are,
// without symbols.
func (o GoalsOptions) measureSize() (Report, error) {
	result := Result{Scenario: sizeName, Base: sizeName, Peer: bridgeName, Round: 1}
	program, err := exec.LookPath(o.Bridge[0])
	if err != nil {
		return Report{}, err
	}
	info, err := os.Stat(program)
	if err != nil {
		return Report{}, err
	}
	switch symbols, err := hasSymbols(program); {
	case err != nil:
		result.Err = err.Error()
	case symbols:
		result.Err = "it has symbols, which a release has not: make build"
	default:
		result.Size = info.Size()
	}
	return Report{Machine: machine(), Results: []Result{result}}, nil
}

func hasSymbols(program string) (bool, error) {
	file, err := elf.Open(program)
	if err != nil {
		return false, err
	}
	defer file.Close()
	if _, err := file.Symbols(); !errors.Is(err, elf.ErrNoSymbols) {
		return true, err
	}
	return false, nil
}
