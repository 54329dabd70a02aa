package freeport

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

const many = blockSize + blockSize/2 // of more than a block

// asks is the number of addresses that a process of a test asks for.
const asks = "FREEPORT_TEST_ASKS"

func TestMain(m *testing.M) {
	if n, err := strconv.Atoi(os.Getenv(asks)); err == nil {
		fmt.Println(strings.Join(Addresses(n), " "))
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the test is done
		return
	}
	os.Exit(m.Run())
}

// TestNoAddressIsGivenOutTwice asks in this process and in others, which run on.
func TestNoAddressIsGivenOutTwice(t *testing.T) {
	seen := make(map[string]bool)
	note := func(addresses []string) {
		if len(addresses) != many {
			t.Fatalf("%d addresses", len(addresses))
		}
		for _, a := range addresses {
			if seen[a] {
				t.Errorf("%s is given out twice", a)
			}
			seen[a] = true
			isAddress(t, a)
		}
	}
	for range 2 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), asks+"="+strconv.Itoa(many))
		stop, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		said, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = stop.Close()
			_ = cmd.Wait()
		}()
		line, err := bufio.NewReader(said).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		note(strings.Fields(line))
	}
	note(Addresses(many))
}

// TestWhereSomebodyListensIsPassedOver has the next port taken.
func TestWhereSomebodyListensIsPassedOver(t *testing.T) {
	Address()
	mu.Lock()
	b := taken[len(taken)-1]
	following := addressOf(b.first + b.given)
	mu.Unlock()
	l, err := net.Listen("tcp", following)
	if err != nil {
		t.Skipf("somebody else listens at %s", following)
	}
	defer l.Close()
	if got := Address(); got == following {
		t.Errorf("%s is given out, where somebody listens", got)
	}
}

// TestThereAreAddressesWhenOthersHaveAllBlocks has this process be given no more of them.
func TestThereAreAddressesWhenOthersHaveAllBlocks(t *testing.T) {
	before := mark
	mark = func(string) (net.PacketConn, error) { return nil, errors.New("taken") }
	defer func() { mark = before }()
	for _, a := range Addresses(many) {
		isAddress(t, a)
	}
}

func isAddress(t *testing.T, a string) {
	t.Helper()
	if host, port, err := net.SplitHostPort(a); err != nil || host != "127.0.0.1" || port < "10000" || port > "29999" || len(port) != 5 {
		t.Errorf("%s, %v", a, err)
	}
}
