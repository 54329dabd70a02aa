package webdav

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// conditions are those of an If header (RFC 4918, section 10.4): one of the lists
// must hold.
type conditions struct {
	lists []conditionList
}

// A conditionList holds if all of its conditions do, for the resource that it is
// tagged with, or else that of the request.
type conditionList struct {
	tag        string // URL, "" for the resource of the request
	conditions []condition
}

// A condition is that a resource has a lock, or an entity tag.
type condition struct {
	not   bool
	token string
	etag  string
}

// maxConditions bounds the conditions of a header.
const maxConditions = 64

// tokens are the tokens of locks that the header names.
func (c *conditions) tokens() map[string]bool {
	shown := make(map[string]bool)
	for _, l := range c.lists {
		for _, one := range l.conditions {
			if one.token != "" {
				shown[one.token] = true
			}
		}
	}
	return shown
}

// parseIf reads an If header, "" for none.
func parseIf(header string) (c conditions, err error) {
	p := ifParser{rest: header}
	tag, tagged := "", false
	for n := 0; ; {
		switch p.skip(); {
		case p.rest == "" && header != "" && len(c.lists) == 0:
			return c, errIf
		case p.rest == "":
			return c, nil
		case p.rest[0] == '<':
			if tag, err = p.until('<', '>'); err != nil || !tagged && len(c.lists) > 0 {
				return c, errIf
			}
			tagged = true
			if p.skip(); !strings.HasPrefix(p.rest, "(") {
				return c, errIf
			}
		case p.rest[0] == '(':
			l := conditionList{tag: tag}
			if l.conditions, err = p.list(); err != nil {
				return c, err
			}
			if n += len(l.conditions); n > maxConditions {
				return c, protocol.InvalidParam("If", "has too many conditions")
			}
			c.lists = append(c.lists, l)
		default:
			return c, errIf
		}
	}
}

var errIf = protocol.InvalidParam("If", "is not as RFC 4918 has it")

// An ifParser reads an If header.
type ifParser struct{ rest string }

func (p *ifParser) skip() { p.rest = strings.TrimLeft(p.rest, " \t") }

// until takes the text between two characters.
func (p *ifParser) until(from, to byte) (string, error) {
	if p.rest == "" || p.rest[0] != from {
		return "", errIf
	}
	inner, rest, ok := strings.Cut(p.rest[1:], string(to))
	if !ok || inner == "" {
		return "", errIf
	}
	p.rest = rest
	return inner, nil
}

// list takes a list of conditions.
func (p *ifParser) list() (list []condition, err error) {
	p.rest = p.rest[1:]
	for {
		p.skip()
		var c condition
		if rest, ok := strings.CutPrefix(p.rest, "Not"); ok {
			c.not, p.rest = true, rest
			p.skip()
		}
		switch {
		case strings.HasPrefix(p.rest, "<"):
			c.token, err = p.until('<', '>')
		case strings.HasPrefix(p.rest, "["):
			c.etag, err = p.until('[', ']')
		case strings.HasPrefix(p.rest, ")") && len(list) > 0 && !c.not:
			p.rest = p.rest[1:]
			return list, nil
		default:
			err = errIf
		}
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
}

// hold refuses with 412 if no list holds, or a condition of HTTP (RFC 9110,
// section 13) does not, which are about a resource that may not be there.
func (c *conditions) hold(q *request, r resource) error {
	if !c.any(q, r) {
		return precondition("If")
	}
	tag := ""
	if !r.folder && r.file.ID != "" {
		tag = etag(r.file)
	}
	there := tag != "" || r.folder
	if h := q.Header.Get("If-Match"); h != "" && !(there && matches(h, tag)) {
		return precondition("If-Match")
	}
	reads := q.Method == http.MethodGet || q.Method == http.MethodHead
	if h := q.Header.Get("If-None-Match"); h != "" && !reads && there && matches(h, tag) {
		return precondition("If-None-Match")
	}
	return nil
}

// matches reports whether a list of entity tags has one that is not weak. Any is
// *.
func matches(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		if one = strings.TrimSpace(one); one == "*" || one == tag && tag != "" {
			return true
		}
	}
	return false
}

func (c *conditions) any(q *request, r resource) bool {
	for _, l := range c.lists {
		if l.holds(q, r) {
			return true
		}
	}
	return len(c.lists) == 0
}

func (l *conditionList) holds(q *request, r resource) bool {
	at, file := q.at, r.file
	if l.tag != "" {
		u, err := url.Parse(l.tag)
		if err != nil || u.Host != "" && u.Host != q.Host {
			return false
		}
		if at, err = parseTarget(u.Path); err != nil {
			return false
		}
		file = vfs.File{}
		if other, err := q.find(at, "vfs:read"); err == nil && !other.folder {
			file = other.file
		}
	}
	for _, one := range l.conditions {
		held := one.etag != "" && file.ID != "" && one.etag == etag(file)
		for _, lock := range q.door.locks.of(q.who.Home(), at.name()) {
			held = held || one.token != "" && lock.token == one.token && lock.Owner.Is(q.who)
		}
		if held == one.not {
			return false
		}
	}
	return true
}
