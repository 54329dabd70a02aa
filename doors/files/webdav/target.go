package webdav

import (
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// A target is a resource that a URL names: a file or folder of a group, the group
// itself with an empty path, or with an empty group the folder of all groups.
type target struct {
	group, path string
	slash       bool // the URL ends in a slash, as those of folders do
}

// parseTarget reads the decoded path of a URL. Names are composed (NFC), for
// systems that send them otherwise; everything else is refused that a path of the
// VFS cannot have.
func parseTarget(decoded string) (t target, err error) {
	rest, ok := strings.CutPrefix(decoded, Path)
	if !ok || rest != "" && rest[0] != '/' {
		return t, protocol.Errorf(protocol.NotFound, "there is nothing at this path")
	}
	rest = strings.TrimPrefix(rest, "/")
	if t.slash = strings.HasSuffix(rest, "/"); t.slash {
		rest = strings.TrimSuffix(rest, "/")
	}
	t.group, t.path, _ = strings.Cut(norm.NFC.String(rest), "/")
	if t.group == "" {
		if rest != "" || t.slash {
			return t, protocol.InvalidParam("group_name", "is empty")
		}
		return t, nil
	}
	if err := vfs.CheckGroup(t.group); err != nil {
		return t, err
	}
	if t.path == "" {
		if strings.Contains(rest, "/") {
			return t, protocol.InvalidParam("path", "has an empty name")
		}
		return t, nil
	}
	if _, err := vfs.CleanPath(t.path); err != nil {
		return t, err
	}
	if vfs.IsMarker(t.path) {
		return t, protocol.InvalidParam("path", "the name "+vfs.FolderMarker+" is the bridge's own")
	}
	return t, nil
}

// root reports whether it is the folder of all groups.
func (t target) root() bool { return t.group == "" }

// name is the target as locks know it.
func (t target) name() string {
	if t.path == "" {
		return t.group
	}
	return t.group + "/" + t.path
}

// parent is the folder that the target is in.
func (t target) parent() target {
	if t.path == "" {
		return target{}
	}
	i := max(0, strings.LastIndexByte(t.path, '/'))
	return target{group: t.group, path: t.path[:i]}
}

// child is the target with a path in the same group.
func (t target) child(path string) target { return target{group: t.group, path: path} }

// href is the target as a URL's path. Those of folders end in a slash.
func (t target) href(folder bool) string {
	var b strings.Builder
	b.WriteString(Path)
	if !t.root() {
		for name := range strings.SplitSeq(t.name(), "/") {
			b.WriteByte('/')
			b.WriteString(url.PathEscape(name))
		}
	}
	if folder {
		b.WriteByte('/')
	}
	return b.String()
}

// destination is the target of COPY and MOVE. It is on this bridge, else 502.
func (q *request) destination() (target, error) {
	text := q.Header.Get("Destination")
	u, err := url.Parse(text)
	if text == "" || err != nil || u.Path == "" {
		return target{}, protocol.InvalidParam("Destination", "must be a URL")
	}
	if u.Host != "" && u.Host != q.Host {
		return target{}, statusError{http.StatusBadGateway, protocol.InvalidParam("Destination", "is on another server")}
	}
	return parseTarget(u.Path)
}
