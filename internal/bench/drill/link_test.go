package drill

import (
	"bufio"
	"fmt"
	"net"
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
)

// echo answers each line with itself, until the test ends.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					fmt.Fprintln(c, lines.Text())
				}
			}()
		}
	}()
	return l.Addr().String()
}

func TestALinkCarriesHangsAndResets(t *testing.T) {
	l, err := newLink("127.0.0.1", echo(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	dial := func() (net.Conn, *bufio.Scanner) {
		c, err := net.Dial("tcp", l.address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c, bufio.NewScanner(c)
	}
	c, lines := dial()
	fmt.Fprintln(c, "carried")
	if !lines.Scan() || lines.Text() != "carried" {
		t.Fatalf("read %q, %v", lines.Text(), lines.Err())
	}

	l.set(hangs)
	fmt.Fprintln(c, "held back")
	heard := make(chan string, 1)
	go func() {
		lines.Scan()
		heard <- lines.Text()
	}()
	select {
	case text := <-heard:
		t.Fatalf("%q came through a link that hangs", text)
	default:
	}
	l.set(carries)
	if text := <-heard; text != "held back" {
		t.Fatalf("read %q after the link carried again", text)
	}

	l.set(resets)
	if lines.Scan() {
		t.Fatalf("read %q from a connection that was reset", lines.Text())
	}
	eventually.Holds(t, "new connections work again", func() bool {
		l.set(carries)
		c, lines := dial()
		fmt.Fprintln(c, "again")
		return lines.Scan() && lines.Text() == "again"
	})
}
