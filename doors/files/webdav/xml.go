package webdav

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// Bounds of the documents that clients send.
const (
	maxDocument = 64 << 10
	maxDepth    = 16
	maxNames    = 256
)

// An element is an element of a document, with its children.
type element struct {
	name     xml.Name
	children []*element
	text     string
}

// child is the first child of DAV: with a name, nil if there is none.
func (e *element) child(name string) *element {
	for _, c := range e.children {
		if c.name == (xml.Name{Space: "DAV:", Local: name}) {
			return c
		}
	}
	return nil
}

// is reports whether an element has a name in DAV:.
func (e *element) is(name string) bool {
	return e.name == xml.Name{Space: "DAV:", Local: name}
}

func badDocument(reason string) error { return protocol.InvalidParam("body", reason) }

// readDocument reads a document that a client sent, nil for none. It has no
// declarations of types, so that there are no entities but those of XML, and its
// size, depth and number of elements are bounded.
func readDocument(r io.Reader) (*element, error) {
	limited := &io.LimitedReader{R: r, N: maxDocument + 1}
	d := xml.NewDecoder(limited)
	var root *element
	var open []*element
	count := 0
	for {
		token, err := d.Token()
		switch {
		case limited.N <= 0:
			return nil, protocol.Errorf(protocol.PayloadTooLarge, "a document of WebDAV may have %d bytes", maxDocument)
		case errors.Is(err, io.EOF) && root == nil && len(open) == 0:
			return nil, nil
		case errors.Is(err, io.EOF) && len(open) == 0:
			return root, nil
		case err != nil:
			return nil, badDocument("is not well-formed XML")
		}
		switch t := token.(type) {
		case xml.Directive:
			return nil, badDocument("may not declare a type")
		case xml.StartElement:
			if count++; count > maxNames || len(open) == maxDepth {
				return nil, badDocument("has too many elements, or they are too deep")
			}
			if reason := badName(t); reason != "" {
				return nil, badDocument(reason)
			}
			e := &element{name: t.Name}
			switch {
			case len(open) > 0:
				parent := open[len(open)-1]
				parent.children = append(parent.children, e)
			case root != nil:
				return nil, badDocument("has two roots")
			default:
				root = e
			}
			open = append(open, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 {
				open[len(open)-1].text += string(t)
			}
		}
	}
}

// badName is the reason why the names of an element are not allowed, or "".
func badName(e xml.StartElement) string {
	for _, a := range e.Attr {
		if a.Name.Space == "xmlns" && a.Value == "" {
			return "binds a prefix to no namespace" // Namespaces in XML 1.0, section 2.2
		}
	}
	if strings.ContainsRune(e.Name.Local, ':') {
		return "has a name with two colons"
	}
	return ""
}

// A query is the body of a PROPFIND.
type query struct {
	names     []xml.Name // nil: everything
	include   []xml.Name // beside everything
	namesOnly bool
}

// namesFor are the properties that are asked for of a resource.
func (a *query) namesFor(r *resource) []xml.Name {
	if a.names != nil {
		return a.names
	}
	var names []xml.Name
	for _, name := range everything {
		if properties[name].has(r) {
			names = append(names, xml.Name{Space: "DAV:", Local: name})
		}
	}
	return append(names, a.include...)
}

// readPropfind reads the body of a PROPFIND. None asks for everything.
func readPropfind(r io.Reader) (*query, error) {
	root, err := readDocument(r)
	if err != nil || root == nil {
		return &query{}, err
	}
	prop, all, names := root.child("prop"), root.child("allprop"), root.child("propname")
	given := 0
	for _, e := range []*element{prop, all, names} {
		if e != nil {
			given++
		}
	}
	if !root.is("propfind") || given != 1 {
		return nil, badDocument("must be a propfind with one of prop, allprop and propname")
	}
	q := &query{namesOnly: names != nil}
	if prop != nil {
		q.names = make([]xml.Name, 0, len(prop.children))
		for _, p := range prop.children {
			q.names = append(q.names, p.name)
		}
	}
	if include := root.child("include"); include != nil && all != nil {
		for _, p := range include.children {
			q.include = append(q.include, p.name)
		}
	}
	return q, nil
}

// readProppatch reads the body of a PROPPATCH: the names of the properties that it
// is about.
func readProppatch(r io.Reader) (names []xml.Name, err error) {
	root, err := readDocument(r)
	if err != nil {
		return nil, err
	}
	if root == nil || !root.is("propertyupdate") {
		return nil, badDocument("must be a propertyupdate")
	}
	for _, change := range root.children {
		if prop := change.child("prop"); prop != nil && (change.is("set") || change.is("remove")) {
			for _, p := range prop.children {
				names = append(names, p.name)
			}
		}
	}
	if len(names) == 0 {
		return nil, badDocument("names no property")
	}
	return names, nil
}

// A lockRequest is the body of a LOCK.
type lockRequest struct {
	shared bool
	owner  string // XML, as it is shown
}

// readLock reads the body of a LOCK, nil for none, which refreshes.
func readLock(r io.Reader) (*lockRequest, error) {
	root, err := readDocument(r)
	if err != nil || root == nil {
		return nil, err
	}
	scope, kind := root.child("lockscope"), root.child("locktype")
	if !root.is("lockinfo") || scope == nil || kind == nil || kind.child("write") == nil {
		return nil, badDocument("must be a lockinfo for a write lock")
	}
	l := &lockRequest{shared: scope.child("shared") != nil}
	if !l.shared && scope.child("exclusive") == nil {
		return nil, badDocument("must ask for an exclusive lock or a shared one")
	}
	if owner := root.child("owner"); owner != nil {
		l.owner = shownOwner(owner)
	}
	return l, nil
}

// maxOwner bounds the owner that a client names with a lock, in bytes.
const maxOwner = 1024

// shownOwner is the owner of a lock as others are shown it: an address or a text.
func shownOwner(e *element) string {
	if href := e.child("href"); href != nil {
		return "<D:href>" + escape(short(href.text)) + "</D:href>"
	}
	return escape(short(e.text))
}

func short(text string) string {
	text = strings.TrimSpace(text)
	if len(text) > maxOwner {
		text = strings.ToValidUTF8(text[:maxOwner], "")
	}
	return text
}
