//go:build !unix

package plainhttp

import "net"

// alive reports whether an idle connection can be used, which is found out by using it.
func alive(net.Conn) bool { return true }
