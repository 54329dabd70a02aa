package webdav

// proppatch refuses to change any property: the VFS keeps none but its own, which
// are protected. RFC 4918 asks such a server to say so of each property.
func (q *request) proppatch() error {
	names, err := readProppatch(q.Body)
	if err != nil {
		return err
	}
	r, err := q.find(q.at, "vfs:write")
	if err != nil {
		return err
	}
	if err := q.mayChange(r.at, false); err != nil {
		return err
	}
	return q.multistatus(func(l *listing) error {
		l.b.WriteString("<D:response><D:href>" + escape(r.href()) + "</D:href>" +
			propstat(names, "403 Forbidden", "<D:error><D:cannot-modify-protected-property/></D:error>") + "</D:response>")
		return nil
	})
}
