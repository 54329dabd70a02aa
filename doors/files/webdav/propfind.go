package webdav

import (
	"encoding/xml"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// propfind lists properties of a resource, and with Depth 1 of everything directly
// in a folder. Depth infinity is refused: a client walks instead.
func (q *request) propfind() error {
	depth := q.Header.Get("Depth")
	switch depth {
	case "0", "1":
	case "", "infinity":
		return conditionError{status: http.StatusForbidden, condition: "propfind-finite-depth"}
	default:
		return protocol.InvalidParam("Depth", "must be 0 or 1")
	}
	asked, err := readPropfind(q.Body)
	if err != nil {
		return err
	}
	r, err := q.find(q.at, "vfs:list")
	if err != nil {
		return err
	}
	if err := q.condition.hold(q, r); err != nil {
		return err
	}
	return q.multistatus(func(l *listing) error {
		if err := l.add(r, asked); err != nil || depth == "0" || !r.folder {
			return err
		}
		return l.below(r, asked)
	})
}

// A listing writes a multistatus as its responses come.
type listing struct {
	*request
	b     strings.Builder
	begun bool
}

// flushAt is the number of bytes of a listing that are gathered.
const flushAt = 64 << 10

// multistatus answers 207 with the output of write. An error after the first bytes
// cuts the connection, so that half a list is not taken for a whole one.
func (q *request) multistatus(write func(*listing) error) error {
	l := &listing{request: q}
	l.b.WriteString(xml.Header + `<D:multistatus xmlns:D="DAV:" xmlns:b="` + namespace + `">`)
	err := write(l)
	if err != nil && !l.begun {
		return err
	}
	if err == nil {
		l.b.WriteString("</D:multistatus>\n")
		err = l.flush()
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

func (l *listing) flush() error {
	if !l.begun {
		l.w.Header().Set("Content-Type", "application/xml; charset=utf-8")
		l.w.WriteHeader(http.StatusMultiStatus)
		l.begun = true
	}
	_ = http.NewResponseController(l.w).SetWriteDeadline(time.Now().Add(30 * time.Second))
	_, err := l.w.Write([]byte(l.b.String()))
	l.b.Reset()
	return err
}

// below adds everything directly in a folder.
func (l *listing) below(folder resource, asked *query) error {
	if folder.at.root() {
		for _, group := range l.door.Files.Service.GroupsFor(l.who) {
			r, there, err := l.findMaybe(target{group: group}, "vfs:list")
			if err != nil || !there {
				continue // policy hides it, or its files have just been deleted
			}
			if err := l.add(r, asked); err != nil {
				return err
			}
		}
		return nil
	}
	for cursor := ""; ; {
		page, err := vfs.Browse(l.Context(), folder.located(), cursor, vfs.MaxLimit)
		if err != nil {
			return err
		}
		for _, path := range page.Folders {
			if err := l.add(resource{at: folder.at.child(path), files: folder.files, folder: true}, asked); err != nil {
				return err
			}
		}
		for _, f := range page.Files {
			if vfs.IsMarker(f.Path) {
				continue
			}
			if err := l.add(resource{at: folder.at.child(f.Path), files: folder.files, file: f}, asked); err != nil {
				return err
			}
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
	}
}

// add adds a response about a resource.
func (l *listing) add(r resource, asked *query) error {
	l.b.WriteString("<D:response><D:href>" + escape(r.href()) + "</D:href>")
	var missing []xml.Name
	l.b.WriteString("<D:propstat><D:prop>")
	for _, name := range asked.namesFor(&r) {
		p, ok := properties[name.Local]
		if name.Space != "DAV:" || !ok || !p.has(&r) {
			missing = append(missing, name)
			continue
		}
		value := ""
		if !asked.namesOnly {
			value = p.value(l.request, &r)
		}
		l.b.WriteString("<D:" + name.Local + ">" + value + "</D:" + name.Local + ">")
	}
	l.b.WriteString("</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>")
	if len(missing) > 0 {
		l.b.WriteString(propstat(missing, "404 Not Found", ""))
	}
	l.b.WriteString("</D:response>")
	if l.b.Len() < flushAt {
		return nil
	}
	return l.flush()
}

// propstat is the element for properties without values.
func propstat(names []xml.Name, status, inner string) string {
	var b strings.Builder
	b.WriteString("<D:propstat><D:prop>")
	for _, name := range names {
		if name.Space == "" {
			b.WriteString("<" + name.Local + ` xmlns=""/>`)
			continue
		}
		b.WriteString("<n:" + name.Local + ` xmlns:n="` + escape(name.Space) + `"/>`)
	}
	b.WriteString("</D:prop><D:status>HTTP/1.1 " + status + "</D:status>" + inner + "</D:propstat>")
	return b.String()
}

// A property is a live property of DAV:. All are protected.
type property struct {
	of    byte // f for files, d for folders, b for both, g for groups
	quiet bool // returned only if it is named
	value func(q *request, r *resource) string
}

func (p property) has(r *resource) bool {
	switch p.of {
	case 'f':
		return !r.folder
	case 'd':
		return r.folder
	}
	return true
}

// modified is the time of the last change of a file's content, as far as its writer
// said.
func modified(f vfs.File) time.Time {
	if f.Mtime != 0 {
		return time.UnixMilli(f.Mtime).UTC()
	}
	return f.Modified.UTC()
}

var properties = map[string]property{
	"resourcetype": {of: 'b', value: func(_ *request, r *resource) string {
		if r.folder {
			return "<D:collection/>"
		}
		return ""
	}},
	"displayname": {of: 'b', value: func(_ *request, r *resource) string {
		name := r.at.name()
		return escape(name[strings.LastIndexByte(name, '/')+1:])
	}},
	"getcontentlength": {of: 'f', value: func(_ *request, r *resource) string { return strconv.FormatInt(r.file.Size, 10) }},
	"getcontenttype":   {of: 'f', value: func(_ *request, r *resource) string { return escape(mediaType(r.file)) }},
	"getetag":          {of: 'f', value: func(_ *request, r *resource) string { return escape(etag(r.file)) }},
	"getlastmodified":  {of: 'f', value: func(_ *request, r *resource) string { return modified(r.file).Format(http.TimeFormat) }},
	"creationdate":     {of: 'f', value: func(_ *request, r *resource) string { return r.file.Modified.UTC().Format(time.RFC3339) }},
	"supportedlock": {of: 'b', value: func(*request, *resource) string {
		const entry = "<D:lockentry><D:lockscope><D:%/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>"
		return strings.ReplaceAll(entry, "%", "exclusive") + strings.ReplaceAll(entry, "%", "shared")
	}},
	"lockdiscovery": {of: 'b', value: func(q *request, r *resource) string { return q.activeLocks(r.at) }},
	"quota-used-bytes": {of: 'd', quiet: true, value: func(q *request, _ *resource) string {
		used, _ := q.room()
		return strconv.FormatInt(used, 10)
	}},
	"quota-available-bytes": {of: 'd', quiet: true, value: func(q *request, _ *resource) string {
		_, free := q.room()
		return strconv.FormatInt(free, 10)
	}},
}

// everything are the properties of an answer to a request that names none, in order.
var everything = []string{"resourcetype", "displayname", "getcontentlength", "getcontenttype", "getetag", "getlastmodified", "creationdate",
	"supportedlock", "lockdiscovery"}

func mediaType(f vfs.File) string {
	if f.ContentType == "" {
		return "application/octet-stream"
	}
	return f.ContentType
}

// room is the part of the use and of the free space that the principal may know, in
// bytes.
func (q *request) room() (used, free int64) {
	u, err := q.door.Files.Service.Usage(q.Context(), q.who)
	if err != nil {
		return 0, 0
	}
	if u.Total == 0 {
		return u.Used, 1 << 50
	}
	return u.Used, max(0, u.Total-u.Used)
}
