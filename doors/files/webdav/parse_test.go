package webdav

import (
	"strings"
	"testing"

	"github.com/aibridge/aibridge/vfs"
)

func FuzzIf(f *testing.F) {
	for _, seed := range []string{"", `(<urn:a>)`, `<http://h/dav/g/f> (<urn:a> ["b"]) (Not <urn:c>)`, `(Not Not`, `<a`, `(["x])`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		c, err := parseIf(header)
		if err != nil {
			return
		}
		n := 0
		for _, l := range c.lists {
			if n += len(l.conditions); len(l.conditions) == 0 {
				t.Errorf("%q has an empty list", header)
			}
			for _, one := range l.conditions {
				if (one.token == "") == (one.etag == "") {
					t.Errorf("%q has a condition that is %+v", header, one)
				}
			}
		}
		if n > maxConditions || header != "" && len(c.lists) == 0 {
			t.Errorf("%q has %d conditions in %d lists", header, n, len(c.lists))
		}
	})
}

func FuzzDocument(f *testing.F) {
	for _, seed := range []string{
		``, `<propfind xmlns="DAV:"><prop><getetag/></prop></propfind>`, `<D:propfind xmlns:D="DAV:"><D:allprop/><D:include><a/></D:include></D:propfind>`,
		`<!DOCTYPE a><a/>`, `<a><b>&#x41;</b></a>`, `<lockinfo xmlns="DAV:"><lockscope><shared/></lockscope><locktype><write/></locktype><owner>me</owner></lockinfo>`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if q, err := readPropfind(strings.NewReader(text)); err == nil && len(q.names)+len(q.include) > maxNames {
			t.Errorf("%d names", len(q.names))
		}
		if l, err := readLock(strings.NewReader(text)); err == nil && l != nil && strings.Contains(strings.ReplaceAll(l.owner, "D:href>", ""), "<b") {
			t.Errorf("the owner is %s", l.owner)
		}
		_, _ = readProppatch(strings.NewReader(text))
	})
}

func FuzzTarget(f *testing.F) {
	for _, seed := range []string{"/dav", "/dav/", "/dav/g", "/dav/g/", "/dav/g/a/b", "/dav/g/../x", "/dav/g/\x00", "/dav//g", "/davx/g"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		at, err := parseTarget(path)
		if err != nil {
			return
		}
		if !at.root() && vfs.CheckGroup(at.group) != nil {
			t.Errorf("%q is in the group %q", path, at.group)
		}
		if at.path != "" {
			if _, err := vfs.CleanPath(at.path); err != nil || vfs.IsMarker(at.path) {
				t.Errorf("%q has the path %q", path, at.path)
			}
		}
	})
}
