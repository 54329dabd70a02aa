package webdav

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// mayChange refuses a locked resource with 423, unless the locks are the principal's
// and the request names their tokens. With deep, locks below it count too.
func (q *request) mayChange(at target, deep bool) error {
	roots := q.door.locks.inTheWay(q.who, at.name(), deep, q.condition.tokens())
	if len(roots) == 0 {
		return nil
	}
	return conditionError{http.StatusLocked, "lock-token-submitted", hrefs(roots)}
}

// mayEnter is mayChange for a resource that is added or removed, which changes its
// folder as well.
func (q *request) mayEnter(at target, deep bool) error {
	if err := q.mayChange(at, deep); err != nil {
		return err
	}
	if parent := at.parent(); !parent.root() {
		return q.mayChange(parent, false)
	}
	return nil
}

func hrefs(roots []string) (list []string) {
	for _, root := range roots {
		group, path, _ := strings.Cut(root, "/")
		list = append(list, target{group: group, path: path}.href(false))
	}
	return list
}

// lock makes a lock or prolongs one. A file that is not there is made, empty, as
// RFC 4918 (section 9.10.4) wants it.
func (q *request) lock() error {
	asked, err := readLock(q.Body)
	if err != nil {
		return err
	}
	timeout := lockTime(q.Header.Get("Timeout"))
	if asked == nil {
		return q.refresh(timeout)
	}
	deep := true
	switch q.Header.Get("Depth") {
	case "0":
		deep = false
	case "", "infinity":
	default:
		return protocol.InvalidParam("Depth", "must be 0 or infinity")
	}
	if q.at.root() {
		return protocol.Errorf(protocol.VFSPermission, "the folder of all groups cannot be locked")
	}
	r, there, err := q.findMaybe(q.at, "vfs:write")
	if err != nil {
		return err
	}
	if err := q.condition.hold(q, r); err != nil {
		return err
	}
	l, inTheWay, err := q.door.locks.take(q.Context(), q.who, Lock{
		Root: q.at.name(), Folder: r.folder, Deep: deep, Shared: asked.shared, Comment: asked.owner,
	}, timeout)
	if err != nil {
		return err
	}
	if len(inTheWay) > 0 {
		return conditionError{http.StatusLocked, "no-conflicting-lock", hrefs(inTheWay)}
	}
	status := http.StatusOK
	if !there {
		status = http.StatusCreated
		if err := q.makeEmpty(); err != nil {
			q.takeBack(l.token)
			return err
		}
	}
	q.w.Header().Set("Lock-Token", "<"+l.token+">")
	q.answerLock(status, l)
	return nil
}

// takeBack removes a lock that the client is not told of, also when it has hung up.
func (q *request) takeBack(token string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(q.Context()), 10*time.Second)
	defer cancel()
	q.door.locks.leave(token)
	q.door.locks.drop(ctx, token)
}

// makeEmpty makes an empty file for a lock.
func (q *request) makeEmpty() error {
	if q.at.path == "" || q.at.slash {
		return conflict(q.at)
	}
	if err := q.inFolder(q.at); err != nil {
		return err
	}
	files, err := q.door.Files.Enter(q.Context(), q.who, "vfs:write", q.at.group)
	if err != nil {
		return err
	}
	_, err = files.Put(q.Context(), q.at.group, q.at.path, strings.NewReader(""), vfs.PutOptions{IfVersion: new(uint64), Size: 0})
	q.door.Files.Tell(q.Request, q.who, "vfs.put", q.at.group, q.at.path, err)
	return err
}

func (q *request) refresh(timeout time.Duration) error {
	for token := range q.condition.tokens() {
		l, ok, err := q.door.locks.refresh(q.Context(), q.who, q.at.name(), token, timeout)
		if err != nil {
			return err
		}
		if ok {
			q.answerLock(http.StatusOK, l)
			return nil
		}
	}
	return conditionError{http.StatusPreconditionFailed, "lock-token-matches-request-uri", nil}
}

func (q *request) answerLock(status int, l heldLock) {
	q.xml(status, `<D:prop xmlns:D="DAV:"><D:lockdiscovery>`+l.show(q.door.Now(), true)+`</D:lockdiscovery></D:prop>`)
}

// activeLocks are the locks of a resource, as lockdiscovery shows them. Tokens are
// shown to their holders alone.
func (q *request) activeLocks(at target) string {
	var b strings.Builder
	for _, l := range q.door.locks.of(q.who.Home(), at.name()) {
		b.WriteString(l.show(q.door.Now(), l.Owner.Is(q.who)))
	}
	return b.String()
}

// show is the lock as an activelock element.
func (l *heldLock) show(now time.Time, token bool) string {
	scope, depth := "exclusive", "0"
	if l.Shared {
		scope = "shared"
	}
	if l.Deep {
		depth = "infinity"
	}
	group, path, _ := strings.Cut(l.Root, "/")
	text := "<D:activelock><D:locktype><D:write/></D:locktype><D:lockscope><D:" + scope + "/></D:lockscope><D:depth>" + depth + "</D:depth>"
	if l.Comment != "" {
		text += "<D:owner>" + l.Comment + "</D:owner>"
	}
	text += "<D:timeout>Second-" + strconv.FormatInt((l.Expires-now.UnixMilli())/1000, 10) + "</D:timeout>"
	if token {
		text += "<D:locktoken><D:href>" + l.token + "</D:href></D:locktoken>"
	}
	return text + "<D:lockroot><D:href>" + escape(target{group: group, path: path}.href(l.Folder)) + "</D:href></D:lockroot></D:activelock>"
}

// lockTime is the life of a lock: the first wish of the client, within bounds.
func lockTime(wish string) time.Duration {
	first, _, _ := strings.Cut(wish, ",")
	first = strings.TrimSpace(first)
	if first == "Infinite" {
		return maxTimeout
	}
	seconds, err := strconv.ParseUint(strings.TrimPrefix(first, "Second-"), 10, 32)
	if err != nil || seconds == 0 {
		return defaultTimeout
	}
	return min(maxTimeout, time.Duration(seconds)*time.Second)
}

// unlock ends a lock.
func (q *request) unlock() error {
	token := q.Header.Get("Lock-Token")
	if len(token) < 2 || token[0] != '<' || token[len(token)-1] != '>' {
		return protocol.InvalidParam("Lock-Token", "must be a token in <>")
	}
	token = token[1 : len(token)-1]
	q.door.locks.await(q.Context(), map[string]bool{token: true})
	released, err := q.door.locks.release(q.Context(), q.who, q.at.name(), token)
	if err != nil {
		return err
	}
	if !released {
		return conditionError{http.StatusConflict, "lock-token-matches-request-uri", nil}
	}
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}
