//go:build unix

package plainhttp

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// alive reports whether an idle connection can be used: it is open, and nothing has come
// that nobody asked for. It does not wait.
func alive(conn net.Conn) bool {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return true // found out by using it
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	var one [1]byte
	var told error
	err = raw.Read(func(fd uintptr) bool {
		_, _, told = unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return true
	})
	return err == nil && (told == unix.EAGAIN || told == unix.EINTR)
}
